// Records on a Redis server or cluster, to share them between machines. Plain TCP: for TLS run stunnel beside it.
// Library: hiredis (hiredis/hiredis.h), Debian package libhiredis-dev.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/file.hpp"
#include "store/backend.hpp"
#include "store/spec.hpp"
#ifdef KVASIR_REDIS
#include <charconv>

#include "store/redis/remote.hpp"
#endif

namespace kvasir::store::tiers_redis {
namespace {

#ifdef KVASIR_REDIS
using redis::Address;
using redis::Config;

// "cache1:6379", "[::1]:6379"
Address parse_address(const std::string& text, const std::string& context) {
  Address a;
  const std::size_t colon = text.rfind(':');
  a.host = text.substr(0, colon);
  if (a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']') a.host = a.host.substr(1, a.host.size() - 2);
  const char* const end = text.data() + text.size();
  const auto [at, status] = colon == std::string::npos ? std::from_chars_result{end, std::errc::invalid_argument}
                                                       : std::from_chars(text.data() + colon + 1, end, a.port);
  if (status != std::errc{} || at != end || a.host.empty() || a.port < 1 || a.port > 65535)
    throw Error(Code::kBadInput, "expected HOST:PORT, found '" + text + "'", context);
  return a;
}

std::string read_password(Spec& spec) {
  const std::string direct = spec.text("password", "");
  const std::string variable = spec.text("password_env", "");
  const std::string path = spec.text("password_file", "");
  if (!direct.empty() + !variable.empty() + !path.empty() > 1)
    throw Error(Code::kBadInput, "give one of password, password_env, password_file", spec.shown());
  if (!variable.empty()) {
    const char* value = std::getenv(variable.c_str());
    if (!value) throw Error(Code::kBadInput, "the environment has no " + variable, spec.shown() + " password_env");
    return value;
  }
  if (path.empty()) return direct;
  std::string text = read_text_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

void check_prefix(const std::string& prefix, const std::string& context) {
  // No braces, which choose a cluster's slot, and nothing that is a pattern.
  const bool good = !prefix.empty() && prefix.find_first_not_of(
                                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_.:-") == std::string::npos;
  if (!good)
    throw Error(Code::kBadInput, "expected letters, digits, '_', '.', ':', '-', found '" + prefix + "'", context);
}

std::unique_ptr<Backend> open(Spec& spec) {
  Config c;
  for (std::string rest = spec.address(); !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    c.seeds.push_back(parse_address(rest.substr(0, comma), spec.shown()));
    rest.erase(0, comma + 1);
  }
  c.user = spec.text("user", "");
  c.password = read_password(spec);
  if (!c.user.empty() && c.password.empty())
    throw Error(Code::kBadInput, "a user needs a password", spec.shown() + " user");
  c.database = static_cast<int>(spec.number("db", 0, 0, 1 << 20));
  c.prefix = spec.text("prefix", c.prefix);
  check_prefix(c.prefix, spec.shown() + " prefix");
  c.ttl = spec.time("ttl", c.ttl);
  c.connect = spec.time("connect", c.connect);
  c.back_off = spec.time("backoff", c.back_off);
  c.back_off_max = std::max(c.back_off, c.back_off_max);
  spec.finish();
  return std::make_unique<redis::Remote>(std::move(c));
}
#else
std::unique_ptr<Backend> open(Spec& spec) {
  throw Error(Code::kUnsupported, "this build has no Redis client: install libhiredis-dev and build again",
              spec.shown());
}
#endif

}  // namespace

const TierKind entry{.summary = "a Redis server or cluster, shared between machines",
                     .usage = "redis:HOST:PORT[,HOST:PORT...]?password_file=FILE&prefix=kvasir&ttl=7d",
                     .place = Place::kServer,
                     .open = open};

}  // namespace kvasir::store::tiers_redis
