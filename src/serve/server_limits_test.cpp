// What the server refuses, survives and ends: many clients, those that leave or do not read, and its own shutdown.
// Clients that mean harm are in server_abuse_test.cpp.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <future>
#include <memory>

#include "base/patience_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::serve {
namespace {

const Json kChat{{"messages", {{{"role", "user"}, {"content", "hello"}}}}};
constexpr const char* kPath = "/v1/chat/completions";

std::string chat_text(int max_tokens, bool stream) {
  Json body = kChat;
  body["max_tokens"] = max_tokens;
  body["stream"] = stream;
  return http_text("POST", kPath, dump(body));
}

double metric(TestServer& s, const std::string& name) {
  const std::string text = s.ask("GET", "/metrics").body;
  const std::size_t at = text.find("\n" + name + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name.size() + 2));
}

TEST(ServerLimits, ThousandStreamsAtOnce) {
  constexpr int kStreams = 1000, kTokens = 10;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < 2 * kStreams + 100) GTEST_SKIP() << "only " << files.rlim_cur << " descriptors";
  TestServer s({.delay = 0.02, .start_at = kStreams});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<Client>(s.port()));
    ASSERT_TRUE(clients.back()->connected()) << i;
    ASSERT_TRUE(clients.back()->send(chat_text(kTokens, true)));
  }
  ASSERT_TRUE(eventually([&] { return s.service.most_at_once() == static_cast<std::size_t>(kStreams); }, 300))
      << s.service.most_at_once() << "\n"
      << s.log();
  for (int i = 0; i < kStreams; ++i) {
    const Reply r = clients[static_cast<std::size_t>(i)]->read();
    ASSERT_EQ(r.status, 200) << i;
    std::string text;
    for (const Json& e : events_of(r.body)) text += e["choices"][0]["delta"].value("content", "");
    ASSERT_EQ(text, "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 ") << i;
  }
  EXPECT_EQ(s.service.cancelled(), 0u);
}

TEST(ServerLimits, DisconnectCancels) {
  TestServer s({.delay = 0.01});
  {
    Client streaming(s.port());
    streaming.send(chat_text(1000000, true));
    ASSERT_TRUE(streaming.until("w0 "));
  }
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 1; }));
  {
    Client plain(s.port());
    plain.send(chat_text(1000000, false));
    ASSERT_TRUE(eventually([&] { return s.service.requests().size() == 2; }));
  }
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 2; }));
  EXPECT_TRUE(s.logs("status=499")) << s.log();
  EXPECT_EQ(metric(s, "kvasir_http_disconnects_total"), 2);
}

TEST(ServerLimits, DisconnectInTheQueueCancels) {
  TestServer s({.most_running = 0});
  {
    Client client(s.port());
    client.send(chat_text(5, true));
    ASSERT_TRUE(eventually([&] { return s.service.requests().size() == 1; }));
  }
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 1; }));
}

TEST(ServerLimits, SlowReaderIsCutOffAndHoldsNobodyUp) {
  TestServer s({.script = {std::string(16384, 'x')}}, {.stream_buffer = 64 << 10, .write_timeout = 600});
  Client slow(s.port(), 4096);
  slow.send(chat_text(1000000, true));
  ASSERT_TRUE(eventually([&] { return s.service.requests().size() == 1; }));
  EXPECT_EQ(s.ask("POST", kPath, R"({"max_tokens": 3, "messages": [{"role": "user", "content": ""}]})").status, 200);
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 1; }));
  EXPECT_TRUE(eventually([&] { return metric(s, "kvasir_http_slow_readers_total") == 1; }));
}

TEST(ServerLimits, ReaderThatStopsIsCutOffByTime) {
  TestServer s({.script = {std::string(16384, 'x')}}, {.stream_buffer = 1 << 30, .write_timeout = 0.3});
  Client slow(s.port(), 4096);
  slow.send(chat_text(500, true));  // 8 MB: more than the system buffers
  EXPECT_TRUE(eventually([&] { return metric(s, "kvasir_http_slow_readers_total") == 1; }));
}

