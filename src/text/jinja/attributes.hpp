// What `sort`, `map`, `groupby` and others take as `attribute`: "name", "address.city", 0.
#pragma once

#include <vector>

#include "text/jinja/machine.hpp"

namespace kvasir::text::jinja {

class AttributeGetter {
 public:
  // `attribute` null or none: the item itself. `otherwise` (may be null) stands in for what is undefined.
  AttributeGetter(Machine& machine, const Value* attribute, const Value* otherwise = nullptr);
  Value operator()(const Value& item) const;

 private:
  Machine& machine_;
  std::vector<Value> path_;
  const Value* otherwise_;
};

// Strings in lower case, unless the case counts: what sorting and grouping compare.
Value fold_case(Machine& machine, const Value& v, bool case_sensitive);

}  // namespace kvasir::text::jinja
