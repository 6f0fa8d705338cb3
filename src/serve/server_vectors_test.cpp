// Embeddings and ranks, against the documented objects of the APIs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/base64.hpp"
#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::serve {
namespace server_vectors_test {

constexpr const char* kPath = "/v1/embeddings";

std::vector<double> vector_of(const Json& item) { return item["embedding"].get<std::vector<double>>(); }

TEST(Vectors, OneTextIsOneVectorOfLengthOne) {
  TestServer s;
  const Reply r = s.post(kPath, {{"input", {97, 98, 99}}, {"model", "org/fake-model"}});
  ASSERT_EQ(r.status, 200) << r.body;
  const Json body = r.json();
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "org/fake-model");
  EXPECT_EQ(body["usage"].dump(), R"({"prompt_tokens":3,"total_tokens":3})");
  ASSERT_EQ(body["data"].size(), 1u);
  EXPECT_EQ(body["data"][0]["object"], "embedding");
  const auto v = vector_of(body["data"][0]);
  const double length = std::sqrt(9.0 + 97 * 97 + 99 * 99 + 1);
  ASSERT_EQ(v.size(), 4u);
  EXPECT_NEAR(v[0], 3 / length, 1e-6);
  EXPECT_NEAR(v[1], 97 / length, 1e-6);
  EXPECT_NEAR(v[3], -1 / length, 1e-6);
  const run::ServiceRequest asked = s.service.requests().at(0);
  EXPECT_EQ(asked.request.pooling, model::Pooling::kMean);
  EXPECT_FALSE(asked.reuse);
}

TEST(Vectors, TextsComeBackInTheirOrder) {
  TestServer s({.most_queued = 3});  // fewer than there are texts: the rest waits
  Json texts = Json::array();
  for (int i = 1; i <= 200; ++i) texts.push_back(std::string(static_cast<std::size_t>(i), 'x'));
  const Json body = s.post(kPath, {{"input", texts}, {"normalize", false}}).json();
  ASSERT_EQ(body["data"].size(), 200u) << dump(body).substr(0, 300);
  const double extra = s.service.tokenizer()->add_bos() + s.service.tokenizer()->add_eos();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(body["data"][i]["index"], i);
    EXPECT_EQ(vector_of(body["data"][i])[0], static_cast<double>(i) + 1 + extra);
    tokens += static_cast<std::int64_t>(static_cast<double>(i) + 1 + extra);
  }
  EXPECT_EQ(body["usage"]["prompt_tokens"], tokens);
}

TEST(Vectors, DimensionsFormatAndPooling) {
  TestServer s;
  const Json ask{{"input", {{97, 98}, {99}}}};
  const Json cut = s.post(kPath, with(ask, {{"dimensions", 2}})).json();
  const auto v = vector_of(cut["data"][0]);
  ASSERT_EQ(v.size(), 2u);
  EXPECT_NEAR(v[0] * v[0] + v[1] * v[1], 1, 1e-6);  // of length 1 again
  const Json whole = s.post(kPath, with(ask, {{"encoding_format", "float"}})).json();
  const Json packed = s.post(kPath, with(ask, {{"encoding_format", "base64"}})).json();
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string bytes = *from_base64(packed["data"][i]["embedding"].get<std::string>());
    ASSERT_EQ(bytes.size(), 16u);
    for (std::size_t k = 0; k < 4; ++k) {
      float x;
      std::memcpy(&x, bytes.data() + 4 * k, 4);
      EXPECT_EQ(static_cast<double>(x), vector_of(whole["data"][i])[k]);
    }
  }
  EXPECT_EQ(s.post(kPath, with(ask, {{"pooling", "last"}})).json()["kvasir"]["pooling"], "last");
  EXPECT_EQ(s.service.requests().back().request.pooling, model::Pooling::kLast);
}

