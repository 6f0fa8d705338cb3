// Every other route, and what is refused with the name of its field.
#include <gtest/gtest.h>

#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::serve {
namespace {

TEST(Server, Models) {
  TestServer s;
  const Json list = s.ask("GET", "/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "org/fake-model");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(s.ask("GET", "/v1/models/org/fake-model").json()["id"], "org/fake-model");
  EXPECT_EQ(s.ask("GET", "/v1/models/org%2Ffake-model").json()["max_model_len"], 4096);
  const Reply other = s.ask("GET", "/v1/models/gpt-4");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(s.post("/v1/chat/completions", with(kChatBody, {{"model", "gpt-4"}})).status, 404);
  TestServer any({}, {.any_model = true});
  EXPECT_EQ(any.post("/v1/chat/completions", with(kChatBody, {{"model", "gpt-4"}})).status, 200);
}

TEST(Server, HealthStatsAndMetrics) {
  TestServer s({.reused = 3});
  EXPECT_EQ(s.ask("GET", "/health").body, R"({"status":"ok"})");
  const Reply head = s.ask("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("content-length"), "15");
  ASSERT_EQ(s.post("/v1/completions", {{"prompt", "abcdef"}, {"max_tokens", 4}}).status, 200);
  const Json stats = s.ask("GET", "/v1/stats").json();
  EXPECT_EQ(stats["requests"]["accepted"], 1);
  EXPECT_EQ(stats["tiers"][0]["evictions"], 6);
  EXPECT_EQ(stats["tiers"][0]["dropped"], 10);
  EXPECT_EQ(stats["tiers"][0]["queued"], 11);
  EXPECT_EQ(stats["kv"]["budget"], 2000);
  for (const char* times : {"ttft_ms", "total_ms"}) {
    EXPECT_EQ(stats["times"][times]["count"], 1) << times;
    EXPECT_GT(stats["times"][times]["mean"], 0) << times;
    EXPECT_LE(stats["times"][times]["p50"], stats["times"][times]["p90"]) << times;
  }
  EXPECT_EQ(stats["hit_share"], 0.25);
  EXPECT_EQ(stats["rates"]["prompt_tokens_per_second"], 60);
  EXPECT_EQ(stats["rates"]["generated_tokens_per_second"], 10);
  EXPECT_EQ(stats["batch"].dump(), R"({"steps":4,"mean":2.5,"most":3})");
  EXPECT_EQ(stats["pool"].dump(), R"({"pages":10,"used":4,"free":6,"shared":2,"utilisation":0.4})");
  EXPECT_EQ(stats["drafts"]["accepted"], 5);
  EXPECT_EQ(stats["drafts"]["histogram"].dump(), "[1,1,2]");
  EXPECT_EQ(stats["selection"]["mass"], nullptr);
  EXPECT_EQ(stats["device"]["name"], "card");
  EXPECT_EQ(stats["device"]["pages"], 12);
  EXPECT_EQ(stats["device"]["lost"], nullptr);
  EXPECT_EQ(stats["device"]["products"]["from_rows"], 64);
  EXPECT_EQ(stats["device"]["products"]["products"], 14);
  const Reply metrics = s.ask("GET", "/metrics");
  EXPECT_EQ(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  for (const char* line : {"kvasir_http_requests_total{route=\"completions\",status=\"200\"} 1\n",
                           "kvasir_prompt_tokens_total 6\n",
                           "kvasir_cached_tokens_total 3\n",
                           "kvasir_completion_tokens_total 4\n",
                           "kvasir_time_to_first_token_seconds_count 1\n",
                           "kvasir_inter_token_seconds_count 3\n",
                           "kvasir_tier_hits_total{tier=\"ram\"} 4\n",
                           "kvasir_tier_evictions_total{tier=\"ram\"} 6\n",
                           "kvasir_tier_damaged_total{tier=\"ram\"} 7\n",
                           "kvasir_tier_foreign_total{tier=\"ram\"} 8\n",
                           "kvasir_tier_errors_total{tier=\"ram\"} 9\n",
                           "kvasir_tier_dropped_total{tier=\"ram\"} 10\n",
                           "kvasir_device_pages 12\n",
                           "kvasir_device_folded_groups_total 13\n",
                           "kvasir_device_lost 0\n",
                           "kvasir_device_products_total 14\n",
                           "kvasir_device_products_lost 0\n",
                           "kvasir_kv_bytes 1000\n",
                           "# TYPE kvasir_inter_token_seconds histogram\n",
                           "kvasir_pages_shared 2\n",
                           "kvasir_generated_tokens_per_second 10\n",
                           "kvasir_hit_share 0.25\n",
                           "kvasir_draft_accepted_tokens_total 5\n"})
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line << metrics.body;
  EXPECT_EQ(metrics.body.find("vllm:"), std::string::npos);
}

TEST(Server, MetricsHaveTheNamesOfVllmWhenAsked) {
  TestServer s({.reused = 3}, {.vllm_metrics = true});
  ASSERT_EQ(s.post("/v1/completions", {{"prompt", "abcdef"}, {"max_tokens", 4}}).status, 200);
  // A request counts until the service has let go of it, which may be shortly behind its answer.
  ASSERT_TRUE(eventually([&] { return s.service.stats().running == 0; }));
  const Reply metrics = s.ask("GET", "/metrics");
  const std::string labels = R"({model_name="org/fake-model",engine="0")";
  for (const std::string& line :
       {"vllm:num_requests_running" + labels + "} 0\n", "vllm:kv_cache_usage_perc" + labels + "} 0.4\n",
        "vllm:prefix_cache_queries_total" + labels + "} 40\n", "vllm:prefix_cache_hits_total" + labels + "} 10\n",
        "vllm:generation_tokens_total" + labels + "} 21\n",
        "vllm:request_success_total" + labels + R"(,finished_reason="length"} 1)" + "\n",
        "vllm:time_to_first_token_seconds_count" + labels + "} 1\n",
        "vllm:e2e_request_latency_seconds_bucket" + labels + R"(,le="+Inf"} 1)" + "\n",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + R"(,position="0"} 3)" + "\n",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total" + labels + R"(,position="1"} 2)" + "\n",
        "vllm:cache_config_info" + labels + R"(,block_size="128",num_gpu_blocks="10"} 1)" + "\n"})
    EXPECT_NE(metrics.body.find("\n" + line), std::string::npos) << line << metrics.body;
  EXPECT_NE(metrics.body.find("kvasir_pages 10\n"), std::string::npos);
}

TEST(Server, Warm) {
  TestServer s({.reused = 2});
  const Reply r = s.post("/v1/warm", {{"prompt", "abcdef"}});
  ASSERT_EQ(r.status, 200) << r.body;
  EXPECT_EQ(r.json()["object"], "kvasir.warm");
  EXPECT_EQ(r.json()["pinned"], true);
  EXPECT_EQ(r.json()["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(r.json()["kvasir"]["reused_tokens"], 2);
  const run::ServiceRequest request = s.service.requests().at(0);
  EXPECT_TRUE(request.pin);
  EXPECT_EQ(request.request.max_tokens, 0);
  ASSERT_EQ(s.post("/v1/warm", with(kChatBody, {{"pin", false}})).status, 200);
  EXPECT_FALSE(s.service.requests().at(1).pin);
  EXPECT_EQ(s.service.tokenizer()->decode(s.service.requests().at(1).request.prompt), "user: hello\n");
  EXPECT_EQ(s.post("/v1/warm", {{"model", "org/fake-model"}}).json()["error"]["param"], "prompt");
}

TEST(Server, PinsEndInTimeOrWhenAsked) {
  TestServer s;
  const Json body{{"prompt", "abcdef"}};
  ASSERT_EQ(s.post("/v1/warm", body).status, 200);
  ASSERT_EQ(s.post("/v1/warm", with(kChatBody, {{"ttl", 90.5}})).status, 200);
  EXPECT_EQ(s.service.requests().at(0).pin_seconds, 86400);
  EXPECT_EQ(s.service.requests().at(1).pin_seconds, 90.5);
  for (const Json& ttl : {Json(0), Json(-5), Json("1h"), Json(1e9)})
    EXPECT_EQ(s.post("/v1/warm", with(body, {{"ttl", ttl}})).json()["error"]["param"], "ttl") << ttl;
  const Reply gone = s.ask("DELETE", "/v1/warm", body.dump());
  ASSERT_EQ(gone.status, 200) << gone.body;
  EXPECT_EQ(gone.json()["pinned"], false);
  EXPECT_EQ(gone.json()["prompt_tokens"], 6);
  const Reply again = s.ask("DELETE", "/v1/warm", body.dump());
  EXPECT_EQ(again.status, 404);
  EXPECT_EQ(again.json()["error"]["code"], "not_pinned");
  EXPECT_EQ(s.ask("DELETE", "/v1/warm", kChatBody.dump()).status, 200);
  EXPECT_EQ(s.ask("DELETE", "/v1/warm", "{}").json()["error"]["param"], "prompt");
  EXPECT_EQ(s.ask("PUT", "/v1/warm", body.dump()).status, 405);
  TestServer full({.pin_error = "there is no room"});
  const Json answer = full.post("/v1/warm", body).json();
  EXPECT_EQ(answer["pinned"], false);
  EXPECT_EQ(answer["pin_error"], "there is no room");
}

// FakeChat cannot place bytes; texts can.
TEST(Server, MissesNameTheByte) {
  TestServer s({.miss_token = 4});
  const Json completion = s.post("/v1/completions", {{"prompt", "abcdefgh"}}).json()["kvasir"];
  EXPECT_EQ(completion["miss"], "the prompt ended (byte 4 of the prompt)");
  EXPECT_EQ(completion["miss_at"].dump(), R"({"token":4,"byte":4})");
  EXPECT_TRUE(s.logs("miss=\"the prompt ended (byte 4 of the prompt)\"")) << s.log();
  EXPECT_TRUE(s.post("/v1/completions", {{"prompt", {97, 98, 99, 100, 101}}}).json()["kvasir"]["miss_at"].is_null());
  const Json chat = s.post("/v1/chat/completions", kChatBody).json()["kvasir"];
  EXPECT_EQ(chat["miss"], "the prompt ended");
  EXPECT_TRUE(chat["miss_at"].is_null());
}

TEST(Server, TokenizeAndDetokenize) {
  TestServer s;
  const Json r = s.post("/tokenize", {{"content", "ab<|end|>"}}).json();
  EXPECT_EQ(r["count"], 3);
  EXPECT_EQ(r["tokens"][0], 97);
  EXPECT_EQ(s.post("/tokenize", {{"content", "ab<|end|>"}, {"parse_special", false}}).json()["count"], 9);
  EXPECT_EQ(s.post("/tokenize", {{"prompt", "a"}, {"with_pieces", true}}).json()["tokens"].dump(),
            R"([{"id":97,"piece":"a"}])");
  EXPECT_GT(s.post("/tokenize", kChatBody).json()["count"], 10);
  EXPECT_EQ(s.post("/detokenize", {{"tokens", r["tokens"]}}).json()["content"], "ab<|end|>");
  EXPECT_EQ(s.post("/detokenize", {{"tokens", {255}}}).json()["content"], "\xef\xbf\xbd");
  EXPECT_EQ(s.post("/detokenize", {{"tokens", {100000}}}).json()["error"]["param"], "tokens[0]");
  EXPECT_EQ(s.post("/tokenize", {{"text", "a"}}).json()["error"]["param"], "content");
}

TEST(Server, TokenizerInfoIsWhatLmEvalAsksFor) {
  TestServer s;
  const Json info = s.ask("GET", "/tokenizer_info").json();
  EXPECT_EQ(info["eos_token"], std::string(s.service.tokenizer()->piece(s.service.tokenizer()->eos())));
  EXPECT_TRUE(info.contains("chat_template") && info.contains("bos_token"));
  EXPECT_EQ(info["model_max_length"], 4096);
  EXPECT_EQ(TestServer({.tokenizer = false}).ask("GET", "/tokenizer_info").status, 501);
}

TEST(Server, WithoutTokenizer) {
  TestServer s({.tokenizer = false});
  EXPECT_EQ(s.post("/v1/completions", {{"prompt", "abc"}}).status, 501);
  EXPECT_EQ(s.post("/tokenize", {{"content", "abc"}}).status, 501);
  const Json ids = s.post("/v1/completions", {{"prompt", {1, 2}}, {"logprobs", 0}, {"max_tokens", 1}}).json();
  EXPECT_EQ(ids["choices"][0]["logprobs"]["tokens"][0], "token_id:97");
}

TEST(Server, BadRequestsNameTheirField) {
  TestServer s({.context = 40}, {.max_prompt = 20});
  const auto error = [&](const char* path, const std::string& body, int status) {
    const Reply r = s.ask("POST", path, body);
    EXPECT_EQ(r.status, status) << body << "\n" << r.body;
    return r.json()["error"];
  };
  const char* chat = "/v1/chat/completions";
  const char* text = "/v1/completions";
  EXPECT_EQ(error(chat, R"({"messages": "x"})", 400)["param"], "messages");
  EXPECT_EQ(error(chat, R"({"messages": []})", 400)["param"], "messages");
  EXPECT_EQ(error(chat, R"({})", 400)["param"], "messages");
  EXPECT_EQ(error(chat, R"({"messages": [{"role": "user"}]})", 400)["param"], "messages[0].content");
  EXPECT_EQ(error(chat, R"({"messages": [{"role": "refused", "content": ""}]})", 400)["param"], "messages");
  EXPECT_EQ(error(text, R"({"prompt": "x", "temperature": "hot"})", 400)["param"], "temperature");
  EXPECT_EQ(error(text, R"({"prompt": "x", "temperature": -1})", 400)["code"], "invalid_value");
  EXPECT_EQ(error(text, R"({"prompt": {"a": 1}})", 400)["param"], "prompt");
  EXPECT_EQ(error(text, R"({"prompt": [1, "a"]})", 400)["param"], "prompt[1]");
  EXPECT_EQ(error(text, R"({"prompt": ""})", 400)["param"], "prompt");
  EXPECT_EQ(error(text, R"([1])", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, R"({"prompt": "x")", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, "", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, "{\"prompt\": \"\xff\xfe\"}", 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, std::string(100000, '['), 400)["code"], "invalid_json");
  EXPECT_EQ(error(text, R"({"prompt": ")" + std::string(30, 'x') + R"("})", 413)["code"], "prompt_too_long");
  EXPECT_EQ(error(text, R"({"prompt": ")" + std::string(40, 'x') + R"("})", 400)["code"], "context_length_exceeded");
  EXPECT_EQ(s.service.requests().size(), 0u);
}

TEST(Server, RoutesAndMethods) {
  TestServer s;
  const Reply none = s.ask("GET", "/v2/nothing");
  EXPECT_EQ(none.status, 404);
  EXPECT_EQ(none.json()["error"]["code"], "not_found");
  const Reply method = s.ask("GET", "/v1/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("allow"), "OPTIONS, POST");
  EXPECT_EQ(s.ask("GET", "/health?x=1").status, 200);
  EXPECT_EQ(s.ask("GET", "/%00").status, 400);
  EXPECT_EQ(s.ask("GET", "*").status, 400);
  EXPECT_EQ(s.ask("GET", "/health", "", "X-Request-Id: abc-1\r\n").header("x-request-id"), "abc-1");
  EXPECT_EQ(s.ask("GET", "/health", "", "X-Request-Id: abc-1\r\n").header("request-id"), "abc-1");
  EXPECT_NE(s.ask("GET", "/health", "", "X-Request-Id: a b\r\n").header("x-request-id"), "a b");
  EXPECT_TRUE(s.logs("id=abc-1 ")) << s.log();
}

}  // namespace
}  // namespace kvasir::serve
