// Clients that mean harm, or might as well: slow, endless, deep, and what is no HTTP, JSON or text. Each gets an error
// or its end, soon, and the others do not notice.
#include <gtest/gtest.h>

#include <memory>

#include "serve/client_fixture.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr const char* kJsonRoutes[] = {"/v1/chat/completions", "/v1/completions", "/v1/warm", "/tokenize",
                                       "/detokenize"};

std::string repeated(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// An error of the request's, in OpenAI's shape.
void expect_refusal(const Reply& r, const std::string& what) {
  SCOPED_TRACE(what.substr(0, 200));
  EXPECT_TRUE(r.status >= 400 && r.status < 500) << r.status;
  ASSERT_TRUE(Json::accept(r.body)) << r.body;  // and so UTF-8
  EXPECT_TRUE(r.json()["error"]["message"].is_string());
}

TEST(ServerAbuse, SlowHeaderIs408) {
  TestServer s({}, {.header_timeout = 0.3});
  Client c(s.port());
  const double start = steady_seconds();
  c.send("GET /health HTTP/1.1\r\n");
  while (steady_seconds() - start < 10 && c.send("X-Slow: 1\r\n") && !c.fill(0.05)) {
  }
  EXPECT_LT(steady_seconds() - start, 8);
  EXPECT_EQ(c.read().status, 408);
  Client silent(s.port());
  EXPECT_TRUE(silent.closed(8));
  EXPECT_EQ(silent.input(), "");
}

TEST(ServerAbuse, SlowBodyIs408) {
  TestServer s({}, {.body_timeout = 0.3});
  Client c(s.port());
  const double start = steady_seconds();
  c.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  const Reply r = c.read();
  EXPECT_LT(steady_seconds() - start, 8);
  EXPECT_EQ(r.status, 408);
  EXPECT_EQ(r.header("connection"), "close");
  EXPECT_TRUE(c.closed());
}

// A byte now and then, or as fast as it goes: the body as a whole has a deadline, not every part of it.
TEST(ServerAbuse, BodyInDripsIs408) {
  TestServer s({}, {.max_body = 1 << 30, .body_timeout = 0.4});
  for (const double pause : {0.02, 0.0})
    for (const bool chunked : {false, true}) {
      Client c(s.port());
      const double start = steady_seconds();
      c.send(fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{}\r\n\r\n",
                         chunked ? "Transfer-Encoding: chunked" : "Content-Length: 1000000000"));
      while (steady_seconds() - start < 20 && c.send(chunked ? "1\r\n \r\n" : " ") && !c.fill(pause)) {
      }
      EXPECT_LT(steady_seconds() - start, 15) << pause << " " << chunked;
      EXPECT_EQ(c.read().status, 408) << pause << " " << chunked;
    }
}

TEST(ServerAbuse, SlowClientsHoldNobodyUp) {
  constexpr int kSlow = 150;
  TestServer s({}, {.header_timeout = 3, .body_timeout = 3});
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < kSlow; ++i) {
    slow.push_back(std::make_unique<Client>(s.port()));
    ASSERT_TRUE(slow.back()->send(i % 2 ? "POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Drip: "
                                        : "POST /v1/completions HTTP/1.1\r\nContent-Length: 50\r\n\r\n{"));
  }
  for (int i = 0; i < 20; ++i) {
    for (auto& c : slow) c->send("a");
    EXPECT_EQ(s.post("/v1/completions", {{"prompt", "x"}, {"max_tokens", 1}}).status, 200);
  }
  for (auto& c : slow) EXPECT_TRUE(c->closed(30));
  EXPECT_EQ(s.service.requests().size(), 20u);
}

TEST(ServerAbuse, IdleConnectionsEnd) {
  TestServer s({}, {.idle_timeout = 0.2});
  Client c(s.port());
  c.send(http_text("GET", "/health"));
  EXPECT_EQ(c.read().status, 200);
  const double start = steady_seconds();
  EXPECT_TRUE(c.closed());
  EXPECT_GT(steady_seconds() - start, 0.1);
  EXPECT_EQ(c.input(), "");
}

