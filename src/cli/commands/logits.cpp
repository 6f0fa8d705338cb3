// kvasir logits: the logits of every token of a sequence, to compare engines, paths and machines.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/hash.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "run/engine.hpp"
#include "run/prefix.hpp"

namespace kvasir::cli::commands_logits {
namespace {

struct LogitsOptions {
  std::string tokens;
  std::string tokens_file;
  std::string out;
  std::int32_t prefix_tokens = 0;
  bool json = false;
};

const OptionTable<LogitsOptions>& table() {
  using O = LogitsOptions;
  static const OptionTable<O> t{
      "logits",
      {{"tokens", &O::tokens, {.help = "token ids, separated by commas or spaces", .placeholder = "IDS"}},
       {"tokens_file",
        &O::tokens_file,
        {.help = "JSON: a list of ids, or an object with one under \"tokens\"", .placeholder = "FILE"}},
       {"out",
        &O::out,
        {.help = "where to write the logits: float32, (tokens, vocabulary), row-major", .placeholder = "FILE"}},
       {"prefix_tokens",
        &O::prefix_tokens,
        {.help = "so many of the first tokens see each other both ways, as the option of run; -1 is all",
         .unit = "tokens",
         .low = -1,
         .high = 1 << 24}},
       {"json", &O::json, {.help = "one object with the shape and the hashes"}}}};
  return t;
}

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] == ',' || text[i] == ' ' || text[i] == '\n' || text[i] == '\t') {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    if (end == i || end - i > 9)
      throw Error(Code::kBadInput, "'" + text.substr(i, 12) + "' is not a token id", "--tokens");
    ids.push_back(std::stoi(text.substr(i, end - i)));
    i = end;
  }
  return ids;
}

std::vector<std::int32_t> ids_from_json(const std::string& path) {
  nlohmann::json json = parse_json(read_text_file(path), path);
  // Moved, and below only shown when plain: copying and printing recurse, and a file may nest a million lists.
  if (json.is_object() && json.contains("tokens")) {
    nlohmann::json list = std::move(json["tokens"]);
    json = std::move(list);
  }
  if (!json.is_array())
    throw Error(Code::kBadInput, "expected a list of token ids, or an object with one under \"tokens\"", path);
  std::vector<std::int32_t> ids;
  for (const auto& v : json) {
    if (!v.is_number_integer() || v.get<double>() < 0 || v.get<double>() > 2e9)
      throw Error(Code::kBadInput,
                  "token " + std::to_string(ids.size()) + " is " + (v.is_primitive() ? v.dump() : v.type_name()) +
                      ", expected an id",
                  path);
    ids.push_back(v.get<std::int32_t>());
  }
  return ids;
}

int logits(const LogitsOptions& o, run::EngineOptions engine_options) {
  if (o.tokens.empty() == o.tokens_file.empty())
    throw Error(Code::kBadInput, "expected one of --tokens IDS and --tokens-file FILE", "tokens");
  const std::vector<std::int32_t> ids = o.tokens.empty() ? ids_from_json(o.tokens_file) : parse_ids(o.tokens);
  if (ids.empty()) throw Error(Code::kBadInput, "is empty, expected at least one id", "tokens");
  if (engine_options.ctx == 0) engine_options.ctx = static_cast<std::int32_t>(std::max<std::size_t>(ids.size(), 1));
  run::Engine engine(engine_options, {.logits = engine_options.chunk});
  engine.check_ids(ids);
  if (static_cast<std::int64_t>(ids.size()) > engine.context())
    throw Error(Code::kBadInput,
                "has " + std::to_string(ids.size()) + " ids, expected at most the context's " +
                    std::to_string(engine.context()),
                "tokens");
  run::Request request{.prompt = ids, .runs = {}, .prefix_tokens = o.prefix_tokens};
  run::check_prefix(engine, request);
  run::take_prefix(engine, request);
  engine.choose_codecs(ids);
  kv::Sequence* sequence = engine.cache().create();
  std::vector<float> all;
  all.reserve(ids.size() * static_cast<std::size_t>(engine.model().spec().vocab));
  for (std::size_t i = 0; i < ids.size();) {
    const std::size_t n = std::min<std::size_t>(static_cast<std::size_t>(engine_options.chunk), ids.size() - i);
    const model::Input input{.sequence = sequence,
                             .tokens = std::span(request.prompt).subspan(i, n),
                             .logits = static_cast<int>(n),
                             .runs = request.runs,
                             .at = static_cast<std::int64_t>(i)};
    const auto rows = engine.forward().step({&input, 1});
    all.insert(all.end(), rows.begin(), rows.end());
    i += n;
  }
  const auto bytes = std::as_bytes(std::span(all));
  if (!o.out.empty()) write_file(o.out, bytes);
  const std::string hash = fmt::format("{:016x}", hash_bytes(bytes));
  const std::string cache_hash = fmt::format("{:016x}", engine.cache().bytes().digest(*sequence));
  if (o.json)
    print_json_row({{"tokens", ids.size()},
                    {"vocab", engine.model().spec().vocab},
                    {"logits_hash", hash},
                    {"cache_hash", cache_hash}});
  else
    fmt::print("logits {} x {}  hash {}  cache {}\n", ids.size(), engine.model().spec().vocab, hash, cache_hash);
  return kSuccess;
}

Action setup(Flags& flags) {
  struct Settings {
    LogitsOptions logits;
    run::EngineOptions engine;
  };
  auto settings = std::make_shared<Settings>();
  add_options(flags, run::engine_table(), settings->engine);
  add_options(flags, table(), settings->logits);
  return [settings] {
    settings->engine.model = local_model(settings->engine.model);
    return logits(settings->logits, settings->engine);
  };
}

}  // namespace

const Command entry{"compute the logits of given tokens", setup};

}  // namespace kvasir::cli::commands_logits
