#include "serve/families/openai.hpp"

#include <ctime>
#include <nlohmann/json.hpp>

#include "serve/context.hpp"

namespace kvasir::serve {
namespace {

Shape::Info shape_info(Context& context, const ApiRequest& request) {
  const char* prefix = request.kind == Kind::kChat ? "chatcmpl-" : request.kind == Kind::kWarm ? "warm-" : "cmpl-";
  return {.kind = request.kind,
          .include_usage = request.stream && request.include_usage,
          .id = context.next_id(prefix),
          .model = context.service.card().name,
          .fingerprint = context.fingerprint,
          .created = std::time(nullptr)};
}

class OpenAiWriter final : public AnswerWriter {
 public:
  explicit OpenAiWriter(const AnswerInfo& info)
      : request_(info.request), shape_(shape_info(info.context, info.request)) {}

  Json whole(std::span<const Choice> choices) override {
    Json out = shape_.whole(choices);
    out["usage"] = usage_json(choices, request_.n);
    out["kvasir"] = kvasir_json(choices, request_);
    return out;
  }

  std::string begin(int index) override {
    const Json first = shape_.first(index);
    return first.is_null() ? std::string() : sse("", first);
  }
  std::string progress(int index, const Progress& progress) override {
    return request_.progress ? sse("", shape_.progress(index, progress)) : std::string();
  }
  std::string delta(int index, const ChatDelta& text, Json logprobs) override {
    return sse("", shape_.delta(index, text, std::move(logprobs)));
  }
  std::string end(int index, std::span<const Choice> choices, bool all_done) override {
    Json last = shape_.last(index, choices[static_cast<std::size_t>(index)].finish);
    if (all_done && !request_.include_usage) last["kvasir"] = kvasir_json(choices, request_);
    return sse("", last);
  }
  std::string finish(std::span<const Choice> choices) override {
    std::string out;
    if (request_.include_usage) {
      Json chunk = shape_.usage_chunk();
      chunk["usage"] = usage_json(choices, request_.n);
      chunk["kvasir"] = kvasir_json(choices, request_);
      out = sse("", chunk);
    }
    return out + "data: [DONE]\n\n";
  }
  std::string error(const ApiError& error) override { return sse("", error_json(error)) + "data: [DONE]\n\n"; }

 private:
  const ApiRequest& request_;
  const Shape shape_;
};

}  // namespace

std::unique_ptr<AnswerWriter> openai_writer(const AnswerInfo& info) { return std::make_unique<OpenAiWriter>(info); }

}  // namespace kvasir::serve
