// What a render holds until its end.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

class Heap {
 public:
  explicit Heap(Meter& meter) : meter_(meter) {}
  ~Heap();

  template <class T, class... A>
  Value make(A&&... args) {
    meter_.allocate(sizeof(T) + 64);
    objects_.push_back(std::make_unique<T>(std::forward<A>(args)...));
    return Value(objects_.back().get());
  }

  // A list or dict that is about to change: it is held, so that cycles of values are seen to.
  Sequence& changed(const SequenceRef& list);
  Dict& changed(const DictRef& dict);

 private:
  Meter& meter_;
  std::vector<SequenceRef> changed_lists_;
  std::vector<DictRef> changed_dicts_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace kvasir::text::jinja
