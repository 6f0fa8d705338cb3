// Filters of sequences. Those that Python has as generators are evaluated at once here, but still can be used up.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/attributes.hpp"
#include "text/jinja/builtins.hpp"
#include "text/jinja/operators.hpp"
#include "text/jinja/strings.hpp"

namespace kvasir::text::jinja {

AttributeGetter::AttributeGetter(Machine& machine, const Value* attribute, const Value* otherwise)
    : machine_(machine), otherwise_(otherwise && otherwise->is_none() ? nullptr : otherwise) {
  if (!attribute || attribute->is_none()) return;
  if (!attribute->is_text()) {
    path_.push_back(*attribute);
    return;
  }
  const std::string_view dot = ".";
  for (const auto part : split_text(attribute->view(), &dot, -1)) {
    const bool number = !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    path_.push_back(number ? Value(static_cast<std::int64_t>(std::stol(std::string(part)))) : Value(std::string(part)));
  }
}

Value AttributeGetter::operator()(const Value& item) const {
  Value v = item;
  for (const Value& part : path_) {
    v = subscript(machine_, v, part);
    if (v.is_undefined() && otherwise_) v = *otherwise_;
  }
  return v;
}

Value fold_case(Machine& machine, const Value& v, bool case_sensitive) {
  return case_sensitive || !v.is_text() ? v : make_text(machine.meter(), lower(v.view()));
}

namespace {

using Items = std::vector<Value>;

Value generator(Machine& m, Items items) {
  return make_sequence(m.meter(), SequenceKind::kGenerator, std::move(items));
}

struct Keyed {
  Items keys;
  Value item;
};

// Sorts by keys; equal ones keep their order. `lists`: keys are compared as Python compares lists, where equal ones
// need have no order.
void sort_keyed(Machine& m, std::vector<Keyed>& all, bool reverse, bool lists = false) {
  const auto less = [&m, lists](const Keyed& a, const Keyed& b) {
    for (std::size_t i = 0; i < a.keys.size(); ++i) {
      if (lists && equal(a.keys[i], b.keys[i], m.meter())) continue;
      return compare(a.keys[i], b.keys[i], m.meter()) < 0;
    }
    return false;
  };
  m.meter().allocate(all.size(), sizeof(Keyed));
  if (reverse) std::reverse(all.begin(), all.end());
  std::stable_sort(all.begin(), all.end(), less);
  if (reverse) std::reverse(all.begin(), all.end());
}

Items items_of(const std::vector<Keyed>& all) {
  Items items;
  for (const auto& k : all) items.push_back(k.item);
  return items;
}

Value filter_dictsort(Machine& m, const Value& v, Args& args) {
  const auto [case_sensitive, by, reverse] = bind(args, "dictsort", {"case_sensitive", "by", "reverse"});
  if (v.undefined()) fail_undefined(*v.undefined());
  if (!v.dict()) fail(fmt::format("dictsort: expected a mapping, got {}", type_name(v)));
  const std::string_view what = view_or(by, "key", "dictsort");
  if (what != "key" && what != "value") fail("dictsort: by must be 'key' or 'value'");
  std::vector<Keyed> all;
  for (const auto& [key, value] : v.dict()->entries) {
    const Value& sorted_by = what == "key" ? key : value;
    all.push_back({{fold_case(m, sorted_by, bool_or(case_sensitive, false))}, make_pair(m.meter(), key, value)});
  }
  sort_keyed(m, all, bool_or(reverse, false));
  return make_list(m.meter(), items_of(all));
}

Value filter_sort(Machine& m, const Value& v, Args& args) {
  const auto [reverse, case_sensitive, attribute] = bind(args, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<AttributeGetter> getters;
  if (attribute && attribute->is_text()) {
    const std::string_view comma = ",";
    for (const auto part : split_text(attribute->view(), &comma, -1)) {
      const Value one{std::string(part)};
      getters.emplace_back(m, &one);
    }
  } else {
    getters.emplace_back(m, attribute);
  }
  std::vector<Keyed> all;
  const auto items = iterate(v, m.meter());
  for (const Value& item : items->items) {
    Keyed k{{}, item};
    for (const auto& get : getters) k.keys.push_back(fold_case(m, get(item), bool_or(case_sensitive, false)));
    all.push_back(std::move(k));
  }
  sort_keyed(m, all, bool_or(reverse, false), true);
  return make_list(m.meter(), items_of(all));
}

Value filter_unique(Machine& m, const Value& v, Args& args) {
  const auto [case_sensitive, attribute] = bind(args, "unique", {"case_sensitive", "attribute"});
  const AttributeGetter get(m, attribute);
  Items seen, kept;
  const auto items = iterate(v, m.meter());
  for (const Value& item : items->items) {
    Value key = fold_case(m, get(item), bool_or(case_sensitive, false));
    if (!hashable(key)) fail(fmt::format("unhashable type: '{}'", type_name(key)));
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return equal(s, key, m.meter()); })) continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return generator(m, std::move(kept));
}

Value extreme(Machine& m, const Value& v, Args& args, int sign, const char* who) {
  const auto [case_sensitive, attribute] = bind(args, who, {"case_sensitive", "attribute"});
  const AttributeGetter get(m, attribute);
  const auto items = iterate(v, m.meter());
  if (items->items.empty()) return undefined_because("no aggregated item, sequence was empty.");
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : items->items) {
    Value key = fold_case(m, get(item), bool_or(case_sensitive, false));
    if (best && compare(key, best_key, m.meter()) * sign <= 0) continue;
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

Value filter_max(Machine& m, const Value& v, Args& args) { return extreme(m, v, args, 1, "max"); }
Value filter_min(Machine& m, const Value& v, Args& args) { return extreme(m, v, args, -1, "min"); }

// Tuples (key, items), sorted by key.
Value filter_groupby(Machine& m, const Value& v, Args& args) {
  const auto [attribute, otherwise, case_sensitive] =
      bind(args, "groupby", {"attribute", "default", "case_sensitive"}, 1);
  const AttributeGetter get(m, attribute, otherwise);
  std::vector<Keyed> all;
  const auto items = iterate(v, m.meter());
  for (const Value& item : items->items)
    all.push_back({{fold_case(m, get(item), bool_or(case_sensitive, false))}, item});
  sort_keyed(m, all, false);
  Items groups;
  for (std::size_t i = 0; i < all.size();) {
    Items group;
    const std::size_t begin = i;
    for (; i < all.size() && equal(all[i].keys[0], all[begin].keys[0], m.meter()); ++i) group.push_back(all[i].item);
    if (i == begin) group.push_back(all[i++].item);  // nan is not even equal to itself
    Value key = get(group[0]);
    groups.push_back(make_pair(m.meter(), std::move(key), make_list(m.meter(), std::move(group))));
  }
  return make_list(m.meter(), std::move(groups));
}

Value filter_batch(Machine& m, const Value& v, Args& args) {
  const auto [linecount, fill] = bind(args, "batch", {"linecount", "fill_with"}, 1);
  const std::int64_t n = int_or(linecount, 0, "batch");
  if (n < 1) fail("batch: linecount must be positive");
  Items batches, batch;
  const auto items = iterate(v, m.meter());
  for (const Value& item : items->items) {
    if (static_cast<std::int64_t>(batch.size()) == n) batches.push_back(make_list(m.meter(), std::exchange(batch, {})));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    if (fill && !fill->is_none()) {
      m.meter().allocate(static_cast<std::size_t>(n), sizeof(Value));
      batch.resize(static_cast<std::size_t>(n), *fill);
    }
    batches.push_back(make_list(m.meter(), std::move(batch)));
  }
  return generator(m, std::move(batches));
}

Value filter_slice(Machine& m, const Value& v, Args& args) {
  const auto [slices, fill] = bind(args, "slice", {"slices", "fill_with"}, 1);
  const std::int64_t n = int_or(slices, 0, "slice");
  if (n < 1) fail("slice: slices must be positive");
  const auto items = iterate(v, m.meter());
  const auto count = static_cast<std::size_t>(n);
  m.meter().allocate(count, sizeof(Value) + sizeof(Sequence));
  const std::size_t each = items->items.size() / count, longer = items->items.size() % count;
  Items all;
  auto at = items->items.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    Items part(at, end);
    at = end;
    if (fill && !fill->is_none() && i >= longer) part.push_back(*fill);
    all.push_back(make_list(m.meter(), std::move(part)));
  }
  return generator(m, std::move(all));
}

Value filter_first(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "first");
  if (const Sequence* s = v.sequence(); s && s->kind == SequenceKind::kGenerator) {
    if (s->used < s->items.size()) return s->items[s->used++];
    return undefined_because("no first item, sequence was empty.");
  }
  if (v.is_text() && !v.view().empty()) return item(v, Value(std::int64_t{0}), m.meter());
  const auto items = iterate(v, m.meter());
  return items->items.empty() ? undefined_because("no first item, sequence was empty.") : items->items.front();
}

