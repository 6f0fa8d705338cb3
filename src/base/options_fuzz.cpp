// libFuzzer target: whatever text or JSON is given to an options table, the struct ends up inside its ranges or an
// Error names the option. First byte: even, the rest is JSON; odd, the rest is lines "option-index value".
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.hpp"
#include "base/options.hpp"

namespace {

using namespace kvasir;

struct Example {
  bool exact = false;
  std::int32_t threads = 2;
  std::int64_t seed = 7;
  float top_p = 0.8f;
  double temperature = 0.5;
  std::string codec = "f16";
  std::vector<std::string> stop;
};

const OptionTable<Example>& table() {
  static const OptionTable<Example> t{"example",
                                      {{"exact", &Example::exact},
                                       {"threads", &Example::threads, {.low = 1, .high = 512}},
                                       {"seed", &Example::seed},
                                       {"top_p", &Example::top_p, {.low = 0, .high = 1}},
                                       {"temperature", &Example::temperature, {.low = 0}},
                                       {"codec", &Example::codec, {.choices = {"f32", "f16", "bf16"}}},
                                       {"stop", &Example::stop}}};
  return t;
}

void require(bool condition) {
  if (!condition) std::abort();
}

// What a table let through is valid, prints, and reads back as itself (text that is not UTF-8 excepted: JSON has none).
void check_accepted(const Example& e) {
  table().validate(e);
  std::string dumped;
  try {
    dumped = table().to_json(e).dump();
  } catch (const nlohmann::json::exception&) {
    return;
  }
  Example again;
  table().from_json(again, parse_json(dumped, "dump"));
  require(table().values(again) == table().values(e));
}

void from_json(std::string_view text) {
  Example e;
  table().from_json(e, parse_json(text, "config"));
  check_accepted(e);
}

void from_lines(std::string_view text) {
  Example e;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::size_t option = static_cast<unsigned char>(line[0]) % table().specs().size();
    table().set_text(e, option, line.substr(1));
  }
  check_accepted(e);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    data[0] % 2 ? from_lines(text) : from_json(text);
  } catch (const Error& e) {
    require(e.code() == Code::kBadInput && !e.message().empty() && !e.context().empty());
  }
  return 0;
}
