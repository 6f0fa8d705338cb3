// Any JSON as a schema: refused with an error that says where, or a grammar every beginning of which has an end, and
// whose whole texts are JSON.
//
// Input: 8 bytes that choose the way through the grammar, then the schema.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "text/grammars_fixture.hpp"
#include "text/json_schema.hpp"

namespace {

constexpr int kLongest = 200;  // bytes of a walk

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

void walk(std::shared_ptr<const kvasir::text::Grammar> grammar, std::uint64_t seed) {
  using namespace kvasir::text;
  Matcher m(std::move(grammar));
  Matcher::State state = m.start();
  std::string text;
  while (text.size() < kLongest) {
    if (m.accepts(state)) require(nlohmann::json::accept(text));
    if (m.ends(state)) return;
    const std::optional<std::uint8_t> byte = random_byte(m, state, seed);
    require(byte.has_value());
    state = m.next(state, *byte);
    text += static_cast<char>(*byte);
    if (text.size() == kLongest / 2) state = m.compact(state);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::text;
  if (size < 8) return 0;
  std::uint64_t seed;
  std::memcpy(&seed, data, 8);
  const std::string_view text(reinterpret_cast<const char*>(data) + 8, size - 8);
  const auto schema = nlohmann::ordered_json::parse(text, nullptr, false);
  if (schema.is_discarded()) return 0;
  for (const Unknown unknown : {Unknown::kRefuse, Unknown::kIgnore}) {
    try {
      walk(grammar_of_schema(schema, unknown), seed);
    } catch (const kvasir::Error& e) {
      require(e.code() == kvasir::Code::kBadInput && !e.context().empty() && !e.message().empty());
    }
  }
  return 0;
}