TEST(Vectors, WhatIsWrongIsNamed) {
  TestServer s({.context = 50});
  const auto param = [&](const Json& body) {
    const Reply r = s.post(kPath, body);
    EXPECT_EQ(r.status, 400) << r.body;
    return r.json()["error"]["param"].get<std::string>();
  };
  EXPECT_EQ(param(Json::object()), "input");
  EXPECT_EQ(param({{"input", ""}}), s.service.tokenizer()->add_bos() ? "" : "input");
  EXPECT_EQ(param({{"input", Json::array()}}), "input");
  EXPECT_EQ(param({{"input", {{97}, Json::array()}}}), "input[1]");
  EXPECT_EQ(param({{"input", {97, 100000}}}), "input[1]");
  EXPECT_EQ(param({{"input", "x"}, {"dimensions", 5}}), "dimensions");
  EXPECT_EQ(param({{"input", "x"}, {"encoding_format", "int8"}}), "encoding_format");
  EXPECT_EQ(param({{"input", "x"}, {"pooling", "rank"}}), "pooling");
  const Json tall{{"input", std::string(70, 'x')}};
  const Reply r = s.post(kPath, tall);
  EXPECT_EQ(r.json()["error"]["code"], "context_length_exceeded");
  EXPECT_NE(r.body.find("maximum context length is 49 tokens"), std::string::npos) << r.body;
  EXPECT_EQ(s.post(kPath, with(tall, {{"truncate", true}})).json()["usage"]["prompt_tokens"], 49);
  EXPECT_EQ(s.post(kPath, {{"input", "x"}, {"model", "another"}}).status, 404);
}

TEST(Vectors, OllamasRoutes) {
  TestServer s({.context = 50});
  const Json ask{{"model", "org/fake-model:latest"}, {"input", {"aa", std::string(70, 'x')}}};
  const Json body = s.post("/api/embed", ask).json();
  ASSERT_EQ(body["embeddings"].size(), 2u) << dump(body);
  EXPECT_EQ(body["embeddings"][0].size(), 4u);
  EXPECT_EQ(body["model"], "org/fake-model:latest");
  EXPECT_TRUE(body["prompt_eval_count"].is_number());
  EXPECT_TRUE(body["total_duration"].is_number());
  EXPECT_EQ(s.service.requests().back().request.prompt.size(), 49u);  // cut, as Ollama does
  const Reply refused = s.post("/api/embed", with(ask, {{"truncate", false}}));
  EXPECT_EQ(refused.status, 400);
  EXPECT_TRUE(refused.json()["error"].is_string());
  EXPECT_EQ(s.post("/api/embed", {{"model", "org/fake-model"}}).json()["embeddings"].size(), 0u);
  EXPECT_EQ(s.post("/api/embed", {{"model", "x"}, {"input", "y"}}).status, 404);
  const Json old = s.post("/api/embeddings", {{"model", "org/fake-model"}, {"prompt", "b"}}).json();
  EXPECT_EQ(old["embedding"].size(), 4u);
  EXPECT_GE(old["embedding"][0], 1);  // not divided by its length
}

TEST(Vectors, RanksAreSorted) {
  TestServer s({.labels = 1});
  const Json ask{{"query", "q"}, {"documents", {"b", {{"text", "bbbb"}}, "bb"}}};
  for (const char* path : {"/v1/rerank", "/rerank"}) {
    const Reply r = s.post(path, ask);
    ASSERT_EQ(r.status, 200) << r.body;
    const Json results = r.json()["results"];
    ASSERT_EQ(results.size(), 3u);
    EXPECT_EQ(results[0]["index"], 1);
    EXPECT_EQ(results[1]["index"], 2);
    const auto tokens = static_cast<double>(s.service.requests().at(1).request.prompt.size());
    EXPECT_NEAR(results[0]["relevance_score"].get<double>(), 1 / (1 + std::exp(-tokens / 16)), 1e-6);
  }
  const Json top =
      s.post("/rerank", with(ask, {{"top_n", 1}, {"return_documents", true}, {"raw_scores", true}})).json();
  ASSERT_EQ(top["results"].size(), 1u);
  EXPECT_EQ(top["results"][0]["document"]["text"], "bbbb");
  const run::Request asked = s.service.requests().at(0).request;
  EXPECT_EQ(asked.pooling, model::Pooling::kRank);
  EXPECT_GT(asked.second, 0);
  EXPECT_LT(asked.second, static_cast<std::int64_t>(asked.prompt.size()));
  EXPECT_EQ(s.post("/rerank", {{"documents", {"b"}}}).json()["error"]["param"], "query");
  EXPECT_EQ(s.post("/rerank", {{"query", "b"}, {"documents", {3}}}).json()["error"]["param"], "documents[0]");
}

TEST(Vectors, AModelWithoutAHeadDoesNotRank) {
  TestServer s;
  const Reply r = s.post("/v1/rerank", {{"query", "q"}, {"documents", {"b"}}});
  EXPECT_EQ(r.status, 501);
  EXPECT_NE(r.body.find("has no head that ranks"), std::string::npos);
  EXPECT_EQ(s.service.requests().size(), 0u);
}

}  // namespace server_vectors_test
}  // namespace kvasir::serve
