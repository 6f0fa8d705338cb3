// Messages: https://docs.anthropic.com/en/api/messages and messages-streaming. A stream is message_start, for each
// block content_block_start, deltas and content_block_stop, then message_delta and message_stop; one block is closed
// before the next begins.
#include <nlohmann/json.hpp>

#include "serve/context.hpp"
#include "serve/families/anthropic.hpp"

namespace kvasir::serve::dialects_messages {
namespace {

// Figures as the API counts them: input_tokens are those that came from no cache.
Json usage_of(std::int64_t prompt, std::int64_t cached, std::int64_t output) {
  return {{"input_tokens", prompt - cached},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", output}};
}

Json usage_of(const Choice& choice) {
  const run::Outcome& o = choice.outcome;
  return usage_of(o.prompt_tokens, o.receipt.reused_tokens, o.completion_tokens);
}

Json input_of(const std::string& arguments) {
  Json input = Json::parse(arguments, nullptr, false);
  return input.is_object() ? input : Json::object();
}

class Writer final : public AnswerWriter {
 public:
  explicit Writer(const AnswerInfo& info)
      : request_(info.request), prompt_tokens_(info.prompt_tokens), id_(info.context.next_id("msg_")) {}

  Json whole(std::span<const Choice> choices) override {
    const Choice& choice = choices.front();
    Json content = Json::array();
    if (!choice.text.reasoning.empty())
      content.push_back({{"type", "thinking"}, {"thinking", choice.text.reasoning}, {"signature", ""}});
    if (!choice.text.content.empty()) content.push_back({{"type", "text"}, {"text", choice.text.content}});
    for (const ToolCallDelta& call : choice.text.calls)
      content.push_back(
          {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", input_of(call.arguments)}});
    Json out = head(std::move(content), usage_of(choice));
    set_stop(out, choice);
    out["kvasir"] = kvasir_json(choices, request_);
    return out;
  }

  bool begins_with_prompt() const override { return true; }
  std::string begin(int) override {
    if (begun_) return {};
    begun_ = true;
    return event("message_start", {{"message", head(Json::array(), usage_of(prompt_tokens_, cached_, 0))}});
  }
  void prompt_begun(const Progress& progress) override { cached_ = progress.reused; }

  std::string progress(int, const Progress& progress) override {
    return event("ping", {{"kvasir", {{"prompt_progress", progress_json(progress)}}}});
  }
  std::string delta(int, const ChatDelta& text, Json) override {
    std::string out;
    if (!text.reasoning.empty()) {
      out += open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
      out += block_delta({{"type", "thinking_delta"}, {"thinking", text.reasoning}});
    }
    if (!text.content.empty()) {
      out += open("text", {{"type", "text"}, {"text", ""}});
      out += block_delta({{"type", "text_delta"}, {"text", text.content}});
    }
    for (const ToolCallDelta& call : text.calls) {
      if (!call.name.empty()) {
        out += close();
        out +=
            open("tool_use", {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", Json::object()}});
      }
      if (!call.arguments.empty()) out += block_delta({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
    }
    return out;
  }

  std::string end(int, std::span<const Choice> choices, bool) override {
    std::string out = close();
    Json delta = Json::object();
    set_stop(delta, choices.front());
    return out + event("message_delta", {{"delta", std::move(delta)},
                                         {"usage", usage_of(choices.front())},
                                         {"kvasir", kvasir_json(choices, request_)}});
  }
  std::string finish(std::span<const Choice>) override { return event("message_stop", Json::object()); }
  std::string error(const ApiError& error) override { return sse("error", anthropic_error(error)); }
  std::string keep_alive() override { return begin(0) + event("ping", Json::object()); }

 private:
  static std::string event(const char* type, const Json& more) {
    Json data{{"type", type}};
    data.update(more);
    return sse(type, data);
  }

  Json head(Json content, Json usage) const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", request_.dialect["model"]},
            {"content", std::move(content)},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", std::move(usage)}};
  }

  void set_stop(Json& out, const Choice& choice) const {
    const bool sequence = choice.outcome.finish == run::Finish::kStop;
    const std::vector<std::string>& stops = request_.service.request.stop;
    out["stop_reason"] = choice.finish == "tool_calls" ? "tool_use"
                         : choice.finish == "length"   ? "max_tokens"
                         : sequence                    ? "stop_sequence"
                                                       : "end_turn";
    const auto which = static_cast<std::size_t>(choice.outcome.stopped_by);  // -1: none
    out["stop_sequence"] = sequence && which < stops.size() ? Json(stops[which]) : Json(nullptr);
  }

  std::string open(const char* kind, Json block) {
    if (open_ && std::string_view(kind) == open_ && std::string_view(kind) != "tool_use") return {};
    std::string out = close();
    open_ = kind;
    return out + event("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
  }
  std::string block_delta(Json delta) const {
    return event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
  }
  std::string close() {
    if (!open_) return {};
    std::string out;
    if (std::string_view(open_) == "thinking") out = block_delta({{"type", "signature_delta"}, {"signature", ""}});
    open_ = nullptr;
    return out + event("content_block_stop", {{"index", index_++}});
  }

  const ApiRequest& request_;
  const std::int64_t prompt_tokens_;
  std::int64_t cached_ = 0;  // of them
  const std::string id_;
  bool begun_ = false;
  const char* open_ = nullptr;  // kind of the block that is open
  int index_ = 0;               // of that block, or of the next one
};

}  // namespace

const Dialect entry{
    .path = "/v1/messages",
    .parse = parse_anthropic,
    .writer = [](const AnswerInfo& info) -> std::unique_ptr<AnswerWriter> { return std::make_unique<Writer>(info); },
    .error = anthropic_error};

}  // namespace kvasir::serve::dialects_messages
