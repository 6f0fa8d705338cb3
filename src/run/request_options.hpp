// What a request says besides its prompt and how it samples: one table, from which the command line, C, C++ and Python
// take the words. HTTP has other forms of some (serve/request.cpp); tests/faces_test.cpp compares all five.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "run/request.hpp"

namespace kvasir::run {

struct RequestOptions {
  std::int32_t n_predict = -1;
  std::vector<std::string> stop;
  std::vector<std::string> logit_bias;  // see add_logit_bias
  std::string json_schema;
  std::int32_t logprobs = -1;
  bool ignore_eos = false;
  std::int32_t prefix_tokens = 0;
  bool add_bos = true;
  bool special = true;
  std::string tenant;
  std::string select;
  std::string lora;
  std::vector<std::string> draft;
};

// The rows that every face has, for a struct with these members: that one, or one with more.
template <class T>
std::vector<typename OptionTable<T>::Row> request_rows() {
  return {{"n_predict",
           static_cast<std::int32_t T::*>(&T::n_predict),
           {.help = "most tokens to generate; -1 is until the end of the text or of the context",
            .unit = "tokens",
            .letter = 'n',
            .low = -1,
            .high = 1 << 24}},
          {"stop",
           static_cast<std::vector<std::string> T::*>(&T::stop),
           {.help = "end before this text; may be given more than once", .placeholder = "TEXT"}},
          {"logit_bias",
           static_cast<std::vector<std::string> T::*>(&T::logit_bias),
           {.help = "add NUMBER to a token's logit; may be given more than once", .placeholder = "ID=NUMBER"}},
          {"json_schema",
           static_cast<std::string T::*>(&T::json_schema),
           {.help = "generate JSON that conforms to this JSON Schema; on the command line also a file that holds one",
            .placeholder = "JSON"}},
          {"logprobs",
           static_cast<std::int32_t T::*>(&T::logprobs),
           {.help = "log-probability of every token and of this many alternatives; -1 is none. On the command line "
                    "with --json",
            .low = -1,
            .high = 100}},
          {"ignore_eos", static_cast<bool T::*>(&T::ignore_eos), {.help = "go on when the model ends its text"}},
          {"prefix_tokens",
           static_cast<std::int32_t T::*>(&T::prefix_tokens),
           {.help = "so many of the prompt's first tokens see each other both ways, in models trained so (HRM-Text's "
                    "prefix_lm); they are computed in one step and reused whole. -1 is all of the prompt",
            .unit = "tokens",
            .low = -1,
            .high = 1 << 24}}};
}

const OptionTable<RequestOptions>& request_table();

// Everything but prompt and sampling. Throws Error(kBadInput) that names the option.
void fill(Request& request, const RequestOptions& options);

// null: there is none. Throws Error(kBadInput) with `context` for what is no JSON Schema, or asks for what is not kept.
std::shared_ptr<const text::Grammar> read_schema(const std::string& schema, const std::string& context);

}  // namespace kvasir::run
