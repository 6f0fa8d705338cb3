#include "store/spec.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "base/hex.hpp"
#include "base/nearest.hpp"

namespace kvasir::store {
namespace {

std::string decoded(std::string_view text, const std::string& context) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int byte = hex_byte(text.substr(i + 1, 2));
    if (byte < 0) throw Error(Code::kBadInput, "expected two hexadecimal digits behind each '%'", context);
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kSizes[] = {
    {"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},        {"TB", 1e12}};
constexpr Unit kTimes[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}};

// Number and unit, or NaN.
double measure(std::string_view text, std::span<const Unit> units) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (status != std::errc{} || !std::isfinite(value) || value < 0) return NAN;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& u : units)
    if (u.name == unit) return value * u.factor;
  return NAN;
}

std::string shown_size(std::uint64_t bytes) {
  for (const Unit& u : {kSizes[5], kSizes[4], kSizes[3], kSizes[2]}) {
    const auto factor = static_cast<std::uint64_t>(u.factor);
    if (bytes >= factor && bytes % factor == 0) return std::to_string(bytes / factor) + std::string(u.name);
  }
  return std::to_string(bytes);
}

constexpr const char* kTimeExpected = "a time with its unit (as 50ms, 2s, 5min, 12h, 7d)";

// NaN: it is none.
double nanoseconds(std::string_view text) {
  const double value = measure(text, kTimes);
  return value > 0 && value <= 3650 * 86400e9 ? value : NAN;
}

}  // namespace

std::chrono::nanoseconds parse_time(std::string_view text, const std::string& context) {
  const double value = nanoseconds(text);
  if (std::isnan(value))
    throw Error(Code::kBadInput, std::string("expected ") + kTimeExpected + ", found '" + std::string(text) + "'",
                context);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value));
}

std::uint64_t parse_bytes(std::string_view text, const std::string& context) {
  const double value = measure(text, kSizes);
  if (!(value >= 0 && value <= 0x1p60))
    throw Error(Code::kBadInput, "expected a size (as 4096, 64KiB, 1.5GiB, 2GB), found '" + std::string(text) + "'",
                context);
  return static_cast<std::uint64_t>(value);
}

Spec::Spec(std::string_view text) {
  const std::size_t question = text.find('?');
  const std::string_view place = text.substr(0, question);
  const std::size_t colon = place.find(':');
  name_ = place.substr(0, colon);
  if (colon != std::string_view::npos) address_ = place.substr(colon + 1);
  if (question == std::string_view::npos) return;
  for (std::string_view rest = text.substr(question + 1); !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      throw Error(Code::kBadInput, "expected OPTION=VALUE behind '?', found '" + std::string(pair) + "'", shown());
    Option option{std::string(pair.substr(0, equals)), {}};
    if (has(option.name)) throw Error(Code::kBadInput, "option '" + option.name + "' is given twice", shown());
    option.value = decoded(pair.substr(equals + 1), shown() + " " + option.name);
    options_.push_back(std::move(option));
  }
}

bool Spec::has(std::string_view option) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& o) { return o.name == option; });
}

const Spec::Option* Spec::ask(std::string_view option) {
  known_.emplace_back(option);
  for (Option& o : options_) {
    if (o.name != option) continue;
    o.asked = true;
    return &o;
  }
  return nullptr;
}

void Spec::wrong(const Option& option, const std::string& expected) const {
  throw Error(Code::kBadInput, "expected " + expected + ", found '" + option.value + "'", shown() + " " + option.name);
}

std::string Spec::text(std::string_view option, std::string_view otherwise) {
  const Option* o = ask(option);
  return o ? o->value : std::string(otherwise);
}

std::uint64_t Spec::bytes(std::string_view option, std::uint64_t otherwise, std::uint64_t low, std::uint64_t high) {
  const Option* o = ask(option);
  if (!o) return otherwise;
  const double value = measure(o->value, kSizes);
  if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high)))
    wrong(*o, "a size from " + shown_size(low) + " to " + shown_size(high) + " (as 4096, 64KiB, 1.5GiB, 2GB)");
  return static_cast<std::uint64_t>(value);
}

std::uint64_t Spec::rate(std::string_view option, std::uint64_t otherwise) {
  const Option* o = ask(option);
  if (!o) return otherwise;
  std::string_view value = o->value;
  if (value.ends_with("/s")) value.remove_suffix(2);
  const double rate = measure(value, kSizes);
  if (!(rate >= 1 && rate <= 1e15)) wrong(*o, "bytes per second (as 200MiB or 200MiB/s)");
  return static_cast<std::uint64_t>(rate);
}

std::chrono::nanoseconds Spec::time(std::string_view option, std::chrono::nanoseconds otherwise) {
  const Option* o = ask(option);
  if (!o) return otherwise;
  const double value = nanoseconds(o->value);
  if (std::isnan(value)) wrong(*o, kTimeExpected);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value));
}

std::int64_t Spec::number(std::string_view option, std::int64_t otherwise, std::int64_t low, std::int64_t high) {
  const Option* o = ask(option);
  if (!o) return otherwise;
  std::int64_t value = 0;
  const char* const end = o->value.data() + o->value.size();
  const auto [at, status] = std::from_chars(o->value.data(), end, value);
  if (status != std::errc{} || at != end || value < low || value > high)
    wrong(*o, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return value;
}

std::string Spec::choice(std::string_view option, std::string_view otherwise, const std::vector<std::string>& choices) {
  const Option* o = ask(option);
  if (!o) return std::string(otherwise);
  if (std::find(choices.begin(), choices.end(), o->value) != choices.end()) return o->value;
  std::string list;
  for (const std::string& c : choices) list += (list.empty() ? "" : ", ") + c;
  wrong(*o, "one of " + list);
}

void Spec::finish() const {
  for (const Option& o : options_) {
    if (o.asked) continue;
    std::string list;
    for (const std::string& k : known_) list += (list.empty() ? "" : ", ") + k;
    throw Error(Code::kBadInput,
                "unknown option '" + o.name + "'" + did_you_mean(o.name, known_) + "; tier " + name_ + " has " + list,
                shown());
  }
}

}  // namespace kvasir::store
