#include "hub/pretokenizer_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "hub/patterns.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

using namespace patterns;

// How a tokenizer cuts texts: its steps, whether texts are composed before and pieces that are tokens are left whole.
struct Rule {
  std::string_view steps, pre;
  bool nfc = false, whole = false;
};
constexpr std::string_view kBytes = "bytes with its pattern", kDigits = "digits, bytes with its pattern";
constexpr Rule kRules[] = {
    {kBytes, "gpt-2"},
    {kGpt2, "gpt-2"},
    {kBytes, "gpt-neox", true},
    {kDigits, "smollm"},
    {kDigits, "command-r", true},
    {kWords3, "dbrx"},
    {kWords3, "smollm3", false, true},
    {kWords1, "qwen2", true},
    {kWords1, "bailingmoe"},
    {kTekken, "tekken", false, true},
    {kGpt4o, "gpt-4o"},
    {kMarkedWords, "qwen35", true},
    {kBloom, "bloom"},
};
constexpr std::string_view kDeepSeekV3[] = {kThreeNumbers, kHanOrKana, kSigns};

std::string type_of(const FolderJson& step) {
  const auto type = step.is_object() ? step.find("type") : step.end();
  return step.is_object() && type != step.end() && type->is_string() ? type->get<std::string>() : "?";
}

// The steps in words: those of a list, joined. A Split by a pattern is the pattern; bytes behind it are understood.
std::string steps_of(const FolderJson& step) {
  const std::string type = type_of(step);
  if (type == "Sequence") {
    std::string all;
    const auto inner = step.find("pretokenizers");
    if (inner == step.end() || !inner->is_array()) return "?";
    for (const FolderJson& s : *inner) {
      const std::string one = steps_of(s);
      if (one == "bytes" && !all.empty()) continue;
      all += (all.empty() ? "" : ", ") + one;
    }
    return all;
  }
  if (type == "ByteLevel" && !step.value("add_prefix_space", false))
    return step.value("use_regex", true) ? std::string(kBytes) : "bytes";
  if (type == "Digits" && step.value("individual_digits", false)) return "digits";
  if (type == "Split" && step.value("behavior", "") == "Isolated" && !step.value("invert", false)) {
    const auto pattern = step.find("pattern");
    if (pattern != step.end() && pattern->is_object() && pattern->contains("Regex") && (*pattern)["Regex"].is_string())
      return (*pattern)["Regex"].get<std::string>();
  }
  return step.dump();
}

}  // namespace

std::optional<std::string> pretokenizer_name(const FolderJson& tokenizer) {
  const auto step = tokenizer.find("pre_tokenizer");
  const auto normalizer = tokenizer.find("normalizer");
  const std::string steps = step == tokenizer.end() || step->is_null() ? "none" : steps_of(*step);
  const bool normal = normalizer != tokenizer.end() && !normalizer->is_null();
  if (normal && type_of(*normalizer) != "NFC") return std::nullopt;
  const bool whole = tokenizer["model"].value("ignore_merges", false);
  for (const Rule& r : kRules)
    if (r.steps == steps && r.nfc == normal && r.whole == whole) return std::string(r.pre);
  if (!normal && !whole && steps == fmt::format("{}", fmt::join(kDeepSeekV3, ", "))) return "deepseek-v3";
  return std::nullopt;
}

}  // namespace kvasir::hub
