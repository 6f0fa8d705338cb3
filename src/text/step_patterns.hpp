// Patterns by which steps of tokenizer.json replace and cut: texts, kinds of characters, and the regular expressions
// that published tokenizers have. Each is a scanner.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text {

// Bytes [begin, end) of a text; `match`: the pattern takes them.
struct Stretch {
  std::size_t begin, end;
  bool match;
};

// Stretches that tile the text.
using StepPattern = std::function<std::vector<Stretch>(std::string_view)>;

// Every character for which `is` holds by itself.
StepPattern each_of(std::function<bool(std::uint32_t)> is);
// {"String": …} or {"Regex": …}. Throws Error(kUnsupported) for an expression that is not known.
StepPattern read_pattern(const nlohmann::json& pattern, const std::string& context);
// \w+|[^\w\s]+
StepPattern words_and_signs();
// GPT-2's pattern: every stretch is a match.
StepPattern gpt2_words();

enum class Behaviour { kRemoved, kIsolated, kWithPrevious, kWithNext, kContiguous };
Behaviour read_behaviour(const nlohmann::json& step, Behaviour otherwise, const std::string& context);

// What is left of a text that is cut so. Empty stretches are left out.
std::vector<Stretch> cut_by(std::vector<Stretch> stretches, Behaviour behaviour);

}  // namespace kvasir::text
