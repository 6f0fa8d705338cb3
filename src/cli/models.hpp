// Models that are named "hf:OWNER/REPO[:QUANT]" on a command line.
#pragma once

#include <string>

#include "run/drafting.hpp"

namespace kvasir::cli {

// A path as it is. For "hf:..." the file of the models' folder, after a download with a progress bar if it is not
// there. Throws as client::pull_model.
std::string local_model(const std::string& model);

// The same of the files that drafters name.
void settle_drafts(run::DraftOptions& options);

// Downloads with a bar on stderr; Ctrl-C stops, and the next call goes on. Returns the path.
std::string pull_with_bar(const std::string& model);

}  // namespace kvasir::cli
