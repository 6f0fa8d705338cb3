// How a tier is named on a command line or in a configuration:  NAME[:ADDRESS][?OPTION=VALUE[&OPTION=VALUE]...]
//
//   ram:?size=4GiB      lmdb:/var/cache/kvasir?size=10GiB&rate=200MiB      redis:cache1:6379,cache2:6379?timeout=50ms
//
// Values may be percent-encoded (%26 is '&'). Sizes are bytes or have a unit: 4096, 64KiB, 1.5GiB, 2GB. Times have one:
// 250us, 50ms, 2s, 5min, 12h, 7d.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::store {

// A time with its unit, as above, up to ten years. Throws Error(kBadInput) that names `context`.
std::chrono::nanoseconds parse_time(std::string_view text, const std::string& context);

// A number of bytes, as above, up to 2^60. Throws Error(kBadInput) that names `context`.
std::uint64_t parse_bytes(std::string_view text, const std::string& context);

// Throws Error(kBadInput) that names the option. Every option is asked for once, by whom it concerns; finish() then
// refuses those that nobody asked for.
class Spec {
 public:
  explicit Spec(std::string_view text);

  const std::string& name() const { return name_; }
  const std::string& address() const { return address_; }
  // For messages: name and address, no options (they may hold a password).
  std::string shown() const { return name_ + ":" + address_; }

  bool has(std::string_view option) const;
  std::string text(std::string_view option, std::string_view otherwise);
  std::uint64_t bytes(std::string_view option, std::uint64_t otherwise, std::uint64_t low, std::uint64_t high);
  std::uint64_t rate(std::string_view option, std::uint64_t otherwise);  // bytes per second; "200MiB" or "200MiB/s"
  std::chrono::nanoseconds time(std::string_view option, std::chrono::nanoseconds otherwise);
  std::int64_t number(std::string_view option, std::int64_t otherwise, std::int64_t low, std::int64_t high);
  std::string choice(std::string_view option, std::string_view otherwise, const std::vector<std::string>& choices);

  void finish() const;

 private:
  struct Option {
    std::string name;
    std::string value;
    bool asked = false;
  };
  const Option* ask(std::string_view option);
  [[noreturn]] void wrong(const Option& option, const std::string& expected) const;

  std::string name_;
  std::string address_;
  std::vector<Option> options_;
  std::vector<std::string> known_;  // options that were asked for, given or not
};

}  // namespace kvasir::store
