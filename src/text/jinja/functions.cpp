// Functions that every template can call: Jinja's own, and raise_exception and strftime_now of Hugging Face.
#include <fmt/format.h>

#include <cstdio>

#include "text/jinja/builtins.hpp"
#include "text/jinja/objects.hpp"

namespace kvasir::text::jinja {
namespace {

// Jinja's sandbox has this limit.
constexpr std::uint64_t kMaxRange = 100000;

Value call_range(Machine& m, Args& args) {
  const auto [first, second, third] = bind(args, "range", {"start", "stop", "step"}, 1);
  const std::int64_t start = second ? int_or(first, 0, "range") : 0;
  const std::int64_t stop = int_or(second ? second : first, 0, "range");
  const std::int64_t step = int_or(third, 1, "range");
  if (step == 0) fail("range: the step must not be zero");
  std::vector<Value> items;
  if (step > 0 ? start < stop : start > stop) {
    const auto low = static_cast<std::uint64_t>(step > 0 ? start : stop);
    const auto high = static_cast<std::uint64_t>(step > 0 ? stop : start);
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
    const std::uint64_t count = (high - low - 1) / stride + 1;
    if (count > kMaxRange) fail(fmt::format("range: more than {} items", kMaxRange));
    m.meter().step(count);
    items.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i)
      items.emplace_back(
          static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(step)));
  }
  return make_range(m.meter(), start, stop, step, std::move(items));
}

// dict(mapping, name=value ...)
Value call_dict(Machine& m, Args& args) {
  DictMaker dict(m.meter());
  if (args.positional.size() > 1) fail("dict: takes at most 1 positional argument");
  for (const Value& from : args.positional) {
    if (const Dict* d = from.dict()) {
      for (const auto& [key, value] : d->entries) dict.set(key, value);
      continue;
    }
    const auto pairs = iterate(from, m.meter());
    for (const Value& pair : pairs->items) {
      const auto two = iterate(pair, m.meter());
      if (two->items.size() != 2) fail("dict: expected pairs");
      dict.set(two->items[0], two->items[1]);
    }
  }
  for (const auto& [name, value] : args.named) dict.set(Value(name), value);
  return dict.take();
}

// dict.fromkeys(keys, value)
Value call_fromkeys(Machine& m, Args& args) {
  const auto [keys, value] = bind(args, "fromkeys", {"iterable", "value"}, 1);
  DictMaker dict(m.meter());
  const auto items = iterate(*keys, m.meter());
  for (const Value& key : items->items) dict.set(key, value ? *value : Value(None{}));
  return dict.take();
}

constexpr Function kFromKeys{"fromkeys", call_fromkeys};

Value call_namespace(Machine& m, Args& args) {
  const Value from = call_dict(m, args);
  const Value ns = m.heap().make<Namespace>();
  for (const auto& [key, value] : from.dict()->entries) {
    if (!key.is_text()) fail("namespace: names must be strings");
    static_cast<Namespace*>(ns.object())->set(key.text_ref(), value);
  }
  return ns;
}

Value call_joiner(Machine& m, Args& args) {
  const auto [separator] = bind(args, "joiner", {"sep"});
  return m.heap().make<Joiner>(separator ? *separator : Value(std::string(", ")));
}

Value call_cycler(Machine& m, Args& args) {
  if (args.positional.empty() || !args.named.empty()) fail("cycler: expected the items to cycle through");
  return m.heap().make<Cycler>(std::move(args.positional));
}

Value call_raise(Machine& m, Args& args) {
  const auto [message] = bind(args, "raise_exception", {"message"}, 1);
  fail(to_str(*message, m.meter()));
}

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

// One directive of strftime, in the C locale and for a time without zone, as datetime.now() has none. `plain`: "%-d".
std::string directive(char c, bool plain, const std::tm& t) {
  const auto number = [plain](int n, int width) {
    return plain ? fmt::format("{}", n) : fmt::format("{:0{}}", n, width);
  };
  const auto name = [](const auto& names, int i) { return std::string(names[static_cast<std::size_t>(i)]); };
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  const int monday = (t.tm_wday + 6) % 7;
  switch (c) {
    case 'a':
      return name(kDays, t.tm_wday).substr(0, 3);
    case 'A':
      return name(kDays, t.tm_wday);
    case 'b':
    case 'h':
      return name(kMonths, t.tm_mon).substr(0, 3);
    case 'B':
      return name(kMonths, t.tm_mon);
    case 'd':
      return number(t.tm_mday, 2);
    case 'e':
      return plain ? number(t.tm_mday, 1) : fmt::format("{:2}", t.tm_mday);
    case 'm':
      return number(t.tm_mon + 1, 2);
    case 'y':
      return number((t.tm_year + 1900) % 100, 2);
    case 'Y':
      return number(t.tm_year + 1900, 4);
    case 'H':
      return number(t.tm_hour, 2);
    case 'I':
      return number(hour12, 2);
    case 'M':
      return number(t.tm_min, 2);
    case 'S':
      return number(t.tm_sec, 2);
    case 'f':
      return "000000";
    case 'p':
      return t.tm_hour < 12 ? "AM" : "PM";
    case 'j':
      return number(t.tm_yday + 1, 3);
    case 'w':
      return fmt::format("{}", t.tm_wday);
    case 'u':
      return fmt::format("{}", monday + 1);
    case 'U':
      return number((t.tm_yday + 7 - t.tm_wday) / 7, 2);
    case 'W':
      return number((t.tm_yday + 7 - monday) / 7, 2);
    case 'F':
      return fmt::format("{:04}-{:02}-{:02}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday);
    case 'T':
    case 'X':
      return fmt::format("{:02}:{:02}:{:02}", t.tm_hour, t.tm_min, t.tm_sec);
    case 'R':
      return fmt::format("{:02}:{:02}", t.tm_hour, t.tm_min);
    case 'D':
    case 'x':
      return fmt::format("{:02}/{:02}/{:02}", t.tm_mon + 1, t.tm_mday, (t.tm_year + 1900) % 100);
    case 'c':
      return directive('a', false, t) + " " + directive('b', false, t) + " " + directive('e', false, t) + " " +
             directive('T', false, t) + " " + directive('Y', false, t);
    case 'z':
    case 'Z':
      return {};
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      fail(fmt::format("strftime_now: the directive '%{}' is not supported", c));
  }
}

Value call_strftime(Machine& m, Args& args) {
  const auto [value] = bind(args, "strftime_now", {"format"}, 1);
  const std::string_view format = view_or(value, {}, "strftime_now");
  const std::tm now = m.clock()();
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool plain = format[i + 1] == '-' && i + 2 < format.size();
    i += plain ? 2 : 1;
    m.meter().step();
    out += directive(format[i], plain, now);
    m.meter().check_output(out.size());
  }
  return make_text(m.meter(), std::move(out));
}

constexpr Function kFunctions[] = {
    {"cycler", call_cycler},         {"dict", call_dict},   {"joiner", call_joiner},
    {"namespace", call_namespace},   {"range", call_range}, {"raise_exception", call_raise},
    {"strftime_now", call_strftime},
};

}  // namespace

const Function* find_member(const Function& function, std::string_view name) {
  return function.call == call_dict && name == kFromKeys.name ? &kFromKeys : nullptr;
}

const Function* find_function(std::string_view name) {
  for (const Function& f : kFunctions)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace kvasir::text::jinja
