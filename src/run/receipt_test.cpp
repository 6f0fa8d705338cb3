#include "run/receipt.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvasir::run {
namespace {

TEST(Receipt, SaysWhatRan) {
  Outcome o;
  o.prompt_tokens = 1000;
  o.decode_seconds = 2;
  o.receipt.spans = {{0, 300, "ram"}, {300, 700, "relocated"}, {700, 1000, "computed"}};
  o.receipt.reused_tokens = 300;
  o.receipt.queue_seconds = 0.5;
  o.receipt.prefill_seconds = 0.25;
  Json json = receipt_json(o);
  EXPECT_EQ(json["spans"][1].dump(), R"({"begin":300,"end":700,"source":"relocated"})");
  EXPECT_EQ(json["computed_tokens"], 700);
  EXPECT_EQ(json["ttft_ms"], 750);
  EXPECT_EQ(json["total_ms"], 2750);
  EXPECT_TRUE(json["miss"].is_null());
  for (const char* key : {"blend", "draft", "weights", "thinking_cut", "select"})
    EXPECT_FALSE(json.contains(key)) << key;

  o.receipt.blend = {.asked = true, .relocated_tokens = 400, .repaired_tokens = 60};
  o.receipt.select = "quest";
  o.thinking_tokens = 5;
  o.draft.sources = {{"lookup", 3, 2}};
  json = receipt_json(o);
  EXPECT_EQ(json["computed_tokens"], 300);
  EXPECT_EQ(json["blend"]["relocated_tokens"], 400);
  EXPECT_EQ(json["blend"]["repaired_tokens"], 60);
  EXPECT_TRUE(json["blend"]["refused"].is_null());
  EXPECT_EQ(json["select"]["name"], "quest");
  EXPECT_EQ(json["thinking_cut"], 5);
  EXPECT_TRUE(json["draft"].is_object());
}

}  // namespace
}  // namespace kvasir::run
