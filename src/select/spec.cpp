#include "select/spec.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "base/options.hpp"
#include "select/question.hpp"

namespace kvasir::select {
namespace {

[[noreturn]] void bad_choice(const std::string& what, const std::string& context) {
  throw Error(Code::kBadInput, what, context);
}

template <class T>
T number(std::string_view key, std::string_view value, T low, T high, const std::string& context) {
  T x{};
  bool read = false;
  if constexpr (std::is_same_v<T, std::int64_t>) {
    read = parse_count(value, &x);
  } else {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), x);
    read = error == std::errc() && end == value.data() + value.size();
  }
  if (!read || !(x >= low && x <= high))
    bad_choice(std::string(key) + " is '" + std::string(value) + "', expected a number from " + std::to_string(low) +
                   " to " + std::to_string(high),
               context);
  return x;
}

constexpr std::int64_t kMostTokens = std::int64_t{1} << 31;

void set_budget(SelectSpec* s, std::string_view value, const std::string& context) {
  s->share = 0;
  if (value.ends_with('%')) {
    s->share = number("budget", value.substr(0, value.size() - 1), 1e-6, 100.0, context + ", in %") / 100;
  } else {
    s->budget = number<std::int64_t>("budget", value, 1, kMostTokens, context);
  }
}

template <class T, std::size_t N>
T one_of(std::string_view key, std::string_view value, const std::pair<std::string_view, T> (&choices)[N],
         const std::string& context) {
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (value == name) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  bad_choice(std::string(key) + " is '" + std::string(value) + "', expected one of " + names, context);
}

void set(SelectSpec* s, std::string_view key, std::string_view value, const std::string& context) {
  const auto integer = [&](auto* to, std::int64_t low, std::int64_t high) {
    *to = static_cast<std::remove_pointer_t<decltype(to)>>(number<std::int64_t>(key, value, low, high, context));
  };
  if (key == "budget") {
    set_budget(s, value, context);
  } else if (key == "block") {
    constexpr std::pair<std::string_view, int> kBlocks[] = {{"1", 1},   {"8", 8},   {"16", 16},
                                                            {"32", 32}, {"64", 64}, {"128", 128}};
    s->block = one_of(key, value, kBlocks, context);
  } else if (key == "local") {
    integer(&s->local, 0, kMostTokens);
  } else if (key == "initial") {
    integer(&s->initial, 0, kMostTokens);
  } else if (key == "anchors") {
    integer(&s->anchors, 1, 128);
  } else if (key == "token_step") {
    integer(&s->token_step, 1, 1 << 20);
  } else if (key == "layer_step") {
    integer(&s->layer_step, 1, 4096);
  } else if (key == "dense_layers") {
    integer(&s->dense_layers, 0, 4096);
  } else if (key == "heads") {
    constexpr std::pair<std::string_view, bool> kModes[] = {{"separate", false}, {"shared", true}};
    s->shared = one_of(key, value, kModes, context);
  } else if (key == "preselect") {
    if (value == "budget")
      s->preselect = -1;
    else
      integer(&s->preselect, 0, kMostTokens);
  } else if (key == "pool") {
    integer(&s->pool, 0, kv::kPageTokens);
  } else if (key == "window") {
    integer(&s->window, 0, kv::kPageTokens);
  } else if (key == "vote") {
    constexpr std::pair<std::string_view, Vote> kVotes[] = {
        {"sum", Vote::kSum}, {"best", Vote::kBest}, {"mass", Vote::kMass}};
    s->vote = one_of(key, value, kVotes, context);
  } else if (key == "p") {
    s->p = number(key, value, 0.0, 1.0, context);
  } else if (key == "from") {
    integer(&s->from, 0, kMostTokens);
  } else if (key == "meter") {
    integer(&s->meter, 0, 1 << 20);
  } else if (key == "aim") {
    s->aim = number(key, value, 0.0, 1.0, context);
  } else if (key == "floor") {
    s->floor = number(key, value, 0.0, 1.0, context);
  } else if (key == "prompt") {
    constexpr std::pair<std::string_view, int> kSteps[] = {{"0", 0},   {"1", 1},   {"8", 8},    {"16", 16},
                                                           {"32", 32}, {"64", 64}, {"128", 128}};
    s->prompt = one_of(key, value, kSteps, context);
  } else if (key == "tail") {
    constexpr std::pair<std::string_view, bool> kUnread[] = {{"none", false}, {"mean", true}};
    s->unread = one_of(key, value, kUnread, context);
  } else {
    bad_choice(
        "unknown parameter '" + std::string(key) +
            "', expected one of: budget block local initial anchors token_step layer_step dense_layers heads preselect "
            "pool window vote p from meter aim floor prompt tail",
        context);
  }
}