// What frames a chunked body is bounded as the header is: extensions and trailers count towards no body.
TEST(ServerAbuse, EndlessChunkFramingIs431) {
  TestServer s({}, {.body_timeout = 30});
  const std::string start = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* framing : {"1;x=", "0\r\nX-Trailer: ", "0\r\nA: b\r\nA: ", "1\r\n{\r\n5;a"}) {
    Client c(s.port());
    c.send(start + framing);
    for (int i = 0; i < 200 && c.send(std::string(1 << 14, 'y')) && !c.fill(0); ++i) {
    }
    const Reply r = c.read();
    EXPECT_EQ(r.status, 431) << framing;
    EXPECT_EQ(r.header("connection"), "close");
  }
  Client c(s.port());  // short ones are as good as none
  c.send(start + "23;name=value\r\n{\"prompt\": \"abc\", \"max_tokens\": 1 }\r\n0\r\nX-Trailer: y\r\n\r\n");
  EXPECT_EQ(c.read().status, 200);
}

// Whoever sits in front of this server must not see another end of a request than it does.
TEST(ServerAbuse, AmbiguousLengthsAreRefused) {
  TestServer s;
  const std::string rest = "\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const char* framing :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6", "Content-Length: +5", "Content-Length: 5, 5x", "Content-Length: 0x5",
        "Content-Length: 99999999999999999999", "Content-Length : 5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: gzip",
        "Transfer-Encoding: xchunked", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity", "Transfer-Encoding: gzip, chunked",
        "Content-Length: 5\r\nTransfer-Encoding: x"}) {
    Client c(s.port());
    c.send(fmt::format("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n{}{}", framing, rest));
    const Reply r = c.read();
    EXPECT_TRUE(r.status == 400 || r.status == 501) << framing << ": " << r.status;
    EXPECT_TRUE(c.closed()) << framing;
    EXPECT_EQ(c.input(), "") << framing;  // nothing of the rest was taken for a request
  }
}

TEST(ServerAbuse, LongHeadersAre431) {
  TestServer s;
  const Reply one = s.ask("GET", "/health", "", "X-Long: " + std::string(100000, 'x') + "\r\n");
  EXPECT_EQ(one.status, 431);
  std::string many;
  for (int i = 0; i < 5000; ++i) many += fmt::format("X-{}: y\r\n", i);
  EXPECT_EQ(s.ask("GET", "/health", "", many).status, 431);
  EXPECT_EQ(s.ask("GET", "/" + std::string(100000, 'x')).status, 431);
}

TEST(ServerAbuse, LongBodiesAre413) {
  TestServer s({}, {.max_body = 1024});
  EXPECT_EQ(s.ask("POST", "/v1/completions", std::string(2000, ' ')).status, 413);
  Client chunked(s.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 20; ++i) chunked.send("80\r\n" + std::string(128, ' ') + "\r\n");
  EXPECT_EQ(chunked.read().status, 413);
}

