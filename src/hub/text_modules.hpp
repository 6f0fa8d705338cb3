// What sentence-transformers keeps beside a model (modules.json): how vectors of texts are made of its states.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvasir::hub {

struct TextModules {
  std::optional<std::int64_t> pooling;  // 1 mean, 2 first token, 3 last token: ARCH.pooling_type
  std::vector<std::string> dense;       // folders of matrices that vectors go through, in order
  bool tanh = false;                    // of what each of these gives
};

// Of the folder `path`; nothing of one without modules.json. Throws Error naming file, field and expectation.
TextModules read_text_modules(const std::string& path);

}  // namespace kvasir::hub
