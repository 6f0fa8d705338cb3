#include "text/schema/numbers.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr std::int32_t kWholeDigits = 18, kFractionDigits = 16;
constexpr std::uint32_t kMostMultiple = 1000;

using State = Automaton::State;

// States are numbered as they are asked for: edges may lead ahead.
class Builder {
 public:
  std::int32_t add(bool accepts = false) {
    states_.push_back({accepts, {}});
    return static_cast<std::int32_t>(states_.size() - 1);
  }
  State& operator[](std::int32_t i) { return states_[static_cast<std::size_t>(i)]; }
  void edge(std::int32_t from, char32_t low, char32_t high, std::int32_t to) {
    (*this)[from].edges.push_back({low, high, to});
  }
  void digits(std::int32_t from, std::int32_t to) { edge(from, '0', '9', to); }
  Automaton done() {
    for (State& s : states_)
      std::sort(s.edges.begin(), s.edges.end(),
                [](const Automaton::Edge& a, const Automaton::Edge& b) { return a.low < b.low; });
    return Automaton(std::move(states_));
  }

 private:
  std::vector<State> states_;
};

// All texts of numbers as they are written here.
Automaton form(bool whole, std::int32_t digits) {
  Builder b;
  const std::int32_t start = b.add(), sign = b.add(), zero = b.add(true), sign_zero = b.add(false), point = b.add();
  std::int32_t at = b.add(true);
  b.edge(start, '-', '-', sign);
  b.edge(start, '0', '0', zero);
  b.edge(start, '1', '9', at);
  if (!whole) b.edge(sign, '0', '0', sign_zero);  // -0.5
  b.edge(sign, '1', '9', at);
  for (const std::int32_t from : {zero, sign_zero})
    if (!whole) b.edge(from, '.', '.', point);
  for (std::int32_t i = 1;; ++i) {
    if (!whole) b.edge(at, '.', '.', point);
    if (i == digits) break;
    const std::int32_t next = b.add(true);
    b.digits(at, next);
    at = next;
  }
  at = point;
  for (std::int32_t i = 0; i < kFractionDigits && !whole; ++i) {
    const std::int32_t next = b.add(true);
    b.digits(at, next);
    at = next;
  }
  return b.done();
}

// Texts whose magnitude is less than, equal to, or more than that of `bound`, behind state `start` of `b`.
void compare_magnitude(Builder& b, std::int32_t start, const Decimal& bound, bool less, bool equal, bool more) {
  const std::int32_t is_less = b.add(less), is_more = b.add(more);  // in the fraction, decided
  b.digits(is_less, is_less);
  b.digits(is_more, is_more);
  const std::string& whole = bound.whole;
  const std::string& fraction = bound.fraction;
  // In the fraction, equal up to digit j of the bound's; behind its end zeros are equal.
  std::vector<std::int32_t> same(fraction.size() + 1);
  for (std::size_t j = 0; j <= fraction.size(); ++j) same[j] = b.add(j == fraction.size() ? equal : less);
  for (std::size_t j = 0; j <= fraction.size(); ++j) {
    const char32_t d = j < fraction.size() ? static_cast<char32_t>(fraction[j]) : U'0';
    if (d > '0') b.edge(same[j], '0', d - 1, is_less);
    b.edge(same[j], d, d, same[std::min(j + 1, fraction.size())]);
    if (d < '9') b.edge(same[j], d + 1, '9', is_more);
  }
  // Behind k digits of the whole part, which are less than, equal to, or more than the bound's first k.
  std::int32_t longer = b.add(more), before[3] = {-1, start, -1};
  b.digits(longer, longer);
  b.edge(longer, '.', '.', is_more);
  for (std::size_t k = 0; k <= whole.size(); ++k) {
    const bool all = k == whole.size();
    std::int32_t next[3] = {-1, -1, -1};
    if (!all) {
      const bool last = k + 1 == whole.size();
      next[0] = b.add(less);
      next[1] = b.add(last ? (fraction.empty() ? equal : less) : less);
      next[2] = b.add(last ? more : less);
    }
    for (int s = 0; s < 3; ++s) {
      if (before[s] < 0) continue;
      if (k > 0) b.edge(before[s], '.', '.', all ? (s == 0 ? is_less : s == 1 ? same[0] : is_more) : is_less);
      if (all) {
        b.digits(before[s], longer);
        continue;
      }
      const auto d = static_cast<char32_t>(whole[k]);
      if (s != 1) {
        b.digits(before[s], next[s]);
        continue;
      }
      if (d > '0') b.edge(before[s], '0', d - 1, next[0]);
      b.edge(before[s], d, d, next[1]);
      if (d < '9') b.edge(before[s], d + 1, '9', next[2]);
    }
    for (int s = 0; s < 3; ++s) before[s] = next[s];
  }
}

