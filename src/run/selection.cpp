#include "run/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "select/spec.hpp"

namespace kvasir::run {

std::vector<OptionTable<EngineOptions>::Row> selection_rows() {
  using O = EngineOptions;
  return {
      {"select",
       &O::select,
       {.help = "which blocks of a long context a generated token reads, NAME or NAME:KEY=VALUE:... (see `kvasir "
                "registries` and docs/long-context.md)",
        .placeholder = "NAME"}},
      {"budget",
       &O::budget,
       {.help = "with --select: most tokens that a generated token reads per layer and KV head, or a share of the "
                "context such as 10%",
        .alias = "--select-budget",
        .placeholder = "TOKENS"}},
      {"select_block",
       &O::select_block,
       {.help = "with --select: tokens that are chosen together: 1, 8, 16, 32, 64 or 128; 0 is the selector's own",
        .unit = "tokens",
        .low = 0,
        .high = 128}},
      {"select_local",
       &O::select_local,
       {.help = "with --select: newest tokens that are always read; -1 is a quarter of the budget, at most 1024",
        .unit = "tokens",
        .low = -1,
        .high = 1 << 30}},
      {"select_initial",
       &O::select_initial,
       {.help = "with --select: first tokens that are always read; -1 is one block, at least 64",
        .unit = "tokens",
        .low = -1,
        .high = 1 << 30}},
      {"select_anchors",
       &O::select_anchors,
       {.help = "with --select fixed or dynamic: keys that stand for a block; 0 is the selector's own",
        .low = 0,
        .high = 128}},
      {"token_step",
       &O::token_step,
       {.help = "with --select: positions that one choice serves; 0 is the selector's own", .low = 0, .high = 1 << 20}},
      {"layer_step",
       &O::layer_step,
       {.help = "with --select: layers that one choice serves; 0 is the selector's own", .low = 0, .high = 4096}},
      {"dense_layers",
       &O::dense_layers,
       {.help = "with --select: first layers that read everything; -1 is the selector's own", .low = -1, .high = 4096}},
      {"head_mode",
       &O::head_mode,
       {.help = "with --select: whether every KV head chooses for itself or all have one choice",
        .choices = {"", "separate", "shared"}}},
      {"preselect",
       &O::preselect,
       {.help = "with --select: blocks of the prompt that stay readable for an answer, chosen by its first token "
                "(SnapKV); 0 is all, -1 the selector's own",
        .low = -1,
        .high = 1 << 30}},
      {"select_prompt",
       &O::select_prompt,
       {.help =
            "with --select: prompts read choices too, one for so many positions: 1, 8, 16, 32, 64 or 128; 0 is none, "
            "-1 the selector's own, none",
        .unit = "positions",
        .low = -1,
        .high = 128}},
      {"select_meter",
       &O::select_meter,
       {.help = "with --select: every so many positions the attention mass that a choice holds is measured; 0 is "
                "never, -1 the selector's own, 64",
        .low = -1,
        .high = 1 << 20}},
      {"select_floor",
       &O::select_floor,
       {.help = "with --select: a measured step whose choice holds less of the attention mass reads everything",
        .low = 0,
        .high = 1}}};
}

std::string selection_of(const EngineOptions& o) {
  std::string text = o.select;
  const auto add = [&](bool given, const char* key, const auto& value) {
    if (given) text += fmt::format(":{}={}", key, value);
  };
  add(o.select_block > 0, "block", o.select_block);
  add(!o.budget.empty(), "budget", o.budget);
  add(o.select_local >= 0, "local", o.select_local);
  add(o.select_initial >= 0, "initial", o.select_initial);
  add(o.select_anchors > 0, "anchors", o.select_anchors);
  add(o.token_step > 0, "token_step", o.token_step);
  add(o.layer_step > 0, "layer_step", o.layer_step);
  add(o.dense_layers >= 0, "dense_layers", o.dense_layers);
  add(!o.head_mode.empty(), "heads", o.head_mode);
  add(o.preselect >= 0, "preselect", o.preselect);
  add(o.select_prompt >= 0, "prompt", o.select_prompt);
  add(o.select_meter >= 0, "meter", o.select_meter);
  add(o.select_floor > 0, "floor", o.select_floor);
  select::parse_select(text, "--select");  // an error names what the user wrote
  return text;
}

static nlohmann::ordered_json mass_of(const kv::SelectionStats::Layer& l) {
  return l.measured > 0 ? nlohmann::ordered_json(l.mass / static_cast<double>(l.measured)) : nullptr;
}

nlohmann::ordered_json selection_stats_json(const kv::SelectionStats::Layer& t) {
  using Json = nlohmann::ordered_json;
  return Json{{"chosen", t.chosen},
              {"dense", t.dense},
              {"read_tokens", t.chosen > 0 ? t.read / static_cast<double>(t.chosen) : 0.0},
              {"seen_tokens", t.chosen > 0 ? t.seen / static_cast<double>(t.chosen) : 0.0},
              {"measured", t.measured},
              {"mass", mass_of(t)},
              {"least_mass", t.measured > 0 ? Json(t.least) : Json(nullptr)}};
}

nlohmann::ordered_json selection_json(const Receipt& receipt) {
  using Json = nlohmann::ordered_json;
  Json masses = Json::array();
  for (const kv::SelectionStats::Layer& l : receipt.selection.layers) masses.push_back(mass_of(l));
  Json json{{"name", receipt.select}};
  json.update(selection_stats_json(receipt.selection.total()));
  json["mass_by_layer"] = masses;
  if (const auto prompts = receipt.selection.prompt_total(); prompts.chosen > 0)
    json["prompt"] = selection_stats_json(prompts);
  return json;
}
namespace {

constexpr const char* kContext = "long_context";

[[noreturn]] void bad(const std::string& key, const std::string& expected) {
  throw Error(Code::kBadInput, "'" + key + "': expected " + expected, kContext);
}

constexpr std::int64_t kAny = 1 << 30;

// Ranges are those of our options, so that what is wrong is said with the file's own word.
std::int64_t integer(const std::string& key, const nlohmann::json& value, std::int64_t low, std::int64_t high = kAny) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    bad(key, fmt::format("an integer from {} {}", low, high < kAny ? fmt::format("to {}", high) : "on"));
  return value.get<std::int64_t>();
}

std::int64_t block_of(const std::string& key, const nlohmann::json& value) {
  const std::int64_t block = integer(key, value, 1);
  if (block != 1 && block != 8 && block != 16 && block != 32 && block != 64 && block != 128)
    bad(key, fmt::format("1, 8, 16, 32, 64 or 128, found {}: a page of 128 tokens has so many blocks", block));
  return block;
}

std::string lower_case(const std::string& key, const nlohmann::json& value) {
  if (!value.is_string()) bad(key, "a string");
  auto text = value.get<std::string>();
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string selector_of(const std::string& key, const nlohmann::json& value) {
  const std::string type = lower_case(key, value);
  for (const auto& [theirs, ours] : {std::pair{"dynamic", "dynamic"},
                                     {"block_mean", "mean"},
                                     {"mean", "mean"},
                                     {"block_max", "max"},
                                     {"max", "max"},
                                     {"fixed", "fixed"},
                                     {"fix", "fixed"},
                                     {"quest", "quest"}})
    if (type == theirs) return ours;
  bad(key, "one of DYNAMIC, BLOCK_MEAN, BLOCK_MAX, FIXED, QUEST");
}

std::string codec_of(const std::string& key, const nlohmann::json& value) {
  const std::string type = lower_case(key, value);
  for (const auto& [theirs, ours] :
       {std::pair{"fp16", "f16"}, {"f16", "f16"}, {"q8_0", "int8_token"}, {"q4_0", "int4_token"}})
    if (type == theirs) return ours;
  bad(key, "one of FP16, Q8_0, Q4_0");
}

}  // namespace

nlohmann::json ktransformers_options(const nlohmann::json& section) {
  if (!section.is_object()) throw Error(Code::kBadInput, "expected an object", kContext);
  // Defaults of its tutorial.
  std::string selector = "dynamic", mode = "shared";
  std::int64_t block = 128, local = 4096, second = 96, anchors = 1, token_step = 1, layer_step = 1, dense = 0;
  std::int64_t preselect_count = 96;
  bool preselect = false;
  nlohmann::json engine = nlohmann::json::object();
  for (const auto& [key, value] : section.items()) {
    if (value.is_null()) {  // "token_step:" without a value is the default
    } else if (key == "chunk_size") {
      engine["chunk"] = integer(key, value, 1, 8192);
    } else if (key == "max_seq_len") {
      engine["ctx"] = integer(key, value, 1, 1 << 24);
    } else if (key == "threads_num") {
      engine["threads"] = integer(key, value, 1, 512);
    } else if (key == "kv_type") {
      engine["kv"] = codec_of(key, value);
    } else if (key == "block_size") {
      block = block_of(key, value);
    } else if (key == "local_windows_len") {
      local = integer(key, value, 0);
    } else if (key == "second_block_count" || key == "second_select_num") {
      second = integer(key, value, 1);
    } else if (key == "preselect_block") {
      if (!value.is_boolean()) bad(key, "true or false");
      preselect = value.get<bool>();
    } else if (key == "preselect_block_count") {
      preselect_count = integer(key, value, 0);
    } else if (key == "token_step") {
      token_step = integer(key, value, 1, 1 << 20);
    } else if (key == "layer_step") {
      layer_step = integer(key, value, 1, 4096);
    } else if (key == "dense_layer_num") {
      dense = integer(key, value, 0, 4096);
    } else if (key == "head_select_mode") {
      mode = lower_case(key, value);
      if (mode != "shared" && mode != "separate") bad(key, "SHARED or SEPARATE");
    } else if (key == "representative_type" || key == "anchor_type") {
      selector = selector_of(key, value);
    } else if (key == "representative_num" || key == "anchor_num") {
      anchors = integer(key, value, 1, 128);
    } else {
      bad(key,
          "one of chunk_size, max_seq_len, threads_num, kv_type, block_size, local_windows_len, second_block_count, "
          "preselect_block, preselect_block_count, token_step, layer_step, dense_layer_num, head_select_mode, "
          "representative_type, representative_num");
    }
  }
  // The representative of a single token is its key, whatever the type.
  if (block == 1) selector = "keys";
  // No block of the prompt is kept: then only first and local ones are read.
  if (preselect && preselect_count == 0) selector = "sink_recent", preselect = false;
  if (preselect) selector += ":window=128:preselect=" + std::to_string(preselect_count);  // its last 128 queries vote
  const std::int64_t initial = block > 32 ? 1 : std::max<std::int64_t>(1, 64 / block);
  engine.update({{"select", selector + ":vote=sum"},
                 {"select_block", block},
                 {"budget", std::to_string((initial + second + local / block) * block)},
                 {"select_local", local},
                 {"token_step", token_step},
                 {"layer_step", layer_step},
                 {"dense_layers", dense},
                 {"head_mode", mode},
                 {"preselect", preselect ? preselect_count : 0}});
  if (selector.starts_with("fixed") || selector.starts_with("dynamic")) engine["select_anchors"] = anchors;
  return engine;
}

}  // namespace kvasir::run
