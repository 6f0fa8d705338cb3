#include "serve/keys.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::serve {
namespace {

constexpr std::string_view kDerived = "key-";
constexpr std::string_view kBlanks = " \t\r";

std::string_view next_word(std::string_view& line) {
  const std::size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
  const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

struct Line {
  int number;
  std::string_view key, tenant;  // the tenant may be empty
  [[noreturn]] void fail(const std::string& context, std::string message) const {
    throw Error(Code::kBadInput, std::move(message), fmt::format("{}:{}", context, number));
  }
};

// Those that hold a key, at least one.
std::vector<Line> lines_of(std::string_view text, const std::string& context) {
  std::vector<Line> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view key = next_word(rest);
    if (key.empty() || key[0] == '#') continue;
    lines.push_back({number, key, next_word(rest)});
    if (!next_word(rest).empty()) lines.back().fail(context, "expected KEY [TENANT], found more than two words");
  }
  if (lines.empty()) throw Error(Code::kBadInput, "holds no key, expected lines of KEY [TENANT]", context);
  return lines;
}

}  // namespace

KeyRing::Digest KeyRing::digest(std::string_view key) {
  Digest out;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), out.data());
  return out;
}

KeyRing KeyRing::load(const std::string& path) { return parse(read_text_file(path), path); }

KeyRing KeyRing::parse(std::string_view text, const std::string& context) {
  KeyRing ring;
  for (const Line& line : lines_of(text, context)) {
    Key key{digest(line.key), std::string(line.tenant)};
    if (key.tenant.starts_with(kDerived)) line.fail(context, "names of tenants may not begin with 'key-'");
    if (key.tenant.empty()) {
      key.tenant = kDerived;
      for (int i = 0; i < 8; ++i) key.tenant += fmt::format("{:02x}", key.digest[static_cast<std::size_t>(i)]);
    }
    for (const Key& other : ring.keys_)
      if (other.digest == key.digest) line.fail(context, "this key was given before");
    ring.keys_.push_back(std::move(key));
  }
  return ring;
}

std::string first_key(const std::string& path) {
  const std::string text = read_text_file(path);
  KeyRing::parse(text, path);  // for what it refuses
  return std::string(lines_of(text, path).front().key);
}

std::optional<std::string> KeyRing::tenant(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  for (std::size_t i = 0; i < kScheme.size(); ++i)
    if ((authorization[i] | 0x20) != kScheme[i]) return std::nullopt;  // blank | 0x20 is a blank
  authorization.remove_prefix(kScheme.size());
  const Digest given = digest(next_word(authorization));
  const Key* found = nullptr;
  for (const Key& key : keys_)
    if (CRYPTO_memcmp(key.digest.data(), given.data(), given.size()) == 0) found = &key;
  if (!found) return std::nullopt;
  return found->tenant;
}

}  // namespace kvasir::serve