TEST(ServerLimits, FullQueueIs429) {
  TestServer s({.most_queued = 2, .most_running = 0});
  Client a(s.port()), b(s.port());
  a.send(chat_text(1, false));
  b.send(chat_text(1, true));
  ASSERT_TRUE(eventually([&] { return s.service.requests().size() == 2; }));
  for (const bool stream : {false, true}) {
    Client c(s.port());
    c.send(chat_text(1, stream));
    const Reply r = c.read();
    EXPECT_EQ(r.status, 429);
    EXPECT_FALSE(r.header("retry-after").empty());
    EXPECT_EQ(r.json()["error"]["code"], "rate_limit_exceeded");
  }
}

TEST(ServerLimits, HalfOfARequestThatDoesNotFitIsTakenBack) {
  TestServer s({.most_queued = 2, .most_running = 0});
  EXPECT_EQ(s.post("/v1/completions", {{"prompt", "x"}, {"n", 3}}).status, 429);
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 2; }));
}

// The stream has begun before the queue is full: only there the client can hear of it.
TEST(ServerLimits, AStreamOfWhichHalfDoesNotFitEndsWithTheError) {
  std::promise<void> streams;
  const auto streaming = streams.get_future().share();
  TestServer s({.delay = 0.01, .most_queued = 1, .before_submit = [&](std::size_t submitted) {
                  if (submitted == 1) streaming.wait_for(kPatience);
                }});
  Client c(s.port());
  Json body{{"prompt", "x"}, {"n", 2}, {"max_tokens", 1000000}, {"stream", true}};
  c.send(http_text("POST", "/v1/completions", dump(body)));
  EXPECT_TRUE(c.until("w0 "));
  streams.set_value();
  const auto events = events_of(c.read().body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back()["error"]["code"], "rate_limit_exceeded");
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 1; }));
  c.send(http_text("GET", "/health"));
  EXPECT_EQ(c.read().status, 200);
}

TEST(ServerLimits, QueueTimeoutIs503) {
  TestServer s({.most_running = 0}, {.queue_timeout = 0.1});
  for (const bool stream : {false, true}) {
    Client c(s.port());
    c.send(chat_text(1, stream));
    const Reply r = c.read();
    EXPECT_EQ(r.status, 503);
    EXPECT_FALSE(r.header("retry-after").empty());
    EXPECT_EQ(r.json()["error"]["code"], "queue_timeout");
  }
}

TEST(ServerLimits, RequestTimeoutIs504) {
  TestServer s({.delay = 0.02}, {.request_timeout = 0.3});
  Client plain(s.port());
  plain.send(chat_text(100000, false));
  const Reply r = plain.read();
  EXPECT_EQ(r.status, 504);
  EXPECT_EQ(r.json()["error"]["code"], "timeout");
  Client streaming(s.port());
  streaming.send(chat_text(100000, true));
  const auto events = events_of(streaming.read().body);
  EXPECT_EQ(events.back()["error"]["code"], "timeout");
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 2; }));
}

TEST(ServerLimits, SilentStreamsGetComments) {
  TestServer s({.delay = 0.6}, {.keepalive = 0.1});
  Client c(s.port());
  c.send(chat_text(1, true));
  const Reply r = c.read();
  EXPECT_NE(r.body.find(": keep-alive\n\n"), std::string::npos);
  EXPECT_GE(events_of(r.body).size(), 3u);
}

TEST(ServerLimits, ConnectionsOverTheLimitAre503) {
  TestServer s({}, {.max_connections = 2});
  Client a(s.port()), b(s.port());
  for (Client* c : {&a, &b}) {
    c->send(http_text("GET", "/health"));
    EXPECT_EQ(c->read().status, 200);
  }
  const Reply r = s.ask("GET", "/health");
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.header("connection"), "close");
  EXPECT_FALSE(r.header("retry-after").empty());
  a.close();
  EXPECT_TRUE(eventually([&] { return s.ask("GET", "/health").status == 200; }));
}

