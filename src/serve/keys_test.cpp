#include "serve/keys.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.hpp"

namespace kvasir::serve {
namespace keys_test {

std::string refused(std::string_view text) {
  try {
    KeyRing::parse(text, "keys");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Keys, TenantsComeFromKeys) {
  const KeyRing ring = KeyRing::parse("# comment\n\nk1 alice\r\nk2\n  k3\tbob  \nk4 alice", "keys");
  EXPECT_EQ(ring.tenant("Bearer k1"), "alice");
  EXPECT_EQ(ring.tenant("bearer  k3 "), "bob");
  EXPECT_EQ(ring.tenant("Bearer k4"), "alice");
  const auto derived = ring.tenant("Bearer k2");
  ASSERT_TRUE(derived);
  EXPECT_TRUE(derived->starts_with("key-"));
  EXPECT_EQ(derived->size(), 20u);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer k", "Bearer k11", "k1", "Basic k1", "Bearer #"})
    EXPECT_FALSE(ring.tenant(wrong)) << wrong;
  EXPECT_TRUE(KeyRing().empty());
}

TEST(Keys, BadFiles) {
  EXPECT_EQ(refused("# nothing\n"), "keys: holds no key, expected lines of KEY [TENANT]");
  EXPECT_EQ(refused("a b c\n"), "keys:1: expected KEY [TENANT], found more than two words");
  EXPECT_EQ(refused("a\nb\na x\n"), "keys:3: this key was given before");
  EXPECT_EQ(refused("a key-0123\n"), "keys:1: names of tenants may not begin with 'key-'");
}

TEST(Keys, ClientsSendTheFirst) {
  const std::string file = testing::TempDir() + "keys_test";
  std::ofstream(file) << "# mine\n\n  k1 alice\nk2\n";
  EXPECT_EQ(first_key(file), "k1");
  std::ofstream(file) << "k1\na b c\n";
  EXPECT_THROW(first_key(file), Error) << "what a server would refuse";
  EXPECT_THROW(first_key("/no/such/file"), Error);
}

}  // namespace keys_test
}  // namespace kvasir::serve
