#include "run/sampling_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "base/error.hpp"

namespace kvasir::run {

const OptionTable<SamplingOptions>& sampling_table() {
  using O = SamplingOptions;
  static const OptionTable<O> table{
      "sampling",
      {
          {"temperature",
           &O::temperature,
           {.help = "below 1 sharpens, above 1 flattens the distribution; 0 always takes the best token", .low = 0}},
          {"top_k", &O::top_k, {.help = "choose among so many best tokens; 0 is off", .low = 0}},
          {"top_p",
           &O::top_p,
           {.help = "choose among the best tokens up to this total probability; 1 is off", .low = 0, .high = 1}},
          {"min_p",
           &O::min_p,
           {.help = "drop tokens below this fraction of the best one's probability; 0 is off", .low = 0, .high = 1}},
          {"repetition_penalty",
           &O::repetition_penalty,
           {.help = "divides the logits of tokens that occurred; 1 is off", .low = 0.01, .high = 100}},
          {"presence_penalty",
           &O::presence_penalty,
           {.help = "subtracted from the logits of tokens that occurred; 0 is off", .low = -100, .high = 100}},
          {"frequency_penalty",
           &O::frequency_penalty,
           {.help = "subtracted for every occurrence; 0 is off", .low = -100, .high = 100}},
          {"penalty_last_n",
           &O::penalty_last_n,
           {.help = "how far back penalties look, in prompt and answer; -1 is everything, 0 nothing",
            .unit = "tokens",
            .low = -1,
            .high = 1 << 20}},
          {"seed", &O::seed, {.help = "of the random numbers; -1 picks one and reports it", .low = -1}},
      }};
  return table;
}

void add_logit_bias(SamplingOptions& options, std::string_view text) {
  const auto fail = [&] {
    throw Error(Code::kBadInput, fmt::format("'{}', expected TOKEN_ID=NUMBER such as 42=-1.5 or 42=-inf", text),
                "logit_bias");
  };
  std::int32_t id = 0;
  float bias = 0;
  const char* end = text.data() + text.size();
  const auto [equals, id_error] = std::from_chars(text.data(), end, id);
  if (id_error != std::errc() || equals == end || *equals != '=') fail();
  const auto [rest, bias_error] = std::from_chars(equals + 1, end, bias);
  if (bias_error != std::errc() || rest != end) fail();
  options.logit_bias[id] = bias;
}

void validate(const SamplingOptions& options, std::int32_t vocab) {
  sampling_table().validate(options);
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || id >= vocab)
      throw Error(Code::kBadInput, fmt::format("token id {} is outside the vocabulary of {}", id, vocab), "logit_bias");
    if (!(bias <= std::numeric_limits<float>::max()))  // NaN fails too
      throw Error(Code::kBadInput, fmt::format("{} for token {}, expected a finite number or -inf", bias, id),
                  "logit_bias");
  }
}

}  // namespace kvasir::run
