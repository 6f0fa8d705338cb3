// Pictures at URLs that strangers name: what is fetched, and above all what is not.
#include "client/picture_url.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/patience_fixture.hpp"
#include "client/web_fixture.hpp"

namespace kvasir::client {
namespace {

TEST(PictureAddress, IsPublicOrNot) {
  for (const char* address : {"8.8.8.8",         "1.1.1.1",         "9.255.255.255",        "11.0.0.0",
                              "100.63.255.255",  "100.128.0.0",     "126.255.255.255",      "128.0.0.1",
                              "169.253.255.255", "169.255.0.0",     "172.15.255.255",       "172.32.0.0",
                              "192.0.1.0",       "192.167.255.255", "192.169.0.0",          "198.17.255.255",
                              "198.20.0.0",      "223.255.255.255", "2001:4860:4860::8888", "2606:4700::1111",
                              "2001:200::1",     "::ffff:8.8.8.8",  "64:ff9b::808:808",     "2002:808:808::1"})
    EXPECT_TRUE(is_public_address(address)) << address;
  for (const char* address : {"0.0.0.0",
                              "0.1.2.3",
                              "10.0.0.1",
                              "10.255.255.255",
                              "100.64.0.1",
                              "100.127.255.255",
                              "127.0.0.1",
                              "127.255.255.255",
                              "169.254.169.254",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.0.0.1",
                              "192.0.2.1",
                              "192.88.99.1",
                              "192.168.1.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.1",
                              "224.0.0.1",
                              "239.255.255.255",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "::ffff:127.0.0.1",
                              "::ffff:10.0.0.1",
                              "::ffff:169.254.169.254",
                              "64:ff9b::7f00:1",
                              "64:ff9b::a9fe:a9fe",
                              "64:ff9b:1::1",
                              "100::1",
                              "2001::1",
                              "2001:db8::1",
                              "2002:7f00:1::",
                              "2002:a00:1::1",
                              "3fff::1",
                              "3fff:fff::1",
                              "fc00::1",
                              "fd12:3456::1",
                              "fe80::1",
                              "fec0::1",
                              "ff02::1",
                              "4000::1",
                              "::127.0.0.1",
                              "",
                              "localhost",
                              "8.8.8",
                              "8.8.8.8 "})
    EXPECT_FALSE(is_public_address(address)) << address;
}

TEST(PictureHosts, AreNamedByHostAndPort) {
  const PictureHosts hosts{{"pictures.example", "Cdn.Example:8443", "127.0.0.1:99", "[::1]:99"}};
  hosts.check();
  EXPECT_TRUE(hosts.names("pictures.example", 443));
  EXPECT_TRUE(hosts.names("PICTURES.example", 80));
  EXPECT_FALSE(hosts.names("a.pictures.example", 443));
  EXPECT_FALSE(hosts.names("pictures.example.org", 443));
  EXPECT_TRUE(hosts.names("cdn.example", 8443));
  EXPECT_FALSE(hosts.names("cdn.example", 443));
  EXPECT_TRUE(hosts.names("[::1]", 99));
  EXPECT_FALSE(hosts.names("127.0.0.1", 98));
  EXPECT_FALSE(hosts.all_public());
  EXPECT_TRUE((PictureHosts{{"public"}}).all_public());
  EXPECT_FALSE((PictureHosts{{"public"}}).names("public", 80));
  for (const char* bad : {"", ":80", "a:", "a:0", "a:65536", "a:b", "http://a", "a/b", "[::1", "[::1]x", "u@a"})
    EXPECT_THROW((PictureHosts{{bad}}).check(), Error) << bad;
}

class PictureUrl : public ::testing::Test {
 protected:
  std::string fetched(const std::string& url, std::vector<std::string> allowed, std::size_t most = 1000,
                      std::chrono::milliseconds time = kPatience) {
    try {
      return fetch_picture(url, {.hosts = {std::move(allowed)},
                                 .most_bytes = most,
                                 .until = std::chrono::steady_clock::now() + time,
                                 .go_on = nullptr});
    } catch (const Error& e) {
      if (e.code() == Code::kUnsupported) missing_ = true;
      return std::string("ERROR ") + e.what();
    }
  }
  void SetUp() override {
    web_.put("/ok.png", "image/png", "the picture");
    fetched(web_.url("/ok.png"), {web_.host()});
    if (missing_) GTEST_SKIP() << "SKIPPED: this build has no libcurl";
    before_ = web_.asked();
  }

