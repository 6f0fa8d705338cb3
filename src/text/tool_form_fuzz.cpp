// Any bytes as generated text, in every form of tool calls: the same output whatever the pieces, content that only
// grows, calls that have names. And valid answers of each form whose tags are cut, doubled and dropped, by a seed.
//
// Input: the first byte is the size of the pieces, the rest is the text; all of it together is the seed.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/hash.hpp"
#include "text/parse_tool_calls_fixture.hpp"
#include "text/tool_mutations_fixture.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir::text;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t piece = data[0] % 32 + 1;
  const std::uint64_t seed = kvasir::hash_bytes(std::as_bytes(std::span(data, size)));
  for (const auto& form : tool_forms()) {
    require(AnswerMutator(form, seed).fault().empty());
    const ToolOutput whole = parse_tool_calls(&form, text);
    const auto parser = make_tool_parser(&form);
    ToolOutput out;
    for (std::size_t i = 0; i < text.size(); i += piece) {
      parser->push(text.substr(i, piece), out);
      require(whole.content.compare(0, out.content.size(), out.content) == 0);
      require(out.calls.size() <= whole.calls.size());
    }
    parser->finish(out, false);
    require(out.content == whole.content && out.calls.size() == whole.calls.size());
    for (std::size_t i = 0; i < out.calls.size(); ++i) {
      require(out.calls[i].name == whole.calls[i].name && out.calls[i].arguments == whole.calls[i].arguments);
      require(!out.calls[i].name.empty());
    }
  }
  return 0;
}
