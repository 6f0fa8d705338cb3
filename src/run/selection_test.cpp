// Options of selection, KTransformers' names, and a request that chooses for itself.
#include "run/selection.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "run/ask.hpp"
#include "run/scheduler.hpp"
#include "select/spec.hpp"

namespace kvasir::run {
namespace {

EngineOptions model_options() {
  EngineOptions o;
  o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  o.ctx = 512;
  o.threads = 1;
  o.window = 0;
  return o;
}

TEST(SelectionOptions, OptionsOverrideTheName) {
  EngineOptions o;
  EXPECT_EQ(selection_of(o), "all");
  o.select = "ktransformers";
  o.budget = "10%";
  o.select_block = 32;
  o.select_local = 256;
  o.select_initial = 0;
  o.select_anchors = 2;
  o.token_step = 5;
  o.layer_step = 3;
  o.dense_layers = 2;
  o.head_mode = "separate";
  o.preselect = 7;
  o.select_meter = 0;
  o.select_floor = 0.5f;
  const select::SelectSpec s = select::parse_select(selection_of(o), "test");
  EXPECT_EQ(s.kind, "dynamic");
  EXPECT_EQ(s.share, 0.1);
  EXPECT_EQ(s.block, 32);
  EXPECT_EQ(s.local, 256);
  EXPECT_EQ(s.initial, 0);
  EXPECT_EQ(s.anchors, 2);
  EXPECT_EQ(s.token_step, 5);
  EXPECT_EQ(s.layer_step, 3);
  EXPECT_EQ(s.dense_layers, 2);
  EXPECT_FALSE(s.shared);
  EXPECT_EQ(s.preselect, 7);
  EXPECT_EQ(s.meter, 0);
  EXPECT_EQ(s.floor, 0.5);
}

// The values of its version 0.1.3: 32 blocks of 128, 4096 local tokens, choices for 100 tokens.
TEST(SelectionOptions, KTransformersNamesAreUnderstood) {
  const nlohmann::json section = {{"block_size", 128},
                                  {"local_windows_len", 4096},
                                  {"second_block_count", 32},
                                  {"preselect_block", true},
                                  {"preselect_block_count", 32},
                                  {"token_step", 100},
                                  {"layer_step", 1},
                                  {"dense_layer_num", 2},
                                  {"head_select_mode", "SHARED"},
                                  {"representative_type", "BLOCK_MEAN"},
                                  {"representative_num", 1}};
  EngineOptions o;
  OptionTable<EngineOptions> table = engine_table();
  table.from_json(o, ktransformers_options(section));
  const select::SelectSpec s = select::parse_select(selection_of(o), "test");
  EXPECT_EQ(s.kind, "mean");
  EXPECT_EQ(s.budget, (1 + 32 + 32) * 128);
  EXPECT_EQ(s.local, 4096);
  EXPECT_EQ(s.block, 128);
  EXPECT_EQ(s.preselect, 32);
  EXPECT_EQ(s.window, 128);
  EXPECT_EQ(s.token_step, 100);
  EXPECT_EQ(s.dense_layers, 2);
  EXPECT_TRUE(s.shared);
  // All keys of its tutorial and of the file that it writes, where one has no value, and the names of its article.
  const auto engine = [](const nlohmann::json& keys) {
    EngineOptions options;
    engine_table().from_json(options, ktransformers_options(keys));
    return options;
  };
  const EngineOptions all = engine({{"chunk_size", 4096},
                                    {"max_seq_len", 32000},
                                    {"threads_num", 3},
                                    {"kv_type", "FP16"},
                                    {"token_step", nullptr},
                                    {"anchor_type", "DYNAMIC"},
                                    {"second_select_num", 96},
                                    {"preselect_block", false},
                                    {"preselect_block_count", 0}});
  EXPECT_EQ(all.chunk, 4096);
  EXPECT_EQ(all.ctx, 32000);
  EXPECT_EQ(all.threads, 3);
  EXPECT_EQ(all.kv, "f16");
  EXPECT_EQ(all.token_step, 1);
  EXPECT_EQ(all.preselect, 0);
  for (const auto& [theirs, ours] : {std::pair{"MAX", "max"}, {"MEAN", "mean"}, {"FIX", "fixed"}})
    EXPECT_EQ(select::parse_select(selection_of(engine({{"representative_type", theirs}})), "test").kind, ours);
  const auto spec = [&](const nlohmann::json& keys) {
    return select::parse_select(selection_of(engine(keys)), "test");
  };
  const select::SelectSpec none = spec({{"preselect_block", true}, {"preselect_block_count", 0}});
  EXPECT_EQ(none.kind, "sink_recent");
  EXPECT_EQ(none.preselect, 0);
  const select::SelectSpec tokens =
      spec({{"block_size", 1}, {"preselect_block", true}, {"preselect_block_count", 2048}});
  EXPECT_EQ(tokens.kind, "keys");
  EXPECT_EQ(tokens.block, 1);
  EXPECT_EQ(tokens.preselect, 2048);
  EXPECT_EQ(tokens.window, 128);
  EXPECT_EQ(spec({{"block_size", 8}, {"anchor_type", "BLOCK_MAX"}}).block, 8);
  for (const nlohmann::json& bad :
       {nlohmann::json{{"preselect_block", true}, {"preselect_block_count", -1}}, nlohmann::json{{"kv_type", "FP3"}},
        nlohmann::json{{"block_size", "128"}}, nlohmann::json{{"block_size", 4}}, nlohmann::json{{"anchor_num", 129}},
        nlohmann::json{{"blocks", 1}}, nlohmann::json{{"token_step", 0}},
        nlohmann::json{{"representative_type", "BEST"}}, nlohmann::json{{"head_select_mode", 1}}, nlohmann::json(3)})
    EXPECT_THROW(ktransformers_options(bad), Error) << bad.dump();
}

TEST(Selection, ARequestChoosesAndItsReceiptSaysWhatWasRead) {
  EngineOptions options = model_options();
  options.select = "quest:block=16:local=16:meter=1";
  options.budget = "64";
  Engine engine(options, {.sequences = 2, .logits = 2});
  Scheduler scheduler(engine, {.running = 2}, "model");
  ServiceRequest service;
  for (int i = 0; i < 400; ++i) service.request.prompt.push_back(1 + i * 7 % 200);
  service.request.max_tokens = 8;
  service.request.ignore_eos = true;
  service.request.sampling.temperature = 0;
  const auto reply = [&](const std::string& select) {
    ServiceRequest r = service;
    r.request.select = select;
    return ask(scheduler, std::move(r), {});
  };
  const Answered own = reply(""), dense = reply("all"), whole = reply("quest:block=16:budget=1000");
  EXPECT_EQ(whole.ids, dense.ids);
  EXPECT_EQ(dense.outcome.receipt.select, "");
  EXPECT_EQ(own.outcome.receipt.select, "quest:block=16:local=16:meter=1:budget=64");
  const kv::SelectionStats::Layer t = own.outcome.receipt.selection.total();
  EXPECT_GT(t.chosen, 0);
  EXPECT_EQ(t.measured, t.chosen);
  EXPECT_LT(t.read, t.seen / 2);
  const auto json = selection_json(own.outcome.receipt);
  EXPECT_GT(json["mass"].get<double>(), 0.1);
  EXPECT_EQ(json["mass_by_layer"].size(), own.outcome.receipt.selection.layers.size());
  EXPECT_EQ(scheduler.stats().selection.chosen, t.chosen);
  ServiceRequest bad = service;
  bad.request.select = "mean";
  EXPECT_THROW(ask(scheduler, std::move(bad), {}), Error);
}

}  // namespace
}  // namespace kvasir::run