  WebFixture web_;
  bool missing_ = false;
  int before_ = 0;
};

TEST_F(PictureUrl, IsFetchedFromAHostThatIsNamed) {
  EXPECT_EQ(fetched(web_.url("/ok.png"), {web_.host()}), "the picture");
  EXPECT_EQ(fetched(web_.url("/ok.png?a=b#c"), {"elsewhere.example", "127.0.0.1"}),
            "ERROR could not be fetched: the server answered 404");
  web_.put("/odd", "Image/WEBP; charset=binary", "other");
  EXPECT_EQ(fetched(web_.url("/odd"), {web_.host()}), "other");
  web_.move("/moved", "ok.png");
  web_.move("/twice", web_.url("/moved"));
  EXPECT_EQ(fetched(web_.url("/twice"), {web_.host()}), "the picture");
}

// No connection at all, whatever the address is dressed as.
TEST_F(PictureUrl, IsNotFetchedFromWithin) {
  const std::string port = std::to_string(web_.port());
  for (const std::string host : {"127.0.0.1", "localhost", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "[::1]",
                                 "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.0.0.1.", "LOCALHOST"}) {
    const std::string said = fetched("http://" + host + ":" + port + "/ok.png", {"public"});
    EXPECT_TRUE(said.starts_with("ERROR ")) << host << ": " << said;
  }
  EXPECT_NE(fetched(web_.url("/ok.png"), {"public"}).find("is no public host"), std::string::npos);
  EXPECT_NE(fetched(web_.url("/ok.png"), {"pictures.example"}).find("is no host that this server fetches"),
            std::string::npos);
  EXPECT_NE(fetched(web_.url("/ok.png"), {"127.0.0.1:1"}).find("is no host that this server fetches"),
            std::string::npos);
  EXPECT_EQ(fetched("http://a:b@" + web_.host() + "/ok.png", {web_.host()}),
            "ERROR has a user or a password, which are not sent");
  EXPECT_EQ(fetched("http://pictures.example@" + web_.host() + "/ok.png", {"pictures.example"}),
            "ERROR has a user or a password, which are not sent");
  for (const char* url : {"file:///etc/passwd", "ftp://127.0.0.1/a", "gopher://127.0.0.1/a", "dict://127.0.0.1/a"})
    EXPECT_EQ(fetched(url, {"127.0.0.1", "public"}), "ERROR is of another kind than http and https") << url;
  EXPECT_TRUE(fetched("http:///ok.png", {"public"}).starts_with("ERROR "));
  EXPECT_EQ(web_.asked(), before_);
}

TEST_F(PictureUrl, RedirectsAreCheckedLikeTheFirstUrl) {
  WebFixture within;
  within.put("/secret.png", "image/png", "secret");
  web_.move("/within", within.url("/secret.png"));
  web_.move("/local", "http://localhost:" + std::to_string(within.port()) + "/secret.png");
  web_.move("/file", "file:///etc/passwd");
  web_.move("/round", "/round");
  EXPECT_NE(fetched(web_.url("/within"), {web_.host(), "public"}).find("is no public host"), std::string::npos);
  EXPECT_NE(fetched(web_.url("/within"), {web_.host()}).find("is no host that this server fetches"), std::string::npos);
  EXPECT_NE(fetched(web_.url("/local"), {web_.host(), "public"}).find("is no public host"), std::string::npos);
  EXPECT_EQ(within.asked(), 0);
  EXPECT_EQ(fetched(web_.url("/within"), {web_.host(), within.host()}), "secret");
  EXPECT_TRUE(fetched(web_.url("/file"), {web_.host()}).starts_with("ERROR "));
  EXPECT_EQ(fetched(web_.url("/round"), {web_.host()}), "ERROR is moved more than 5 times");
}

TEST_F(PictureUrl, OfASoundIsOfASoundsType) {
  const auto heard = [&](const std::string& path) -> std::string {
    try {
      return fetch_picture(web_.url(path), {.hosts = {{web_.host()}},
                                            .kind = Fetched::kSound,
                                            .most_bytes = 1000,
                                            .until = std::chrono::steady_clock::now() + kPatience,
                                            .go_on = nullptr});
    } catch (const Error& e) {
      return std::string("ERROR ") + e.what();
    }
  };
  for (const char* type : {"audio/wav", "Audio/X-WAV", "audio/mpeg", "audio/ogg; codecs=opus", "application/ogg",
                           "audio/flac", "application/octet-stream"}) {
    web_.put("/sound", type, "the sound");
    EXPECT_EQ(heard("/sound"), "the sound") << type;
  }
  EXPECT_EQ(heard("/ok.png"),
            "ERROR is of the type 'image/png', expected audio/wav, audio/mpeg, audio/flac or audio/ogg");
  EXPECT_NE(fetched(web_.url("/sound"), {web_.host()}, 3).find("larger than 3 bytes"), std::string::npos);
  web_.put("/sound", "audio/wav", "the sound");
  EXPECT_EQ(fetched(web_.url("/sound"), {web_.host()}),
            "ERROR is of the type 'audio/wav', expected image/jpeg, image/png or image/webp");
}

TEST_F(PictureUrl, IsBounded) {
  web_.put("/page", "text/html", "<html>");
  EXPECT_EQ(fetched(web_.url("/page"), {web_.host()}),
            "ERROR is of the type 'text/html', expected image/jpeg, image/png or image/webp");
  web_.put("/long", "image/png", std::string(1001, 'x'));
  EXPECT_EQ(fetched(web_.url("/long"), {web_.host()}), "ERROR is larger than 1000 bytes");
  EXPECT_EQ(fetched(web_.url("/long"), {web_.host()}, 1001).size(), 1001u);
  web_.put("/unsaid",
           "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nConnection: close\r\n\r\n" + std::string(5000, 'x'));
  EXPECT_EQ(fetched(web_.url("/unsaid"), {web_.host()}), "ERROR is larger than 1000 bytes");
  web_.put("/empty", "image/png", "");
  EXPECT_EQ(fetched(web_.url("/empty"), {web_.host()}), "ERROR is empty");
  web_.put("/silent", "");
  EXPECT_EQ(fetched(web_.url("/silent"), {web_.host()}, 1000, std::chrono::milliseconds(200)), "ERROR took too long");
  web_.put("/short", "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 50\r\n\r\nfew");
  EXPECT_TRUE(fetched(web_.url("/short"), {web_.host()}).starts_with("ERROR could not be fetched"));
  try {
    fetch_picture(web_.url("/silent"), {.hosts = {{web_.host()}},
                                        .most_bytes = 10,
                                        .until = std::chrono::steady_clock::now() + kPatience,
                                        .go_on = [] { return false; }});
    ADD_FAILURE() << "fetched";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kCancelled);
  }
}

}  // namespace
}  // namespace kvasir::client
