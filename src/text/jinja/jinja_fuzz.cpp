// Any bytes as a template, over a conversation and at small limits: it is refused with an Error, or what it renders is
// UTF-8 and within the limits, twice the same.
//
// Input: the template.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "text/jinja/jinja.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

const Json& conversation() {
  static const Json context = Json::parse(R"({
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Zürich 🙂 <b>"},
      {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": {"a": [1, 2.5, null, true], "b": {"c": "d"}}}}]},
      {"role": "tool", "name": "f", "content": [{"type": "text", "text": "x"}]}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d",
      "parameters": {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 3, "x": -1.5, "none_": null})");
  return context;
}

std::tm fixed_time() {
  std::tm t{};
  t.tm_year = 126;
  t.tm_mday = 1;
  return t;
}

std::string outcome(const Template& t, const RenderOptions& options) {
  try {
    return "=" + t.render(conversation(), options);
  } catch (const Error& e) {
    require(e.code() == Code::kBadInput);
    return std::string("!") + e.what();
  }
}

void fuzz(std::string_view source) {
  RenderOptions options;
  options.limits.output = 1 << 16;
  options.limits.memory = 1 << 22;
  options.limits.steps = 100'000;
  options.clock = fixed_time;
  try {
    const Template t(source);
    const std::string first = outcome(t, options);
    require(first.size() <= (1 << 16) + 4096);
    if (first[0] == '=') require(unicode::to_valid_utf8(first) == first);
    require(outcome(t, options) == first);
  } catch (const Error& e) {
    require(e.code() == Code::kBadInput);
  }
}

}  // namespace
}  // namespace kvasir::text::jinja

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kvasir::text::jinja::fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
