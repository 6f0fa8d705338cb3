// kvasir eval codec: codecs on captured keys and values.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/error.hpp"
#include "cli/config.hpp"
#include "cli/eval.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "kv/codec.hpp"
#include "lab/eval/capture.hpp"
#include "lab/eval/codec_trial.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::cli {
namespace {

using lab::eval::CodecRow;
using lab::eval::KvPair;
using lab::eval::Sides;

struct CodecOptions {
  std::vector<std::string> files;
  std::int64_t tokens = 1024;
  std::string save;
  std::string kv;
  std::int32_t queries = 64;
  std::int64_t seed = 1;
  std::int32_t threads = 0;
  bool json = false;
};

const OptionTable<CodecOptions>& eval_codec_table() {
  using O = CodecOptions;
  static const OptionTable<O> t{
      "codec",
      {{"kv_file",
        &O::files,
        {.help = "captured keys, or keys and values, of a layer; may be given more than once",
         .placeholder = "KEYS[,VALUES]"}},
       {"tokens", &O::tokens, {.help = "how many to capture", .unit = "tokens", .low = 2, .high = 1 << 24}},
       {"save",
        &O::save,
        {.help = "keep what was captured: PREFIX_layerN_keys.bin, _values.bin and _queries.bin",
         .placeholder = "PREFIX"}},
       {"kv",
        &O::kv,
        {.help = "presets, codecs or KEYS/VALUES, separated by commas; empty is every codec", .placeholder = "LIST"}},
       {"queries", &O::queries, {.help = "Gaussian queries per head", .low = 1, .high = 1 << 20}},
       {"seed", &O::seed, {.help = "of the queries", .low = 0}},
       {"threads", &O::threads, {.help = "for capturing; 0 is one per core", .letter = 't', .low = 0, .high = 512}},
       {"json", &O::json, {.help = "one object per choice of codecs and layer, and one for all layers"}}}};
  return t;
}

struct EvalCodecSettings {
  CodecOptions codec;
  std::vector<std::string> capture;  // MODEL, TEXT
};

struct Choice {
  std::string name;
  std::vector<Sides> sides;  // per layer
};

std::vector<Choice> choices(const CodecOptions& o, const std::vector<KvPair>& layers) {
  std::vector<Choice> all;
  const bool strict = !o.kv.empty();
  std::vector<std::string> names;
  if (strict)
    names = lab::eval::split_kv(o.kv);
  else
    for (const auto& e : kv::codecs()) names.emplace_back(e.name);
  for (const std::string& name : names) {
    Choice choice{name, {}};
    bool any = false;
    for (const KvPair& pair : layers) {
      choice.sides.push_back(sides_of(name, pair, strict));
      any = any || !choice.sides.back().k.empty() || !choice.sides.back().v.empty();
    }
    if (any)
      all.push_back(std::move(choice));
    else
      fmt::print(stderr, "kvasir: left out {}: it does not store heads of size {}\n", name, layers[0].keys.dim);
  }
  return all;
}

std::vector<KvPair> material(const EvalCodecSettings& s, const std::function<void()>& poll) {
  const CodecOptions& o = s.codec;
  if (o.files.empty() == s.capture.empty())
    throw Error(Code::kBadInput, "expected either --kv-file KEYS[,VALUES] or --capture MODEL TEXT", "eval codec");
  if (!o.save.empty() && s.capture.empty()) throw Error(Code::kBadInput, "goes with --capture only", "--save");
  std::vector<KvPair> layers;
  for (const std::string& f : o.files) layers.push_back(lab::eval::read_kv_pair(f));
  if (!s.capture.empty())
    layers = lab::eval::capture({.model = s.capture[0], .text = s.capture[1], .tokens = o.tokens, .threads = o.threads},
                                poll);
  if (!o.save.empty()) lab::eval::save_capture(o.save, layers);
  return layers;
}

std::vector<std::string> eval_codec_cells(const CodecRow& r) {
  const auto k = [&](const char* format, double x) { return r.has_k ? fmt::format(fmt::runtime(format), x) : "-"; };
  const auto v = [&](const char* format, double x) { return r.has_v ? fmt::format(fmt::runtime(format), x) : "-"; };
  return {r.kv,
          k("{:.3f}", r.bits_k),
          k("{:.2f}", r.k.db()),
          k("{:.2f}", r.k.centred_db()),
          k("{:.4f}", r.scores.slope()),
          k("{:.2e}", r.scores.relative_error()),
          v("{:.3f}", r.bits_v),
          v("{:.2f}", r.v.db()),
          v("{:.2f}", r.v.centred_db()),
          r.has_k && r.has_v ? fmt::format("{:.2e}", r.output_relative_error()) : "-"};
}

nlohmann::ordered_json eval_codec_json_row(const CodecRow& r, nlohmann::ordered_json layer) {
  nlohmann::ordered_json row{{"kv", r.kv}, {"layer", std::move(layer)}};
  if (r.has_k)
    row.update({{"bits_k", r.bits_k},
                {"k_db", r.k.db()},
                {"k_db_centred", r.k.centred_db()},
                {"score_slope", r.scores.slope()},
                {"score_error", r.scores.relative_error()}});
  if (r.has_v) row.update({{"bits_v", r.bits_v}, {"v_db", r.v.db()}, {"v_db_centred", r.v.centred_db()}});
  if (r.has_k && r.has_v) row["output_error"] = r.output_relative_error();
  return row;
}

int run_codec(const EvalCodecSettings& s) {
  Interrupt interrupt;
  const auto stop_if_asked = [&] {
    if (interrupt.requested().load(std::memory_order_relaxed)) throw Error(Code::kCancelled, "stopped", "eval codec");
  };
  const std::vector<KvPair> layers = material(s, stop_if_asked);
  const std::vector<Choice> list = choices(s.codec, layers);
  std::vector<std::vector<std::string>> t{
      {"kv", "bits K", "K dB", "centred", "slope", "score error", "bits V", "V dB", "centred", "output error"}};
  ProgressBar progress("codecs");
  std::uint64_t done = 0;
  for (const Choice& choice : list) {
    CodecRow all;
    all.kv = choice.name;
    for (std::size_t l = 0; l < layers.size(); ++l) {
      stop_if_asked();
      progress.update(done++, list.size() * layers.size());
      const CodecRow row = try_codecs(choice.name, choice.sides[l], layers[l],
                                      {.queries = s.codec.queries, .seed = static_cast<std::uint64_t>(s.codec.seed)});
      if (s.codec.json) print_json_row(eval_codec_json_row(row, layers[l].keys.layer));
      all += row;
    }
    if (s.codec.json && layers.size() > 1) print_json_row(eval_codec_json_row(all, "all"));
    t.push_back(eval_codec_cells(all));
  }
  progress.finish();
  if (s.codec.json) return kSuccess;
  const lab::eval::KvArray& k = layers[0].keys;
  fmt::print("{} layer{} of {} heads, {} tokens, dim {}; {} Gaussian queries per head\n\n", layers.size(),
             layers.size() == 1 ? "" : "s", k.heads, k.tokens, k.dim, s.codec.queries);
  print_table(t);
  return kSuccess;
}

}  // namespace

Action setup_eval_codec(Flags& flags) {
  auto settings = std::make_shared<EvalCodecSettings>();
  flags.values("--capture", settings->capture, 2, "run a model over a text and take its keys and values",
               {.placeholder = "MODEL TEXT", .group = "codec"});
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, eval_codec_table(), settings->codec);
  return [settings, config] {
    if (!config->resolve()) return kSuccess;
    if (!settings->capture.empty()) settings->capture[0] = local_model(settings->capture[0]);
    return run_codec(*settings);
  };
}

}  // namespace kvasir::cli