TEST(ServerLimits, KeepAliveAndPipelining) {
  TestServer s;
  Client c(s.port());
  c.send(http_text("GET", "/v1/models"));
  EXPECT_EQ(c.read().status, 200);
  c.send(chat_text(2, true) + http_text("GET", "/health") + chat_text(1, false) + http_text("GET", "/nothing"));
  EXPECT_EQ(events_of(c.read().body).size(), 4u);
  EXPECT_EQ(c.read().body, R"({"status":"ok"})");
  EXPECT_EQ(c.read().json()["choices"][0]["message"]["content"], "w0 ");
  EXPECT_EQ(c.read().status, 404);
  c.send("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(c.read().header("connection"), "close");
  EXPECT_TRUE(c.closed());
}

TEST(ServerLimits, BodiesAfterContinueAndInChunks) {
  TestServer s;
  const std::string body = R"({"prompt": "abc", "max_tokens": 1})";
  Client c(s.port());
  c.send(fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
      body.size()));
  EXPECT_EQ(c.read().status, 100);
  c.send(body);
  EXPECT_EQ(c.read().status, 200);
  c.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char x : body) c.send(fmt::format("1\r\n{}\r\n", x));
  c.send("0\r\n\r\n");
  EXPECT_EQ(c.read().status, 200);
}

TEST(ServerLimits, OldHttpEndsStreamsByClosing) {
  TestServer s;
  Json body = kChat;
  body["stream"] = true;
  Client c(s.port());
  c.send(fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kPath, dump(body).size(), dump(body)));
  const Reply r = c.read();
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.header("transfer-encoding"), "");
  EXPECT_EQ(events_of(r.body).size(), 7u);
}

TEST(ServerLimits, DrainLetsRequestsEnd) {
  TestServer s({.delay = 0.02}, {.drain_timeout = 20});
  Client idle(s.port());
  idle.send(http_text("GET", "/health"));
  EXPECT_EQ(idle.read().status, 200);
  Client streaming(s.port());
  streaming.send(chat_text(20, true));
  ASSERT_TRUE(streaming.until("w0 "));
  s.server.stop();
  EXPECT_TRUE(idle.closed());
  const Reply r = streaming.read();
  EXPECT_EQ(r.status, 200);
  EXPECT_GE(events_of(r.body).size(), 3u);
  s.join();
  EXPECT_EQ(s.service.cancelled(), 0u);
  EXPECT_NE(s.log().find("stopped complete=true"), std::string::npos) << s.log();
  Client late(s.port());
  EXPECT_FALSE(late.connected());
}

TEST(ServerLimits, DrainCancelsWhatTakesTooLong) {
  TestServer s({.delay = 0.02}, {.drain_timeout = 0.2});
  Client streaming(s.port());
  streaming.send(chat_text(1000000, true));
  ASSERT_TRUE(streaming.until("w0 "));
  s.server.stop();
  s.join();
  EXPECT_EQ(s.service.cancelled(), 1u);
  EXPECT_NE(s.log().find("stopped complete=false"), std::string::npos) << s.log();
}

TEST(ServerLimits, SigtermDrains) {
  TestServer s({.delay = 0.01}, {}, true);
  Client streaming(s.port());
  streaming.send(chat_text(20, true));
  ASSERT_TRUE(streaming.until("w0 "));
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(streaming.read().status, 200);
  s.join();
  EXPECT_EQ(s.service.cancelled(), 0u);
}

TEST(ServerLimits, BadOptions) {
  FakeService service;
  const auto message = [&](ServerOptions o) -> std::string {
    try {
      Server server(std::move(o), service, nullptr);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message({.host = "no.such.host.invalid", .port = 0}), "");
  EXPECT_NE(message({.port = 0, .tls_cert = "/nowhere"}).find("--tls-cert and --tls-key"), std::string::npos);
  EXPECT_NE(message({.port = 0, .tls_cert = "/nowhere", .tls_key = "/nowhere"}).find("/nowhere"), std::string::npos);
  EXPECT_NE(message({.port = 0, .api_key_file = "/nowhere"}).find("/nowhere"), std::string::npos);
  EXPECT_NE(message({.port = 99999}).find("port"), std::string::npos);
  TestServer s;
  EXPECT_NE(message({.port = s.port()}).find("bind"), std::string::npos);
}

TEST(ServerLimits, WithoutATemplate) {
  FakeService service;
  Server server({.port = 0}, service, nullptr);
  std::thread thread([&] { server.run(); });
  {
    Client c(server.port());
    c.send(chat_text(1, false));
    EXPECT_EQ(c.read().status, 501);
  }
  server.stop();
  thread.join();
}

}  // namespace
}  // namespace kvasir::serve
