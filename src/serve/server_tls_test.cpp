// HTTPS with a certificate made here.
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "serve/certificate_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::serve {
namespace {

TEST(ServerTls, StreamsOverHttps) {
  const Certificate c = make_certificate("server", "DNS:localhost");
  TestServer s({}, {.tls_cert = c.cert_path, .tls_key = c.key_path, .header_timeout = 2});
  std::unique_ptr<SSL_CTX, Free<SSL_CTX, SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  Client socket(s.port());
  std::unique_ptr<SSL, Free<SSL, SSL_free>> ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), socket.fd());
  ASSERT_EQ(SSL_connect(ssl.get()), 1);
  EXPECT_GE(SSL_version(ssl.get()), TLS1_2_VERSION);
  const std::string request =
      http_text("POST", "/v1/chat/completions", R"({"stream": true, "messages": [{"role": "user", "content": "x"}]})");
  const std::string last = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  std::string answer;
  char bytes[4096];
  ASSERT_GT(SSL_write(ssl.get(), request.data(), static_cast<int>(request.size())), 0);
  while (answer.find("[DONE]") == std::string::npos) {
    const int n = SSL_read(ssl.get(), bytes, sizeof(bytes));
    ASSERT_GT(n, 0);
    answer.append(bytes, static_cast<std::size_t>(n));
  }
  EXPECT_NE(answer.find("\"content\":\"w"), std::string::npos);
  ASSERT_GT(SSL_write(ssl.get(), last.data(), static_cast<int>(last.size())), 0);
  int n = 0;
  while ((n = SSL_read(ssl.get(), bytes, sizeof(bytes))) > 0) answer.append(bytes, static_cast<std::size_t>(n));
  EXPECT_NE(answer.find(R"({"status":"ok"})"), std::string::npos);
  EXPECT_EQ(SSL_get_error(ssl.get(), n), SSL_ERROR_ZERO_RETURN);  // ended with close_notify

  Client plain(s.port());  // speaks no TLS
  plain.send(http_text("GET", "/health"));
  EXPECT_TRUE(plain.closed(10));
  {
    Client leaves(s.port());
    std::unique_ptr<SSL, Free<SSL, SSL_free>> other(SSL_new(context.get()));
    SSL_set_fd(other.get(), leaves.fd());
    ASSERT_EQ(SSL_connect(other.get()), 1);
    const std::string endless = http_text("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 100000000})");
    ASSERT_GT(SSL_write(other.get(), endless.data(), static_cast<int>(endless.size())), 0);
    ASSERT_TRUE(eventually([&] { return s.service.requests().size() == 2; }));
  }
  EXPECT_TRUE(eventually([&] { return s.service.cancelled() == 1; }));
}

}  // namespace
}  // namespace kvasir::serve
