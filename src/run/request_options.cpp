#include "run/request_options.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "text/json_schema.hpp"

namespace kvasir::run {

const OptionTable<RequestOptions>& request_table() {
  using O = RequestOptions;
  static const OptionTable<O> table{
      "request", [] {
        auto rows = request_rows<O>();
        const std::vector<OptionTable<O>::Row> more{
            {"add_bos",
             &O::add_bos,
             {.help = "put the model's BOS token in front of a text, where the model wants one"}},
            {"special", &O::special, {.help = "special tokens written in a text are read as such"}},
            {"tenant", &O::tenant, {.help = "whose cache it is: tenants never meet"}},
            {"select",
             &O::select,
             {.help = "which blocks the answer's tokens read, as the engine's option of that name"}},
            {"lora",
             &O::lora,
             {.help = "which of the engine's adapters add to it, NAME or NAME=SCALE, several with commas, or none; a "
                      "NAME is that of a file or folder without extension, or a number from 0; default: all as the "
                      "engine has them"}},
            {"draft",
             &O::draft,
             {.help = "the engine's drafters that draft for it: true is all, false none, a name one; may be given more "
                      "than "
                      "once"}}};
        rows.insert(rows.end(), more.begin(), more.end());
        return rows;
      }()};
  return table;
}

std::shared_ptr<const text::Grammar> read_schema(const std::string& schema, const std::string& context) {
  if (schema.empty()) return nullptr;
  const auto json = nlohmann::ordered_json::parse(schema, nullptr, false);
  if (json.is_discarded()) throw Error(Code::kBadInput, "is not JSON", context);
  try {
    return text::grammar_of_schema(json, text::Unknown::kRefuse);
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), context);
  }
}

void fill(Request& request, const RequestOptions& o) {
  request.max_tokens = o.n_predict;
  request.stop = o.stop;
  request.select = o.select;
  request.lora = o.lora;
  request.top_logprobs = o.logprobs;
  request.ignore_eos = o.ignore_eos;
  request.prefix_tokens = o.prefix_tokens;
  request.grammar = read_schema(o.json_schema, "json_schema");
}

}  // namespace kvasir::run
