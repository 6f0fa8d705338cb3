#include "serve/foreign_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kvasir::serve {
namespace {

constexpr std::string_view kSampler = "this server has no such sampling stage";
constexpr std::string_view kText = "this model writes only text";

constexpr ForeignField kOpenai[] = {
    {"audio", "", true, kText},
    {"modalities", "[] [\"text\"]", true, kText},
    {"web_search_options", "", true, "this server searches nothing"},
    {"min_tokens", "0", true, "is not supported"},
    {"stop_token_ids", "[]", true, "is not supported, use 'stop'"},
    {"include_stop_str_in_output", "false", true, "is not supported"},
    {"bad_words", "[]", true, "is not supported, use 'logit_bias'"},
    {"allowed_token_ids", "[]", true, "is not supported, use 'logit_bias'"},
    {"use_beam_search", "false", true, "is not supported"},
    {"length_penalty", "1 1.0", true, "is not supported"},
    {"dry_multiplier", "0 0.0", true, kSampler},
    {"xtc_probability", "0 0.0", true, kSampler},
    {"mirostat", "0", true, kSampler},
    {"typical_p", "1 1.0", true, kSampler},
    {"typ_p", "1 1.0", true, kSampler},
    {"tfs_z", "1 1.0", true, kSampler},
    {"dynatemp_range", "0 0.0", true, kSampler},
    {"top_n_sigma", "-1 -1.0 0 0.0", true, kSampler},
    {"top_a", "0 0.0", true, kSampler},
    {"n_indent", "0", true, "is not supported"},
    {"t_max_predict_ms", "-1 0", false, "use 'max_tokens'"},
    {"prompt_logprobs", "0", false, "completions with 'echo' and 'logprobs' have them"},
    {"verbosity", "", false, "the model is not told"},
    {"moderation", "", false, "this server judges nothing"},
};

constexpr ForeignField kResponses[] = {
    {"moderation", "", false, "this server judges nothing"},
    {"context_management", "[]", false, "see 'truncation'"},
    {"text.verbosity", "", false, "the model is not told"},
    {"reasoning.context", "\"auto\"", false, "the chat template decides which reasoning is shown"},
    {"reasoning.mode", "\"standard\"", false, "there is one way to think"},
    {"prompt_cache_options.prewarm", "false", true, "use /v1/warm"},
};

constexpr ForeignField kMessages[] = {
    {"container", "", true, "this server runs nothing"},
    {"mcp_servers", "[]", true, "this server calls no others"},
    {"context_management", "", false, "see 'context_shift'"},
};

constexpr ForeignField kOllama[] = {
    {"width", "0", true, kText},
    {"height", "0", true, kText},
    {"steps", "0", true, kText},
};

const Json* find_path(const Fields& fields, std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == name.npos) return fields.find(name);
  const Json* outer = fields.find(name.substr(0, dot));
  return outer && outer->is_object() ? Fields(*outer).find(name.substr(dot + 1)) : nullptr;
}

bool is_neutral(const Json& value, std::string_view neutral) {
  const std::string text = value.dump();
  for (std::size_t from = 0; from < neutral.size();) {
    const std::size_t end = std::min(neutral.find(' ', from), neutral.size());
    if (neutral.substr(from, end - from) == text) return true;
    from = end + 1;
  }
  return false;
}

}  // namespace

std::span<const ForeignField> openai_foreign_fields() { return kOpenai; }
std::span<const ForeignField> responses_foreign_fields() { return kResponses; }
std::span<const ForeignField> messages_foreign_fields() { return kMessages; }
std::span<const ForeignField> ollama_foreign_fields() { return kOllama; }

void check_foreign(const Fields& fields, std::span<const ForeignField> foreign, std::vector<std::string>& warnings) {
  for (const ForeignField& f : foreign) {
    const Json* value = find_path(fields, f.name);
    if (!value || (value->size() < 256 && is_neutral(*value, f.neutral))) continue;
    if (f.refused) unsupported(std::string(f.name), std::string(f.why));
    warnings.push_back(fmt::format("'{}' does nothing: {}", f.name, f.why));
  }
}

}  // namespace kvasir::serve
