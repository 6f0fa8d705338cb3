// What a cache asks of a selector: "these parts, that budget: which pages". A selector is a choice with its parameters
// and never changes; sequences share it. What one cache has of it, memory and work, is a Selection. The layer select/
// has the selectors that users name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/team.hpp"

namespace kvasir::kv {

class Selection;
struct Arena;
struct LayerLayout;
struct LayerShape;
struct Layout;
struct Part;

class PageSelector {
 public:
  virtual ~PageSelector() = default;

  virtual std::string_view text() const = 0;  // as the user wrote it
  virtual bool dense() const = 0;             // everything is read: a cache asks nothing else then
  // Generated tokens read what other positions or layers chose.
  virtual bool keeps_state() const = 0;
  // Null when a sequence may have this in a cache that was made for `cache`, else why not.
  virtual const char* refused_in(const PageSelector& cache) const = 0;
  // What is stored with pages, "none" or a description. Pages of caches where it differs do not fit each other.
  virtual std::string summaries() const = 0;
  // First tokens of a prompt of n that are computed as without a selector, see Rules::exact_prompt.
  virtual std::int64_t exact_prompt(const Layout& layout, std::int64_t n) const = 0;

  // Memory. Beside every page of a head, and floats of a thread that Selection::on_seal needs besides the page's.
  virtual std::size_t summary_bytes(const LayerShape& shape) const = 0;
  virtual std::size_t sealing_floats(const LayerShape& shape) const = 0;
  // Most runs that a page is read in.
  virtual int runs_per_page() const = 0;
  // What a Selection reserves. Sizes saturate as product() does.
  struct Memory {
    std::size_t pages = 0;  // what follows from the summaries of all pages
    std::size_t scratch = 0;
  };
  virtual Memory memory(const Layout& layout, int sequences, int threads) const = 0;

  // It chooses in that layer. REQUIRES: LayerLayout::asked >= 0
  virtual bool asks(const LayerLayout& layer) const = 0;
  // Of a part in such a layer, whose sequence has sealed pages: of a prompt, how many of its tokens share a choice, so
  // Part::tokens may become fewer; then, when these are known, whether a choice is read, and where it is made.
  virtual void cut_prompt(const Layout& layout, Part* part) const = 0;
  virtual void decide(const Layout& layout, bool decode, Part* part) const = 0;

  // For at most so many slices a step. `team` and `arena` outlive it.
  virtual std::unique_ptr<Selection> open(Team& team, const Arena& arena, int max_slices) const = 0;
};

}  // namespace kvasir::kv
