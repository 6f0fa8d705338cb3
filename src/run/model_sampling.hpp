// What a model's file recommends for sampling: general.sampling.* of GGUF, which converters take from
// generation_config.json. It stands for what a request or a command line leaves out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "run/sampling_options.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run {

struct ModelSampling {
  std::map<std::string, double, std::less<>> values;  // by name in sampling_table()
  std::string note;  // what the file asks for and is not done here, in words; empty: nothing

  // `otherwise` where the file does not say.
  double get(std::string_view name, double otherwise) const {
    const auto at = values.find(name);
    return at == values.end() ? otherwise : at->second;
  }
  // Sets what the file says, but for names that `given` knows.
  void fill(SamplingOptions& options, const std::function<bool(const std::string& name)>& given) const;
};

// Values outside of an option's range are left out, and the note names them.
ModelSampling read_model_sampling(const weights::Metadata& metadata);

}  // namespace kvasir::run
