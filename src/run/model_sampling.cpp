#include "run/model_sampling.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"

namespace kvasir::run {
namespace {

constexpr std::pair<const char*, const char*> kSamplingKeys[] = {
    {"temp", "temperature"},
    {"top_k", "top_k"},
    {"top_p", "top_p"},
    {"min_p", "min_p"},
    {"penalty_repeat", "repetition_penalty"},
    {"penalty_last_n", "penalty_last_n"},
};
// Stages that are not here, and where they do nothing.
constexpr std::pair<const char*, double> kOtherStages[] = {{"xtc_probability", 0}, {"mirostat", 0}};

std::string sampling_key(const char* name) { return fmt::format("general.sampling.{}", name); }

std::size_t index_of(std::string_view option) {
  const auto specs = sampling_table().specs();
  std::size_t i = 0;
  while (specs[i].name != option) ++i;
  return i;
}

OptionValue value_of(const OptionSpec& spec, double x) {
  if (spec.kind == OptionKind::kInt) return static_cast<std::int64_t>(x);
  return x;
}

// 0 and less turn these off in llama.cpp, which may write them so.
double as_meant(std::string_view option, double x) {
  return option == "temperature" || option == "top_k" ? std::max(0.0, x) : x;
}

}  // namespace

void ModelSampling::fill(SamplingOptions& options, const std::function<bool(const std::string& name)>& given) const {
  for (const auto& [name, value] : values) {
    if (given(name)) continue;
    const std::size_t i = index_of(name);
    sampling_table().set(options, i, value_of(sampling_table().specs()[i], value), name);
  }
}

ModelSampling read_model_sampling(const weights::Metadata& metadata) {
  ModelSampling out;
  const auto say = [&](const std::string& what) { out.note += (out.note.empty() ? "" : "; ") + what; };
  for (const auto& [key, option] : kSamplingKeys) {
    const std::string name = sampling_key(key);
    try {
      const auto found = metadata.get_float(name);
      if (!found) continue;
      const double x = as_meant(option, *found);
      const OptionSpec& spec = sampling_table().specs()[index_of(option)];
      if (spec.kind == OptionKind::kInt && (std::abs(x) > 2147483647 || x != std::floor(x)))
        throw Error(Code::kBadInput, fmt::format("{}, expected {}", x, spec.expects()), name);
      check_option(spec, value_of(spec, x), name);
      out.values[option] = x;
    } catch (const Error& e) {
      say(fmt::format("{} is not used: {}", name, e.what()));
    }
  }
  for (const auto& [key, off] : kOtherStages) {
    const std::string name = sampling_key(key);
    if (metadata.has(name) && metadata.get_float(name) != off)
      say(fmt::format("{} is not used: there is no such stage here", name));
  }
  if (metadata.has(sampling_key("sequence")))
    say(fmt::format("{} is not used: stages have one order here", sampling_key("sequence")));
  return out;
}

}  // namespace kvasir::run
