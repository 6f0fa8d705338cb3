// Any bytes as a regular expression: refused with an error that says why, or an automaton whose strings it matches, and
// whose opposite has the others.
//
// Input: the first byte is the length of the pattern, strings to match follow it.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "text/schema/pattern.hpp"
#include "unicode/utf8.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::text;
  if (size == 0) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string_view pattern = all.substr(0, data[0]), text = all.substr(pattern.size());
  try {
    const Automaton of = automaton_of_pattern(pattern);
    const std::string valid = kvasir::unicode::to_valid_utf8(text);
    require(of.matches(valid) != of.complement().matches(valid));
    require((of & of.complement()).empty());
    for (const Automaton::State& s : of.states()) {
      char32_t next = 0;
      for (const Automaton::Edge& e : s.edges) {
        require(e.low >= next && e.low <= e.high && e.high <= Automaton::kLastChar);
        require(static_cast<std::size_t>(e.to) < of.states().size());
        next = e.high + 1;
      }
    }
  } catch (const kvasir::Error& e) {
    require(!e.message().empty());
  }
  return 0;
}