// What a name that is none may stand for; KTransformers writes its types in capitals and says FIX.
std::string meant(const std::string& name) {
  std::string lower;
  for (const char c : name) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == "fix") lower = "fixed";
  if (lower != name && find(selectors(), lower)) return " (did you mean '" + lower + "'?)";
  std::vector<std::string> all;
  for (const auto& e : selectors()) all.emplace_back(e.name);
  return did_you_mean(name, all);
}

// Applies NAME and the parameters behind it, a preset's own before those of the text.
void apply(SelectSpec* s, std::string_view text, const std::string& context) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string name(text.substr(0, colon));
  const Selector* const found = find(selectors(), name);
  if (!found)
    bad_choice("unknown selector '" + name + "', expected one of: " + names(selectors()) + meant(name), context);
  if (found->preset) {
    apply(s, found->preset, context);
  } else {
    s->selector = found;
    s->kind = name;
  }
  for (std::size_t at = colon; at < text.size();) {
    const std::size_t end = std::min(text.find(':', at + 1), text.size());
    const std::string_view item = text.substr(at + 1, end - at - 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      bad_choice("'" + std::string(item) + "' behind '" + name + "', expected KEY=VALUE", context);
    set(s, item.substr(0, equals), item.substr(equals + 1), context);
    at = end;
  }
}

}  // namespace

SelectSpec parse_select(std::string_view text, const std::string& context) {
  SelectSpec s;
  apply(&s, text, context);
  s.name = text;
  if (s.anchors > s.block)
    bad_choice("anchors are " + std::to_string(s.anchors) + ", expected at most the block's tokens, " +
                   std::to_string(s.block),
               context);
  if (s.block == 1 && s.selector->width)
    bad_choice("block is 1 with '" + s.kind + "', whose representative of one token is its key: 'keys:block=1' " +
                   "chooses by all keys without a second copy of them",
               context);
  if (s.window > 0 && s.preselect == 0)
    bad_choice("window is " + std::to_string(s.window) + " without a preselect, whose votes it is about", context);
  if (s.aim > 0 && !s.adapts())
    bad_choice("aim is above 0 without a p or a meter, expected both: it moves p by what is measured", context);
  if (s.unread && !s.selector->estimates)
    bad_choice("tail is 'mean' with '" + s.kind +
                   "', expected a selector whose scores estimate a block's mass: spread, mean, " +
                   "or topp and auto, which ask spread",
               context);
  if (s.unread && (s.token_step > 1 || s.layer_step > 1))
    bad_choice("tail is 'mean' with a token_step or layer_step above 1, expected a choice for every token and layer",
               context);
  return s;
}

std::int64_t SelectSpec::budget_of(std::int64_t n) const {
  return share > 0 ? static_cast<std::int64_t>(std::ceil(share * static_cast<double>(n))) : budget;
}

std::string SelectSpec::summaries() const { return representatives() + (unread ? " with values" : ""); }

std::string SelectSpec::representatives() const {
  if (!selector->width) return "none";
  return kind + " " + std::to_string(block) + (anchors > 1 ? " anchors " + std::to_string(anchors) : "");
}

std::shared_ptr<const kv::PageSelector> read_selector(std::string_view text, const std::string& context) {
  return text.empty() ? nullptr : std::make_shared<const SelectSpec>(parse_select(text, context));
}

const char* SelectSpec::refused_in(const kv::PageSelector& cache) const {
  if (dense()) return nullptr;
  const auto* const same = dynamic_cast<const SelectSpec*>(&cache);
  return same ? refused_beside(*same) : "this cache was made for selectors of another kind";
}

const char* SelectSpec::refused_beside(const SelectSpec& cache) const {
  if (cache.dense()) return "this cache was made without a selector";
  if (selector->width && representatives() != cache.representatives())
    return "pages have no summaries for this selector and block";
  if (unread && !cache.unread) return "pages have no means of values for tail=mean";
  if (block < cache.block) return "its blocks are shorter than the cache's";
  if ((keeps_state() && !cache.keeps_state()) || (prompt > 1 && !cache.keeps_choices()))
    return "this cache keeps no choices from step to step";
  if (window > cache.window) return "this cache does not keep the queries of so many tokens";
  if (preselect != 0 && pooled_unit(*this) < pooled_unit(cache)) return "this cache measures no parts that small";
  if (adapts() && (!cache.adapts() || meter != cache.meter)) return "this cache keeps no measurements, or other ones";
  return nullptr;
}

}  // namespace kvasir::select
