#include "serve/shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "run/receipt.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr double kNever = -9999;  // what the OpenAI API writes for a probability of 0, which JSON's null would hide

Json logprob_json(float x) { return std::isfinite(x) ? Json(static_cast<double>(x)) : Json(kNever); }

std::int64_t characters(std::string_view text) {
  std::int64_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return n;
}

Json call_json(const ToolCallDelta& call, bool with_index) {
  Json out = Json::object();
  if (with_index) out["index"] = call.index;
  const bool begins = !call.id.empty() || !call.name.empty();
  if (begins) {
    out["id"] = call.id;
    out["type"] = "function";
    out["function"]["name"] = call.name;
  }
  out["function"]["arguments"] = call.arguments;
  return out;
}

Json message_json(const ChatDelta& text) {
  Json message{{"role", "assistant"}};
  message["content"] = text.content.empty() && !text.calls.empty() ? Json(nullptr) : Json(text.content);
  message["refusal"] = nullptr;
  if (!text.reasoning.empty()) message["reasoning_content"] = text.reasoning;
  for (const ToolCallDelta& call : text.calls) message["tool_calls"].push_back(call_json(call, false));
  return message;
}

Json receipt_json(const Choice& choice) {
  Json out = run::receipt_json(choice.outcome);
  out["remembered_tokens"] = choice.remembered_tokens;
  out["miss_at"] = choice.miss_at;
  return out;
}

// What was left out for want of room: of the prompt beforehand, and of what there was when the context was full.
Json shift_json(std::span<const Choice> choices, const ContextShift& shift) {
  std::int64_t times = 0, tokens = shift.dropped_tokens;
  for (const Choice& c : choices) {
    times += c.outcome.shifts;
    tokens += c.outcome.shifted_tokens;
  }
  return {{"dropped_messages", shift.dropped_messages}, {"dropped_tokens", tokens}, {"shifts", times}};
}

}  // namespace

Json progress_json(const Progress& p) {
  const auto ms = [](double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1000)); };
  Json out{{"total", p.total}, {"cache", p.reused}, {"processed", p.done}, {"time_ms", ms(p.seconds)}};
  if (p.rows.all > 0) out["pictures"] = {{"waiting", p.rows.waiting}, {"done", p.rows.done}, {"parts", p.rows.all}};
  const std::int64_t computed = p.done - p.reused;
  if (computed > 0)
    out["remaining_ms"] = ms(p.seconds / static_cast<double>(computed) * static_cast<double>(p.total - p.done));
  return out;
}

std::string_view finish_reason(run::Finish finish) {
  return finish == run::Finish::kLength || finish == run::Finish::kContext ? "length" : "stop";
}

std::string LogprobWriter::piece(std::int32_t id) const {
  return tokenizer_ ? std::string(tokenizer_->piece(id)) : fmt::format("token_id:{}", id);
}

Json LogprobWriter::chat_item(std::int32_t id, float logprob) const {
  const std::string bytes = piece(id);
  Json numbers = Json::array();
  for (const char c : bytes) numbers.push_back(static_cast<unsigned char>(c));
  return {{"token", unicode::to_valid_utf8(bytes)}, {"logprob", logprob_json(logprob)}, {"bytes", std::move(numbers)}};
}

void LogprobWriter::add(const run::TokenRecord& token, bool in_text) {
  if (kind_ == Kind::kChat) {
    if (json_.is_null()) json_ = {{"content", Json::array()}, {"refusal", nullptr}};
    Json item = chat_item(token.id, token.logprob);
    item["top_logprobs"] = Json::array();
    for (const auto& best : token.best) item["top_logprobs"].push_back(chat_item(best.id, best.logprob));
    json_["content"].push_back(std::move(item));
    return;
  }
  if (json_.is_null()) {
    for (const char* key : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) json_[key] = Json::array();
  }
  const std::string text = unicode::to_valid_utf8(piece(token.id));
  json_["tokens"].push_back(text);
  json_["token_logprobs"].push_back(std::isnan(token.logprob) ? Json(nullptr) : logprob_json(token.logprob));
  Json best = Json::object();  // of several tokens that look alike the most probable one, which comes first
  for (const auto& b : token.best) best.emplace(unicode::to_valid_utf8(piece(b.id)), logprob_json(b.logprob));
  json_["top_logprobs"].push_back(token.best.empty() ? Json(nullptr) : std::move(best));
  json_["text_offset"].push_back(offset_);
  if (in_text) offset_ += characters(text);
}