void any_magnitude(Builder& b, std::int32_t start) {
  const std::int32_t rest = b.add(true);
  for (const std::int32_t from : {start, rest}) {
    b.digits(from, rest);
    b.edge(from, '.', '.', rest);
  }
}

Automaton bounded(const NumberBound& bound, bool is_low) {
  Builder b;
  const std::int32_t start = b.add(), sign = b.add();
  b.edge(start, '-', '-', sign);
  const bool equal = !bound.open;
  if (bound.value.negative) {  // low: all without a sign, and -|x| with |x| at most |low|
    if (is_low) any_magnitude(b, start);
    compare_magnitude(b, sign, bound.value, is_low, equal, !is_low);
  } else {
    if (!is_low) any_magnitude(b, sign);
    compare_magnitude(b, start, bound.value, !is_low, equal, is_low);
  }
  return b.done();
}

// Remainders of what was read, in units of 10^-places: a number that ends early has zeros there.
Automaton multiples(const Decimal& of) {
  const auto places = static_cast<std::int32_t>(of.fraction.size());
  std::string digits = of.whole == "0" ? of.fraction : of.whole + of.fraction;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty() || digits.size() > 4 || std::stoul(digits) > kMostMultiple || places > kFractionDigits)
    throw Error(Code::kUnsupported, "is not supported for this number");
  const auto unit = static_cast<std::uint32_t>(std::stoul(digits));
  Builder b;
  const std::int32_t start = b.add();
  // (remainder, places read; -1: before the point)
  const auto number = [&](std::uint32_t remainder, std::int32_t place) {
    return 1 + (place + 1) * static_cast<std::int32_t>(unit) + static_cast<std::int32_t>(remainder);
  };
  for (std::int32_t place = -1; place <= places; ++place)
    for (std::uint32_t r = 0; r < unit; ++r) {
      std::uint64_t rest = r;
      for (std::int32_t i = std::max(place, 0); i < places; ++i) rest = rest * 10 % unit;
      b.add(rest == 0);
    }
  b.edge(start, '-', '-', number(0, -1));
  for (char32_t d = '0'; d <= '9'; ++d) {
    b.edge(start, d, d, number((d - '0') % unit, -1));
    for (std::int32_t place = -1; place < places; ++place)
      for (std::uint32_t r = 0; r < unit; ++r)
        b.edge(number(r, place), d, d, number((r * 10 + (d - '0')) % unit, place < 0 ? -1 : place + 1));
  }
  for (std::uint32_t r = 0; r < unit; ++r) {
    if (places > 0) b.edge(number(r, -1), '.', '.', number(r, 0));
    if (places == 0) {  // nothing but zeros may stand behind the point
      b.edge(number(r, -1), '.', '.', number(r, 0));
    }
    b.edge(number(r, places), '0', '0', number(r, places));
  }
  return b.done();
}

}  // namespace

Automaton automaton_of_numbers(const NumberRules& rules, std::uint64_t* steps) {
  std::uint64_t own = 0;
  std::uint64_t& spent = steps ? *steps : own;
  spent += 4096;
  std::int32_t digits = kWholeDigits;
  if (rules.low && !rules.low->value.negative)
    digits = std::max(digits, static_cast<std::int32_t>(rules.low->value.whole.size()));
  if (rules.high && rules.high->value.negative)
    digits = std::max(digits, static_cast<std::int32_t>(rules.high->value.whole.size()));
  Automaton all = form(rules.whole, digits);
  if (rules.low) all = Automaton::both(all, bounded(*rules.low, true), spent);
  if (rules.high) all = Automaton::both(all, bounded(*rules.high, false), spent);
  for (const Decimal& m : rules.multiples) {
    const Automaton some = multiples(m);
    spent += 16 * some.edges();
    all = Automaton::both(all, some, spent);
  }
  return all;
}

}  // namespace kvasir::text
