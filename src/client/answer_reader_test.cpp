#include "client/answer_reader.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace kvasir::client {
namespace {

using End = ApiAnswer::End;

const std::string kStream =
    ": keep-alive\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"}}],\"usage\":null}\r\n\r\n"
    "event: x\nid: 7\ndata:{\"choices\":[{\"delta\":\ndata: {\"content\":\" two\"}}]}\n\n"
    "data: {\"choices\":[{\"index\":0,\"text\":\" three\"}]}\n\n"
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}},\"kvasir\":{\"miss\":null}}\n\n"
    "data: [DONE]\n\n";

TEST(AnswerReader, StreamsInWhateverPieces) {
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{50}, kStream.size()}) {
    AnswerReader reader(10, 200, true);
    double now = 10;
    for (std::size_t i = 0; i < kStream.size(); i += step) reader.feed(kStream.substr(i, step), now += 1);
    const ApiAnswer a = reader.finish(true, now + 1);
    EXPECT_EQ(a.end, End::kComplete) << a.error;
    EXPECT_EQ(a.text, "one two three");
    EXPECT_EQ(a.gaps.size(), 2u);
    EXPECT_GT(a.first, 10);
    EXPECT_DOUBLE_EQ(a.ended, now + 1);
    EXPECT_EQ(a.prompt_tokens, 9);
    EXPECT_EQ(a.completion_tokens, 3);
    EXPECT_EQ(a.cached_tokens, 4);
    EXPECT_TRUE(a.kvasir.is_object());
  }
}

TEST(AnswerReader, ATimeBelongsToItsPiece) {
  AnswerReader reader(1, 200, true);
  reader.feed("data: {\"choices\":[{\"text\":\"a\"}]}\n\n", 3);
  reader.feed("data: {\"choices\":[{\"text\":\"b\"}]}\n\n", 3.5);
  reader.feed("data: {\"choices\":[{\"text\":\"c\"}]}\n\ndata: [DONE]\n\n", 5.5);
  const ApiAnswer a = reader.finish(true, 6);
  EXPECT_DOUBLE_EQ(a.first, 3);
  EXPECT_DOUBLE_EQ(a.last, 5.5);
  EXPECT_EQ(a.gaps, (std::vector<float>{0.5f, 2.0f}));
}

TEST(AnswerReader, WholeAnswers) {
  AnswerReader reader(0, 200, false);
  reader.feed(R"({"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":2)", 1);
  reader.feed(R"(,"completion_tokens":1}})", 2);
  const ApiAnswer a = reader.finish(true, 2);
  EXPECT_EQ(a.end, End::kComplete);
  EXPECT_EQ(a.text, "hello");
  EXPECT_EQ(a.prompt_tokens, 2);
}

ApiAnswer ended(int status, bool stream, const std::string& body, bool whole) {
  AnswerReader reader(0, status, stream);
  reader.feed(body, 1);
  return reader.finish(whole, 2);
}

TEST(AnswerReader, EveryOtherEndHasItsKind) {
  const std::string error = R"({"error":{"message":"m","type":"t","code":"c"}})";
  EXPECT_EQ(ended(429, false, error, true).end, End::kRefused);
  EXPECT_EQ(ended(429, false, error, true).error, "429 c");
  EXPECT_EQ(ended(503, true, "busy", true).error, "503 error");
  EXPECT_EQ(ended(503, true, "busy", true).end, End::kRefused);
  EXPECT_EQ(ended(400, false, R"({"error":{"type":"t"}})", true).error, "400 t");
  EXPECT_EQ(ended(404, false, R"({"error":"text"})", true).end, End::kError);
  EXPECT_EQ(ended(500, false, "", true).error, "500 error");
  EXPECT_EQ(ended(200, true, "data: " + error + "\n\ndata: [DONE]\n\n", true).error, "in a stream c");
  EXPECT_EQ(ended(200, true, "data: " + error + "\n\ndata: [DONE]\n\n", true).end, End::kError);
  EXPECT_EQ(ended(200, true, "data: 5\n\n", true).end, End::kError);
  EXPECT_EQ(ended(200, true, "data: {\"choices\":[{\"text\":\"b\"}]}\n\n", true).end, End::kDropped);
  EXPECT_EQ(ended(200, false, "{\"a\":", false).end, End::kDropped);
}

TEST(AnswerReader, Endpoints) {
  const Endpoint e = parse_endpoint("http://127.0.0.1:8080", "--url");
  EXPECT_EQ(e.host + "|" + e.port + "|" + e.path + "|" + e.root, "127.0.0.1|8080|/v1|");
  const Endpoint f = parse_endpoint("http://box/api/v1/", "--url");
  EXPECT_EQ(f.host + "|" + f.port + "|" + f.path + "|" + f.root, "box|80|/api/v1|/api");
  const Endpoint g = parse_endpoint("http://[::1]:99/x", "--url");
  EXPECT_EQ(g.host + "|" + g.port + "|" + g.path + "|" + g.root, "::1|99|/x|/x");
  EXPECT_FALSE(g.tls);
  const Endpoint h = parse_endpoint("https://box", "--url");
  EXPECT_EQ(h.host + "|" + h.port + "|" + h.path, "box|443|/v1");
  EXPECT_TRUE(h.tls);
  EXPECT_EQ(parse_endpoint("https://[::1]:99/x", "--url").port, "99");
  for (const char* bad : {"", "127.0.0.1:80", "httpss://a", "https:/a", "https://", "https://:443", "http://",
                          "http://:80", "http://a:", "http://a:b", "http://[::1", "http://[::1]x"}) {
    try {
      parse_endpoint(bad, "--url");
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kBadInput);
      EXPECT_NE(std::string(error.what()).find("--url"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace kvasir::client
