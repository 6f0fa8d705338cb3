#include "text/schema/decimal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvasir::text {
namespace {

// Digits without a sign: longer is more.
int compare_digits(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  const int c = a.compare(b);
  return c < 0 ? -1 : c > 0;
}

std::string add_one(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') return ++digits[i], digits;
    digits[i] = '0';
  }
  return "1" + digits;
}

// REQUIRES: not zero.
std::string take_one(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  const auto first = digits.find_first_not_of('0');
  return first == digits.npos ? "0" : digits.substr(first);
}

// The next whole number, up or down.
Decimal step(Decimal n, bool up) {
  if (n.is_zero()) return {!up, "1", ""};
  n.whole = n.negative == up ? take_one(n.whole) : add_one(n.whole);
  if (n.whole == "0") n.negative = false;
  return n;
}

// Towards zero.
Decimal whole_part(const Decimal& d) { return {d.negative && d.whole != "0", d.whole, ""}; }

}  // namespace

Decimal decimal_of(const Json& number) {
  std::string text = number.is_number_float() ? fmt::format("{}", number.get<double>()) : number.dump();
  Decimal d;
  if (text.starts_with('-')) {
    d.negative = true;
    text.erase(0, 1);
  }
  int exponent = 0;
  if (const auto e = text.find_first_of("eE"); e != text.npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.resize(e);
  }
  const auto point = text.find('.');
  std::string whole = text.substr(0, point), fraction = point == text.npos ? "" : text.substr(point + 1);
  for (; exponent > 0; --exponent) {
    whole += fraction.empty() ? '0' : fraction[0];
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(fraction.begin(), whole.empty() ? '0' : whole.back());
    if (!whole.empty()) whole.pop_back();
  }
  const auto first = whole.find_first_not_of('0');
  d.whole = first == whole.npos ? "0" : whole.substr(first);
  d.fraction = fraction.substr(0, fraction.find_last_not_of('0') + 1);
  if (d.is_zero()) d.negative = false;
  return d;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int c = compare_digits(a.whole, b.whole);
  if (c == 0) c = a.fraction < b.fraction ? -1 : a.fraction > b.fraction;
  return a.negative ? -c : c;
}

Decimal ceiling(const Decimal& bound, bool open) {
  const Decimal n = whole_part(bound);
  const int c = compare(n, bound);
  return c < 0 || (c == 0 && open) ? step(n, true) : n;
}

Decimal floor_of(const Decimal& bound, bool open) {
  const Decimal n = whole_part(bound);
  const int c = compare(n, bound);
  return c > 0 || (c == 0 && open) ? step(n, false) : n;
}

}  // namespace kvasir::text