Value filter_last(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "last");
  if (v.sequence() && v.sequence()->kind == SequenceKind::kGenerator) fail("'generator' object is not reversible");
  const auto items = iterate(v, m.meter());
  return items->items.empty() ? undefined_because("no last item, sequence was empty.") : items->items.back();
}

Value filter_items(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "items");
  Items pairs;
  if (!v.is_undefined()) {
    if (!v.dict()) fail("can only get item pairs from a mapping.");
    for (const auto& [key, value] : v.dict()->entries) pairs.push_back(make_pair(m.meter(), key, value));
  }
  return generator(m, std::move(pairs));
}

Value filter_join(Machine& m, const Value& v, Args& args) {
  const auto [separator, attribute] = bind(args, "join", {"d", "attribute"});
  const AttributeGetter get(m, attribute);
  const std::string between = separator ? to_str(*separator, m.meter()) : std::string();
  std::string out;
  const auto items = iterate(v, m.meter());
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) out += between;
    m.meter().step();
    append_str(out, get(items->items[i]), m.meter());
    m.meter().check_output(out.size());
  }
  return make_text(m.meter(), std::move(out));
}

Value filter_list(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "list");
  return make_list(m.meter(), iterate(v, m.meter())->items);
}

Value filter_reverse(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "reverse");
  Items items = iterate(v, m.meter())->items;
  std::reverse(items.begin(), items.end());
  if (!v.is_text()) return generator(m, std::move(items));
  std::string out;
  for (const Value& one : items) out += one.view();
  return make_text(m.meter(), std::move(out));
}