Json LogprobWriter::take() {
  Json out = std::move(json_);
  json_ = nullptr;
  return out;
}

Json Shape::head(const char* object) const {
  return {{"id", info_.id},
          {"object", object},
          {"created", info_.created},
          {"model", info_.model},
          {"system_fingerprint", info_.fingerprint}};
}

Json Shape::chunk(Json choice) const {
  Json out = head(info_.kind == Kind::kChat ? "chat.completion.chunk" : "text_completion");
  out["choices"] = Json::array();
  if (!choice.is_null()) out["choices"].push_back(std::move(choice));
  if (info_.include_usage) out["usage"] = nullptr;
  return out;
}

Json Shape::first(int index) const {
  if (info_.kind != Kind::kChat) return nullptr;
  return chunk({{"index", index},
                {"delta", {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}},
                {"logprobs", nullptr},
                {"finish_reason", nullptr}});
}

Json Shape::delta(int index, const ChatDelta& text, Json logprobs) const {
  Json choice{{"index", index}};
  if (info_.kind == Kind::kChat) {
    Json delta = Json::object();
    if (!text.content.empty()) delta["content"] = text.content;
    if (!text.reasoning.empty()) delta["reasoning_content"] = text.reasoning;
    for (const ToolCallDelta& call : text.calls) delta["tool_calls"].push_back(call_json(call, true));
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = text.content;
  }
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = nullptr;
  return chunk(std::move(choice));
}

Json Shape::last(int index, std::string_view finish) const {
  Json choice{{"index", index}};
  if (info_.kind == Kind::kChat) {
    choice["delta"] = Json::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish;
  return chunk(std::move(choice));
}

Json Shape::progress(int index, const Progress& progress) const {
  Json out = delta(index, {}, nullptr);
  out["prompt_progress"] = progress_json(progress);
  return out;
}

Json Shape::usage_chunk() const { return chunk(nullptr); }

Json Shape::whole(std::span<const Choice> choices) const {
  if (info_.kind == Kind::kWarm) {
    Json out = head("kvasir.warm");
    const std::string& error = choices.front().outcome.receipt.pin_error;
    out["pinned"] = choices.front().pinned;
    if (!error.empty()) out["pin_error"] = error;
    return out;
  }
  const bool chat = info_.kind == Kind::kChat;
  Json out = head(chat ? "chat.completion" : "text_completion");
  out["choices"] = Json::array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Json choice{{"index", i}};
    if (chat) {
      choice["message"] = message_json(choices[i].text);
    } else {
      choice["text"] = choices[i].text.content;
    }
    choice["logprobs"] = choices[i].logprobs;
    choice["finish_reason"] = choices[i].finish;
    out["choices"].push_back(std::move(choice));
  }
  return out;
}

Json usage_json(std::span<const Choice> choices, int per_prompt) {
  std::int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const run::Outcome& outcome = choices[i].outcome;
    completion += outcome.completion_tokens;
    reasoning += choices[i].reasoning_tokens;
    if (i % static_cast<std::size_t>(per_prompt) != 0) continue;
    prompt += outcome.prompt_tokens;
    cached += outcome.receipt.reused_tokens;
  }
  Json usage{{"prompt_tokens", prompt},
             {"completion_tokens", completion},
             {"total_tokens", prompt + completion},
             {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  if (reasoning > 0) usage["completion_tokens_details"] = {{"reasoning_tokens", reasoning}};
  return usage;
}

Json kvasir_json(std::span<const Choice> choices, const ApiRequest& request) {
  Json out = receipt_json(choices.front());
  if (request.shift.on) out["context_shift"] = shift_json(choices, request.shift);
  if (!request.notes.empty()) out["notes"] = request.notes;
  text::Warnings warnings = request.warnings;
  for (const Choice& c : choices)
    for (const std::string& text : c.warnings)
      if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
  if (!warnings.empty()) out["warnings"] = std::move(warnings);
  if (request.service.pin && request.kind != Kind::kWarm) {
    out["pinned"] = choices.front().pinned;
    const std::string& error = choices.front().outcome.receipt.pin_error;
    if (!error.empty()) out["pin_error"] = error;
  }
  if (choices.size() == 1) return out;
  Json all = Json::array();
  for (const Choice& c : choices) all.push_back(receipt_json(c));
  out["choices"] = std::move(all);
  return out;
}

}  // namespace kvasir::serve
