// Responses: https://platform.openai.com/docs/api-reference/responses and responses-streaming. Reasoning, text and
// every call are an item each; an item keeps its id from output_item.added to the stored response.
#include "serve/families/responses.hpp"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "serve/context.hpp"
#include "serve/dialect.hpp"

namespace kvasir::serve::dialects_responses {
namespace {

class Writer final : public AnswerWriter {
 public:
  explicit Writer(const AnswerInfo& info) : context_(info.context), request_(info.request), tenant_(info.tenant) {
    response_ = {{"id", context_.next_id("resp_")}, {"object", "response"},    {"created_at", std::time(nullptr)},
                 {"status", "in_progress"},         {"background", false},     {"error", nullptr},
                 {"incomplete_details", nullptr},   {"output", Json::array()}, {"usage", nullptr}};
    response_.update(request_.dialect["response"]);
  }

  // What a stream says, gathered.
  Json whole(std::span<const Choice> choices) override {
    delta(0, choices.front().text, choices.front().logprobs);
    complete(choices);
    return response_;
  }

  std::string begin(int) override {
    if (begun_) return {};
    begun_ = true;
    std::string out = of_response("response.created");  // one after the other: events are numbered
    return out += of_response("response.in_progress");
  }

  std::string progress(int, const Progress& progress) override {
    return event("response.in_progress",
                 {{"response", response_}, {"kvasir", {{"prompt_progress", progress_json(progress)}}}});
  }
  std::string delta(int, const ChatDelta& text, Json logprobs) override {
    std::string out;
    if (!text.reasoning.empty()) {
      out += open(Item::kReasoning);
      text_ += text.reasoning;
      out += of_part("response.reasoning_text.delta", {{"delta", text.reasoning}});
    }
    if (!text.content.empty()) {
      out += open(Item::kMessage);
      text_ += text.content;
      const Json items = logprobs.is_null() ? Json::array() : logprobs["content"];
      logprobs_.insert(logprobs_.end(), items.begin(), items.end());
      out += of_part("response.output_text.delta", {{"delta", text.content}, {"logprobs", items}});
    }
    for (const ToolCallDelta& call : text.calls) {
      if (!call.name.empty()) out += open_call(call);
      if (call.arguments.empty()) continue;
      text_ += call.arguments;
      out += of_item("response.function_call_arguments.delta", {{"delta", call.arguments}});
    }
    return out;
  }

  std::string end(int, std::span<const Choice> choices, bool) override { return complete(choices); }
  std::string finish(std::span<const Choice>) override {
    return of_response(response_["status"] == "completed" ? "response.completed" : "response.incomplete");
  }
  std::string error(const ApiError& error) override {
    std::string out = begin(0);
    out += close("incomplete");
    response_["status"] = "failed";
    response_["error"] = {{"code", error.code.empty() ? error.type : error.code}, {"message", error.message}};
    return out + of_response("response.failed");
  }
  std::string keep_alive() override { return begun_ ? of_response("response.in_progress") : begin(0); }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  std::string event(const char* type, const Json& more) {
    Json data{{"type", type}, {"sequence_number", sequence_++}};
    data.update(more);
    return sse(type, data);
  }
  std::string of_response(const char* type) { return event(type, {{"response", response_}}); }
  std::string of_item(const char* type, const Json& more) {
    Json data{{"item_id", item_["id"]}, {"output_index", response_["output"].size()}};
    data.update(more);
    return event(type, data);
  }
  std::string of_part(const char* type, const Json& more) {
    Json data{{"content_index", 0}};
    data.update(more);
    return of_item(type, data);
  }
  std::string of_output(const char* type) {
    return event(type, {{"output_index", response_["output"].size()}, {"item", item_}});
  }
  Json part() const {
    if (kind_ == Item::kReasoning) return {{"type", "reasoning_text"}, {"text", text_}};
    return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
  }

  std::string open(Item kind) {
    if (kind_ == kind) return {};
    std::string out = close("completed");
    kind_ = kind;
    if (kind == Item::kReasoning) {
      item_ = {{"id", context_.next_id("rs_")}, {"type", "reasoning"}, {"summary", Json::array()}};
    } else {
      item_ = {{"id", context_.next_id("msg_")}, {"type", "message"}, {"role", "assistant"}};
    }
    item_["status"] = "in_progress";
    item_["content"] = Json::array();
    out += of_output("response.output_item.added");
    return out += of_part("response.content_part.added", {{"part", part()}});
  }

