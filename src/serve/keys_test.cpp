#include "serve/keys.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace kvasir::serve {
namespace {

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

}  // namespace
}  // namespace kvasir::serve
