#include "base/base64.hpp"

#include <gtest/gtest.h>

namespace kvasir {
namespace {

TEST(Base64, TheExamplesOfRfc4648) {
  const std::pair<std::string_view, std::string_view> examples[] = {{"", ""},
                                                                    {"f", "Zg=="},
                                                                    {"fo", "Zm8="},
                                                                    {"foo", "Zm9v"},
                                                                    {"foob", "Zm9vYg=="},
                                                                    {"fooba", "Zm9vYmE="},
                                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, AllBytesComeBack) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (std::size_t n = 0; n <= bytes.size(); ++n)
    EXPECT_EQ(from_base64(to_base64(bytes.substr(0, n))), bytes.substr(0, n));
}

TEST(Base64, OtherTextsAreRefused) {
  for (const char* text : {"Zg=", "Zg", "Z===", "Zh==", "Zm9=", "Zm 9", "====", "Zg==Zg=="})
    EXPECT_FALSE(from_base64(text)) << text;
}

}  // namespace
}  // namespace kvasir
