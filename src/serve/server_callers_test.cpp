// Who asks: keys and their tenants, names of conversations, origins and hosts.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "serve/bodies_fixture.hpp"
#include "serve/client_fixture.hpp"
#include "serve/prefix_id.hpp"

namespace kvasir::serve {
namespace {

TEST(Server, KeysAndTenants) {
  const std::string path = testing::TempDir() + "kvasir_keys";
  const std::string text = "# keys\nsecret-one alice\nsecret-two\n";
  write_file(path, std::as_bytes(std::span(text)));
  TestServer s({}, {.api_key_file = path});
  EXPECT_EQ(s.ask("GET", "/health").status, 200);
  const Reply none = s.post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("www-authenticate"), "Bearer");
  EXPECT_EQ(none.json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(s.ask("GET", "/metrics").status, 401);
  EXPECT_EQ(s.ask("GET", "/v1/models", "", "Authorization: Bearer secret-on\r\n").status, 401);
  EXPECT_EQ(s.ask("GET", "/v1/models", "", "Authorization: Basic secret-one\r\n").status, 401);
  const auto as = [&](const char* key) {
    return s.ask("POST", "/v1/chat/completions", dump(kChatBody), fmt::format("Authorization: Bearer {}\r\n", key))
        .status;
  };
  EXPECT_EQ(as("secret-one"), 200);
  EXPECT_EQ(as("secret-two"), 200);
  EXPECT_EQ(s.service.requests().at(0).tenant, "alice");
  EXPECT_TRUE(s.service.requests().at(1).tenant.starts_with("key-"));
  EXPECT_EQ(s.ask("GET", "/v1/models", "", "X-Request-Id: last\r\nAuthorization: Bearer secret-on\r\n").status, 401);
  EXPECT_TRUE(s.logs("id=last ")) << s.log();
  EXPECT_EQ(s.log().find("secret"), std::string::npos);
}

// --- X-Kvasir-Prefix ------------------------------------------------------------------------------------------------

std::string prefix_of(TestServer& s, const std::string& path, const Json& body, const std::string& headers = "") {
  const Reply r = s.ask("POST", path, dump(body), headers);
  EXPECT_EQ(r.status, 200) << r.body;
  EXPECT_TRUE(valid_prefix_id(r.header("x-kvasir-prefix"))) << r.header("x-kvasir-prefix");
  return r.header("x-kvasir-prefix");
}

Json message(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

TEST(Server, TurnsOfAChatHaveOnePrefix) {
  TestServer s;
  const std::string path = "/v1/chat/completions";
  Json chat{{"messages", {message("system", "Be kind."), message("user", "hello")}}};
  const std::string first = prefix_of(s, path, chat);
  chat["messages"].push_back(message("assistant", "w0"));
  chat["messages"].push_back(message("user", "and then?"));
  EXPECT_EQ(prefix_of(s, path, chat), first);
  EXPECT_EQ(prefix_of(s, path, with(chat, {{"stream", true}})), first);
  EXPECT_EQ(prefix_of(s, "/v1/warm", chat), first);
  Json other = chat;
  other["messages"][1]["content"] = "hello!";
  EXPECT_NE(prefix_of(s, path, other), first);
  other = chat;
  other["messages"][0]["content"] = "Be brief.";
  EXPECT_NE(prefix_of(s, path, other), first);
  // A part of a text is the same text.
  chat["messages"][1]["content"] = Json::array({{{"type", "text"}, {"text", "hello"}}});
  EXPECT_EQ(prefix_of(s, path, chat), first);
  EXPECT_EQ(s.ask("GET", "/health").header("x-kvasir-prefix"), "");
}

TEST(Server, PromptsWithOneFirstPageHaveOnePrefix) {
  TestServer s;
  std::vector<int> ids(128);
  for (int i = 0; i < 128; ++i) ids[static_cast<std::size_t>(i)] = 97 + i % 26;
  const auto of = [&] { return prefix_of(s, "/v1/completions", {{"prompt", ids}}); };
  const std::string first = of();
  ids.push_back(98);
  EXPECT_EQ(of(), first);
  ids[127] = 99;
  EXPECT_NE(of(), first);
}

TEST(Server, APrefixThatIsSentBackIsKept) {
  TestServer s;
  const std::string path = "/v1/chat/completions";
  const std::string own = prefix_of(s, path, kChatBody);
  EXPECT_EQ(prefix_of(s, path, kChatBody, "X-Kvasir-Prefix: 0123456789abcdef\r\n"), "0123456789abcdef");
  for (const char* wrong : {"0123456789ABCDEF", "0123456789abcde", "0123456789abcdef0", "../../../../../.", ""})
    EXPECT_EQ(prefix_of(s, path, kChatBody, fmt::format("X-Kvasir-Prefix: {}\r\n", wrong)), own) << wrong;
}

TEST(Server, PrefixesDependOnSecretAndTenant) {
  const auto file = [](const char* name, const std::string& text) {
    const std::string path = testing::TempDir() + name;
    write_file(path, std::as_bytes(std::span(text)));
    return path;
  };
  const std::string one = file("kvasir_secret_1", "0123456789 secret\n"),
                    two = file("kvasir_secret_2", "another secret!!");
  const std::string path = "/v1/chat/completions";
  TestServer a({}, {.prefix_key_file = one}), b({}, {.prefix_key_file = one}), c({}, {.prefix_key_file = two});
  TestServer random_1, random_2;
  const std::string known = prefix_of(a, path, kChatBody);
  EXPECT_EQ(prefix_of(b, path, kChatBody), known);
  EXPECT_NE(prefix_of(c, path, kChatBody), known);
  EXPECT_NE(prefix_of(random_1, path, kChatBody), prefix_of(random_2, path, kChatBody));
  TestServer tenants({}, {.api_key_file = file("kvasir_prefix_keys", "k1 alice\nk2 bob\n"), .prefix_key_file = one});
  EXPECT_NE(prefix_of(tenants, path, kChatBody, "Authorization: Bearer k1\r\n"),
            prefix_of(tenants, path, kChatBody, "Authorization: Bearer k2\r\n"));
  EXPECT_THROW(TestServer({}, {.prefix_key_file = file("kvasir_secret_3", "  too short  \n")}), Error);
}

// What is refused after the prompt was read says where it belongs too: the next try should go there.
TEST(Server, ARefusalHasAPrefix) {
  TestServer s({.most_queued = 0});
  const Reply r = s.post("/v1/chat/completions", kChatBody);
  EXPECT_EQ(r.status, 429);
  EXPECT_TRUE(valid_prefix_id(r.header("x-kvasir-prefix")));
}

TEST(Server, OriginsAndHosts) {
  TestServer s({}, {.cors_origins = {"https://ui.example"}, .allowed_hosts = {"box.lan"}});
  const Reply pre = s.ask("OPTIONS", "/v1/completions", "",
                          "Origin: https://ui.example\r\nAccess-Control-Request-Method: POST\r\n"
                          "Access-Control-Request-Headers: authorization\r\n");
  EXPECT_EQ(pre.status, 204);
  EXPECT_EQ(pre.header("access-control-allow-origin"), "https://ui.example");
  EXPECT_EQ(pre.header("access-control-allow-headers"), "authorization");
  EXPECT_EQ(s.ask("GET", "/health", "", "Origin: https://ui.example\r\n").header("access-control-expose-headers"),
            "X-Request-Id, request-id, X-Kvasir-Prefix");
  EXPECT_EQ(s.ask("GET", "/health", "", "Origin: https://evil.example\r\n").status, 403);
  EXPECT_EQ(s.ask("GET", "/health", "", "Origin: http://localhost\r\n").status, 200);  // its own page
  const auto host = [&](const char* name) {
    Client client(s.port());
    client.send(fmt::format("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", name));
    return client.read().status;
  };
  EXPECT_EQ(host("127.0.0.1:8080"), 200);
  EXPECT_EQ(host("[::1]:8080"), 200);
  EXPECT_EQ(host("box.lan:8080"), 200);
  EXPECT_EQ(host("rebound.example"), 403);
  EXPECT_EQ(host("127.0.0.1.evil.example"), 403);
}

}  // namespace
}  // namespace kvasir::serve
