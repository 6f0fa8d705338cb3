// Clients over TLS, against this project's own server, with certificates made here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.hpp"
#include "client/load.hpp"
#include "client/remote_target.hpp"
#include "serve/certificate_fixture.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::client {
namespace {

const serve::Certificate& authority() {
  static const serve::Certificate c = serve::make_certificate("authority", "");
  return c;
}

Endpoint at(std::uint16_t port, const std::string& ca_file, const std::string& host = "127.0.0.1") {
  Endpoint e = parse_endpoint(fmt::format("https://{}:{}", host, port), "--url");
  e.ca_file = ca_file;
  return e;
}

// What keeps a client away from the server; "" when nothing does.
std::string refusal(const Endpoint& endpoint) {
  try {
    EXPECT_EQ(model_of(endpoint), "org/fake-model");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class Links : public ::testing::Test {
 protected:
  static serve::ServerOptions with(const serve::Certificate& c) {
    return {.tls_cert = c.cert_path, .tls_key = c.key_path};
  }
};

TEST_F(Links, NamesAndAddressesOfTheCertificate) {
  const serve::Certificate c = serve::make_certificate("good", "DNS:localhost,IP:127.0.0.1", &authority());
  serve::TestServer s({}, with(c));
  const std::string& ca = authority().cert_path;
  EXPECT_EQ(refusal(at(s.port(), ca)), "");
  EXPECT_EQ(refusal(at(s.port(), ca, "localhost")), "") << "of its addresses, one that answers is taken";
  EXPECT_EQ(refusal(at(s.port(), c.cert_path)), "") << "the certificate itself may stand for its authority";
}

TEST_F(Links, CertificatesThatAreRefused) {
  const std::string name = "IP:127.0.0.1";
  {
    const serve::Certificate c = serve::make_certificate("stale", name, &authority(), -60);
    serve::TestServer s({}, with(c));
    EXPECT_SAYS(refusal(at(s.port(), authority().cert_path)),
                "out of its time (certificate has expired), expected a valid one");
  }
  {
    const serve::Certificate c = serve::make_certificate("other_name", "DNS:kvasir.example", &authority());
    serve::TestServer s({}, with(c));
    EXPECT_SAYS(refusal(at(s.port(), authority().cert_path)), "certificate is not for '127.0.0.1'");
    EXPECT_SAYS(refusal(at(s.port(), authority().cert_path, "localhost")), "certificate is not for 'localhost'");
  }
  const serve::Certificate own = serve::make_certificate("own", name),
                           other = serve::make_certificate("other_authority", "");
  serve::TestServer s({}, with(own));
  EXPECT_EQ(refusal(at(s.port(), own.cert_path)), "") << "its own certificate is the authority";
  EXPECT_SAYS(refusal(at(s.port(), "")), "is not trusted (self-signed certificate)");
  EXPECT_SAYS(refusal(at(s.port(), "")), "another's certificate goes to --ca-file");
  EXPECT_SAYS(refusal(at(s.port(), other.cert_path)), "expected one of an authority in --ca-file " + other.cert_path);
  EXPECT_EQ(s.service.requests().size(), 0u);
}

// The system's store is what OpenSSL takes it for: these variables move it.
TEST_F(Links, TrustsTheSystemsAuthorities) {
  const serve::Certificate c = serve::make_certificate("system", "IP:127.0.0.1", &authority());
  serve::TestServer s({}, with(c));
  EXPECT_SAYS(refusal(at(s.port(), "")), "is not trusted (unable to get local issuer certificate)");
  ::setenv("SSL_CERT_FILE", authority().cert_path.c_str(), 1);
  EXPECT_EQ(refusal(at(s.port(), "")), "");
  ::unsetenv("SSL_CERT_FILE");
}

TEST_F(Links, FilesOfAuthoritiesAreRead) {
  const std::string junk = testing::TempDir() + "kvasir_junk.pem";
  std::ofstream(junk) << "no certificate\n";
  for (const std::string& file : {junk, std::string("/no/such/file")}) {
    const std::string why = refusal(at(1, file));
    EXPECT_TRUE(why.starts_with("--ca-file: is '" + file + "', expected a file of certificates (PEM): ")) << why;
  }
}

TEST_F(Links, PlainMeetsTls) {
  serve::TestServer plain;
  EXPECT_SAYS(refusal(at(plain.port(), "")), "the server speaks no TLS (");
  EXPECT_SAYS(refusal(at(plain.port(), "")), "expected http:// in --url");
  const serve::Certificate c = serve::make_certificate("plain", "IP:127.0.0.1");
  serve::TestServer tls({}, with(c));
  EXPECT_SAYS(refusal(parse_endpoint(fmt::format("http://127.0.0.1:{}", tls.port()), "--url")),
              "a server that speaks TLS wants https:// in --url");
  EXPECT_SAYS(refusal(parse_endpoint("http://127.0.0.1:1", "--url")), "connecting: Connection refused");
  EXPECT_SAYS(refusal(at(1, "")), "connecting: Connection refused");
}

TEST_F(Links, LoadAndReplayOverTls) {
  const serve::Certificate c = serve::make_certificate("load", "IP:127.0.0.1", &authority());
  serve::ServerOptions options = with(c);
  options.api_key_file = testing::TempDir() + "kvasir_link_keys";
  std::ofstream(options.api_key_file) << "first alice\nsecond bob\n";
  serve::TestServer s({.delay = 0.001}, options);
  Endpoint e = at(s.port(), authority().cert_path);
  EXPECT_SAYS(refusal(e), "401 invalid_api_key");
  e.key = "second";
  const LoadReport r = run_load(e, "org/fake-model", 10, {.requests = 60, .prompt_tokens = 40, .tokens = 12},
                                [](std::int64_t, std::int64_t) { return true; });
  EXPECT_EQ(r.completed, 60);
  EXPECT_TRUE(r.errors.empty());
  EXPECT_EQ(r.completion_tokens, 720);
  EXPECT_GE(r.connections, 10);
  EXPECT_EQ(s.service.requests().back().tenant, "bob");

  lab::ReplayOptions replay{.conversations = testing::TempDir() + "link_test.jsonl", .max_tokens = 3};
  std::ofstream(replay.conversations) << R"({"turns": [{"role": "user", "content": "one"}]})"
                                      << "\n";
  const auto turns =
      lab::replay(*remote_target(e, "org/fake-model", replay), replay, [](std::int64_t, std::int64_t) { return true; });
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].same_text, 1);
}

// A server that closes connections between requests is asked over new ones.
TEST_F(Links, ConnectionsThatWereClosedAreMadeAgain) {
  const serve::Certificate c = serve::make_certificate("idle", "IP:127.0.0.1");
  serve::ServerOptions options = with(c);
  options.idle_timeout = 0.05;
  serve::TestServer s({}, options);
  lab::ReplayOptions replay{.conversations = "", .max_tokens = 2};
  const auto target = remote_target(at(s.port(), c.cert_path), "org/fake-model", replay);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(target->ask({{.role = "user", .content = "x"}}, 0, true));
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  EXPECT_EQ(s.service.requests().size(), 3u);
}

TEST_F(Links, AStreamThatIsCutIsDropped) {
  const serve::Certificate c = serve::make_certificate("cut", "IP:127.0.0.1");
  serve::TestServer s({.delay = 0.05}, with(c));
  std::thread ends([&] {
    EXPECT_TRUE(serve::eventually([&] { return s.service.requests().size() >= 3; }));
    s.server.stop();
    s.server.stop();
  });
  const LoadReport r = run_load(at(s.port(), c.cert_path), "org/fake-model", 2, {.requests = 2, .tokens = 100000},
                                [](std::int64_t, std::int64_t) { return true; });
  ends.join();
  s.join();
  EXPECT_EQ(r.completed, 0);
  EXPECT_EQ(r.dropped + r.failed + r.refused, 2);
}

// Nobody waits longer than told for a server that takes the connection and says nothing.
TEST_F(Links, ASilentServerIsGivenUp) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(fd, 4), 0);
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const double start = steady_seconds();
  try {
    run_load(at(ntohs(address.sin_port), ""), "x", 1, {.requests = 1, .patience = 0.3},
             [](std::int64_t, std::int64_t) { return true; });
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_SAYS(std::string(e.what()), "silent for too long");
  }
  EXPECT_LT(steady_seconds() - start, 20);
  ::close(fd);
}

}  // namespace
}  // namespace kvasir::client