  std::string open_call(const ToolCallDelta& call) {
    std::string out = close("completed");
    kind_ = Item::kCall;
    item_ = {{"id", context_.next_id("fc_")},
             {"type", "function_call"},
             {"status", "in_progress"},
             {"call_id", call.id},
             {"name", call.name},
             {"arguments", ""}};
    const Json& namespaces = request_.dialect["namespaces"];
    if (namespaces.contains(call.name)) item_["namespace"] = namespaces[call.name];
    return out + of_output("response.output_item.added");
  }

  std::string close(const char* status) {
    if (kind_ == Item::kNone) return {};
    std::string out;
    if (kind_ == Item::kCall) {
      out += of_item("response.function_call_arguments.done", {{"name", item_["name"]}, {"arguments", text_}});
      item_["arguments"] = text_;
    } else {
      const bool reasoning = kind_ == Item::kReasoning;
      Json done{{"text", text_}};
      if (!reasoning) done["logprobs"] = logprobs_;
      out += of_part(reasoning ? "response.reasoning_text.done" : "response.output_text.done", done);
      out += of_part("response.content_part.done", {{"part", part()}});
      item_["content"].push_back(part());
      if (reasoning && request_.dialect["encrypted"].get<bool>()) item_["encrypted_content"] = seal_reasoning(text_);
    }
    item_["status"] = status;
    out += of_output("response.output_item.done");
    response_["output"].push_back(std::move(item_));
    kind_ = Item::kNone;
    text_.clear();
    logprobs_ = Json::array();
    return out;
  }

  std::string complete(std::span<const Choice> choices) {
    const Choice& choice = choices.front();
    const bool cut = choice.finish == "length";
    std::string out = close(cut ? "incomplete" : "completed");
    const run::Outcome& o = choice.outcome;
    response_["status"] = cut ? "incomplete" : "completed";
    if (cut) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response_["usage"] = {{"input_tokens", o.prompt_tokens},
                          {"input_tokens_details", {{"cached_tokens", o.receipt.reused_tokens}}},
                          {"output_tokens", o.completion_tokens},
                          {"output_tokens_details", {{"reasoning_tokens", choice.reasoning_tokens}}},
                          {"total_tokens", o.prompt_tokens + o.completion_tokens}};
    response_["kvasir"] = kvasir_json(choices, request_);
    if (request_.dialect["store"].get<bool>()) store();
    return out;
  }

  void store() {
    Json messages = request_.dialect["messages"];
    Json answer{{"role", "assistant"}, {"content", nullptr}};
    for (const Json& item : response_["output"]) {
      if (item["type"] == "function_call") {
        answer["tool_calls"].push_back({{"id", item["call_id"]},
                                        {"type", "function"},
                                        {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
        continue;
      }
      const char* field = item["type"] == "reasoning" ? "reasoning_content" : "content";
      std::string text = answer.contains(field) && answer[field].is_string() ? answer[field].get<std::string>() : "";
      for (const Json& p : item["content"]) text += p["text"].get<std::string>();
      answer[field] = std::move(text);
    }
    if (answer["content"].is_null() && !answer.contains("tool_calls")) answer["content"] = "";
    messages.push_back(std::move(answer));
    response_["store"] = context_.responses.put(
        tenant_, response_["id"].get<std::string>(),
        {.messages = dump(messages), .response = dump(response_), .input = dump(request_.dialect["input"])});
  }

  Context& context_;
  const ApiRequest& request_;
  const std::string tenant_;
  Json response_;
  bool begun_ = false;
  std::int64_t sequence_ = 0;
  Item kind_ = Item::kNone;  // of the item that is open
  Json item_;
  std::string text_;               // of its content or arguments
  Json logprobs_ = Json::array();  // of its content
};

}  // namespace

const Dialect entry{
    .path = "/v1/responses",
    .parse = parse_responses,
    .writer = [](const AnswerInfo& info) -> std::unique_ptr<AnswerWriter> { return std::make_unique<Writer>(info); }};

}  // namespace kvasir::serve::dialects_responses
