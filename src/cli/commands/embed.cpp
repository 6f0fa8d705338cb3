// kvasir embed -m MODEL [-p TEXT|-f FILE|--tokens-file FILE] [--lines] [--pooling KIND] [--dimensions N] [--raw]
#include "run/embed.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/standard_input.hpp"
#include "run/encoder.hpp"
#include "run/scheduler.hpp"

namespace kvasir::cli::commands_embed {
namespace {

struct EmbedOptions {
  std::string model;
  std::string prompt;
  std::string file;
  std::string tokens_file;
  bool lines = false;
  bool exact = false;
  std::int32_t threads = 0;
};

const OptionTable<EmbedOptions>& table() {
  using O = EmbedOptions;
  static const OptionTable<O> t{
      "embed",
      {{"model", &O::model, {.help = "model file", .letter = 'm', .placeholder = "FILE", .required = true}},
       {"prompt", &O::prompt, {.help = "the text", .letter = 'p', .placeholder = "TEXT"}},
       {"file",
        &O::file,
        {.help = "read the text from a file; standard input when neither is given, or -",
         .letter = 'f',
         .placeholder = "FILE"}},
       {"tokens_file",
        &O::tokens_file,
        {.help = "JSON: a text's token ids in place of a text, or lists of them", .placeholder = "FILE"}},
       {"exact",
        &O::exact,
        {.help = "multiply in 32-bit floats, whatever the file's weights are: slower, for comparisons"}},
       {"lines", &O::lines, {.help = "every line is a text of its own; empty ones are left out"}},
       {"threads", &O::threads, {.help = "0 is one per core", .letter = 't', .low = 0, .high = 512}}}};
  return t;
}

std::vector<std::string> texts_of(const EmbedOptions& o) {
  if (!o.prompt.empty() && !o.file.empty())
    throw Error(Code::kBadInput, "expected one of -p TEXT and -f FILE, found both", "embed");
  const std::string all = !o.prompt.empty()                 ? o.prompt
                          : o.file.empty() || o.file == "-" ? read_standard_input()
                                                            : read_text_file(o.file);
  if (!o.lines) return {all};
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    at = end + 1;
  }
  if (lines.empty()) throw Error(Code::kBadInput, "holds no text, expected lines", o.file.empty() ? "-p" : o.file);
  return lines;
}

// A model that reads, or one that also writes, with as much context as it was made for.
struct Reader {
  explicit Reader(const EmbedOptions& o) {
    run::EngineOptions engine_options;
    engine_options.model = o.model;
    engine_options.threads = o.threads;
    engine_options.exact = o.exact;
    const std::string name = o.model;
    if (run::is_encoder(o.model)) {
      encoder = std::make_unique<run::Encoder>(engine_options, name, 1);
      service = encoder.get();
      return;
    }
    engine = std::make_unique<run::Engine>(engine_options, run::Engine::Needs{});
    scheduler = std::make_unique<run::Scheduler>(*engine, run::SchedulerOptions{.running = 1}, name);
    service = scheduler.get();
  }
  std::unique_ptr<run::Encoder> encoder;
  std::unique_ptr<run::Engine> engine;
  std::unique_ptr<run::Scheduler> scheduler;
  run::Service* service = nullptr;
};

// One list of ids, or lists of them.
std::vector<std::vector<std::int32_t>> ids_of(const std::string& path) {
  const nlohmann::json json = parse_json(read_text_file(path), path);
  std::vector<std::vector<std::int32_t>> texts;
  const auto add = [&](const nlohmann::json& list) {
    std::vector<std::int32_t>& ids = texts.emplace_back();
    for (const nlohmann::json& id : list) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() > INT32_MAX)
        throw Error(Code::kBadInput, "expected token ids", path);
      ids.push_back(id.get<std::int32_t>());
    }
  };
  if (!json.is_array() || json.empty()) throw Error(Code::kBadInput, "expected a list of token ids, or lists", path);
  if (!json[0].is_array()) return add(json), texts;
  for (const nlohmann::json& list : json) {
    if (!list.is_array()) throw Error(Code::kBadInput, "expected a list of token ids, or lists", path);
    add(list);
  }
  return texts;
}

int embed(const EmbedOptions& o, const run::EmbedOptions& how) {
  if (!o.tokens_file.empty() && (!o.prompt.empty() || !o.file.empty()))
    throw Error(Code::kBadInput, "expected one of a text and --tokens-file, found both", "embed");
  const auto ids = o.tokens_file.empty() ? std::vector<std::vector<std::int32_t>>() : ids_of(o.tokens_file);
  const std::vector<std::string> texts = o.tokens_file.empty() ? texts_of(o) : std::vector<std::string>();
  Reader reader(o);
  run::Service& service = *reader.service;
  const text::Tokenizer* tokenizer = service.tokenizer();
  if (!tokenizer && ids.empty())
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", o.model);
  const bool ranks = how.pooling == model::name(model::Pooling::kRank);
  const model::Pooling pooling = ranks ? model::Pooling::kRank : run::pooling_of(how, service.card());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::int64_t tokens = 0, width = 0;
  for (std::size_t i = 0; i < std::max(ids.size(), texts.size()); ++i) {
    const auto prompt =
        !ids.empty() ? ids[i]
                     : tokenizer->encode(texts[i], {.add_bos = tokenizer->add_bos(), .add_eos = tokenizer->add_eos()});
    const run::Embedding e = run::embed_tokens(service, prompt, pooling, how);
    tokens += e.tokens;
    width = static_cast<std::int64_t>(e.vector.size());
    rows.push_back(e.vector);
  }
  nlohmann::ordered_json out{
      {"model", o.model}, {"pooling", model::name(pooling)}, {"dimensions", width}, {"tokens", tokens}};
  out[ranks ? "scores" : "embeddings"] = std::move(rows);
  print_json_row(out);
  return kSuccess;
}

Action setup(Flags& flags) {
  auto options = std::make_shared<EmbedOptions>();
  auto how = std::make_shared<run::EmbedOptions>();
  add_options(flags, table(), *options);
  add_options(flags, run::embed_table(), *how);
  return [options, how] {
    options->model = local_model(options->model);
    return embed(*options, *how);
  };
}

}  // namespace

const Command entry{"print the vectors of texts as JSON", setup};

}  // namespace kvasir::cli::commands_embed