TEST(ServerAbuse, NotHttp) {
  TestServer s;
  for (const std::string text :
       {"\x16\x03\x01\x02junk\r\n\r\n", "GET\r\n\r\n", "GET /health HTTP/9.9\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    Client c(s.port());
    c.send(text);
    EXPECT_EQ(c.read().status, 400) << text;
    EXPECT_TRUE(c.closed()) << text;
  }
  EXPECT_EQ(s.ask("GET", "/health").status, 200);
}

TEST(ServerAbuse, RandomBytesNeverHurt) {
  TestServer s;
  std::uint64_t state = 1;
  for (int i = 0; i < 200; ++i) {
    std::string text = std::string(64, '\0');
    if (i % 2) text = http_text("POST", kJsonRoutes[0], R"({"messages": [{"role": "user", "content": "hello"}]})");
    for (int k = 0; k < 8; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text[(state >> 33) % text.size()] = static_cast<char>(state >> 56);
    }
    Client c(s.port());
    c.send(text);
    if (i % 3 == 0) c.fill(0.01);
  }
  EXPECT_EQ(s.ask("GET", "/health").status, 200);
}

TEST(ServerAbuse, DeepJsonIs400) {
  TestServer s;
  constexpr int kDeep = 1000000;
  const std::string arrays = std::string(kDeep, '[') + std::string(kDeep, ']');
  const std::string objects = repeated("{\"a\":", kDeep) + "1" + std::string(kDeep, '}');
  for (const char* route : kJsonRoutes)
    for (const std::string& deep : {arrays, objects, arrays.substr(0, kDeep), "{\"prompt\": " + arrays + "}"}) {
      const Reply r = s.ask("POST", route, deep);
      expect_refusal(r, route);
      EXPECT_EQ(r.json()["error"]["code"], "invalid_json");
    }
  const std::string nested = std::string(40, '[') + std::string(40, ']');
  for (const char* field : {"tools", "tool_choice", "metadata", "chat_template_kwargs", "stop", "content"}) {
    const Reply r =
        s.ask("POST", "/v1/chat/completions",
              fmt::format(R"({{"max_tokens": 1, "messages": [{{"role": "user", "content": "x"}}], "{}": {}}})", field,
                          nested));
    if (r.status != 200) expect_refusal(r, field);  // some are nobody's
  }
}

TEST(ServerAbuse, NumbersOutOfEveryRange) {
  TestServer s;
  int taken = 0;
  for (const char* name :
       {"temperature", "top_p", "min_p", "top_k", "seed", "n", "max_tokens", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "penalty_last_n", "logprobs", "logit_bias", "prompt"})
    for (const char* number :
         {"1e999", "-1e999", "1e308", "-1e308", "99999999999999999999999", "-99999999999999999999999",
          "9223372036854775808", "-9223372036854775809", "1e-999", "-0.0", "0.1e1", "NaN", "Infinity", "[1e999]",
          "[4294967296]", "{\"99999999999999999999\": 1}", "{\"0\": 1e300}"}) {
      const std::string value = fmt::format("\"{}\": {}", name, number);
      const std::string prompt = name == std::string("prompt") ? "" : ", \"prompt\": \"x\"";
      const Reply r = s.ask("POST", "/v1/completions", "{" + value + prompt + "}");
      if (r.status == 200) {
        ++taken;
      } else {
        expect_refusal(r, value);
      }
    }
  EXPECT_GT(taken, 0);  // -0.0 and 1.0 are fine where they are
  expect_refusal(s.ask("POST", "/v1/completions", "{\"prompt\": \"x\", \"seed\": " + std::string(1 << 20, '9') + "}"),
                 "9");
  expect_refusal(s.ask("POST", "/detokenize", R"({"tokens": [18446744073709551615]})"), "tokens");
}

TEST(ServerAbuse, WhatIsNoUtf8) {
  TestServer s;
  for (const char* bytes : {"\xff", "\xfe\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80",
                            "\xf4\x90\x80\x80", "\\ud800", "\\udc00\\ud800", "\x01"}) {
    const std::string quoted = std::string("\"a") + bytes + "z\"";
    for (const char* route : kJsonRoutes)
      for (const std::string& body : {quoted, "{" + quoted + ": 1}", "{\"prompt\": " + quoted + "}",
                                      "{\"model\": " + quoted + ", \"prompt\": \"x\"}",
                                      "{\"messages\": [{\"role\": " + quoted + ", \"content\": " + quoted + "}]}"})
        expect_refusal(s.ask("POST", route, body), body);
  }
  EXPECT_EQ(s.service.requests().size(), 0u);
  for (const char* path : {"/%ff", "/v1/models/%ff%fe", "/v1/models/%c3", "/\xff", "/%ed%a0%80"}) {
    const Reply r = s.ask("GET", path);
    EXPECT_TRUE(r.status == 400 || r.status == 404) << path;
    EXPECT_TRUE(Json::accept(r.body)) << r.body;
  }
  const Reply r =
      s.ask("GET", "/health", "", "X-Request-Id: \xff\r\nAuthorization: Bearer \xff\r\nUser-Agent: \xc3\r\n");
  EXPECT_EQ(r.status, 200);
  EXPECT_TRUE(r.header("x-request-id").starts_with("req-"));
  EXPECT_TRUE(s.logs(fmt::format("id={} ", r.header("x-request-id")))) << s.log();
  const std::string log = s.log();
  EXPECT_EQ(unicode::to_valid_utf8(log), log);
}

}  // namespace
}  // namespace kvasir::serve