Value filter_sum(Machine& m, const Value& v, Args& args) {
  const auto [attribute, start] = bind(args, "sum", {"attribute", "start"});
  const AttributeGetter get(m, attribute);
  Value sum = start ? *start : Value(std::int64_t{0});
  if (sum.is_text()) fail("sum: strings cannot be summed, join them");
  const auto items = iterate(v, m.meter());
  for (const Value& item : items->items) sum = arithmetic(Op::kAdd, sum, get(item), m.meter());
  return sum;
}

Args rest(const Args& args, std::size_t from) {
  Args more;
  more.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(from), args.positional.end());
  more.named = args.named;
  return more;
}

Value filter_map(Machine& m, const Value& v, Args& args) {
  Items out;
  if (!truthy(v)) return generator(m, std::move(out));
  const auto items = iterate(v, m.meter());
  if (args.positional.empty()) {
    const auto [attribute, otherwise] = bind(args, "map", {"attribute", "default"}, 1);
    const AttributeGetter get(m, attribute, otherwise);
    for (const Value& item : items->items) out.push_back(get(item));
    return generator(m, std::move(out));
  }
  const std::string_view name = view_or(&args.positional[0], {}, "map");
  const Filter* filter = find_filter(name);
  if (!filter) fail(fmt::format("no filter named '{}'", name));
  for (const Value& item : items->items) {
    const Nesting nesting(m.meter());
    Args more = rest(args, 1);
    m.meter().step();
    out.push_back(filter->apply(m, item, more));
  }
  return generator(m, std::move(out));
}

// select, reject, selectattr, rejectattr
template <bool by_attribute, bool keep>
Value filter_select(Machine& m, const Value& v, Args& args) {
  Items out;
  if (!truthy(v)) return generator(m, std::move(out));
  const std::size_t first = by_attribute ? 1 : 0;
  if (args.positional.size() < first) fail("selectattr: missing argument: the attribute");
  const AttributeGetter get(m, by_attribute ? &args.positional[0] : nullptr);
  const Test* test = nullptr;
  if (args.positional.size() > first) {
    const std::string_view name = view_or(&args.positional[first], {}, "select");
    test = find_test(name);
    if (!test) fail(fmt::format("no test named '{}'", name));
  }
  const auto items = iterate(v, m.meter());
  for (const Value& item : items->items) {
    const Value subject = get(item);
    Args more = rest(args, std::min(args.positional.size(), first + 1));
    m.meter().step();
    if ((test ? test->holds(m, subject, more) : truthy(subject)) == keep) out.push_back(item);
  }
  return generator(m, std::move(out));
}

constexpr Filter kSequenceFilters[] = {
    {"batch", filter_batch},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"groupby", filter_groupby},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<true, false>},
    {"reverse", filter_reverse},
    {"select", filter_select<false, true>},
    {"selectattr", filter_select<true, true>},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace

std::span<const Filter> sequence_filters() { return kSequenceFilters; }

}  // namespace kvasir::text::jinja
