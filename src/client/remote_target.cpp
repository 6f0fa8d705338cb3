#include "client/remote_target.hpp"

#include "base/error.hpp"
#include "client/api_client.hpp"

namespace kvasir::client {
namespace {

constexpr double kPatience = 3600;  // a long prompt on a slow machine

class RemoteTarget final : public lab::ReplayTarget {
 public:
  RemoteTarget(const Endpoint& endpoint, const std::string& model, const lab::ReplayOptions& options)
      : endpoint_(endpoint), model_(model), max_tokens_(options.max_tokens), client_(resolve(endpoint), kPatience) {}

  std::optional<lab::ReplayAnswer> ask(const lab::Conversation& history, int, bool reuse) override {
    Json body{{"model", model_},
              {"messages", Json::array()},
              {"max_tokens", max_tokens_},
              {"temperature", 0},
              {"stream", true},
              {"stream_options", {{"include_usage", true}}}};
    for (const lab::Message& m : history) body["messages"].push_back({{"role", m.role}, {"content", m.content}});
    if (!reuse) body["reuse"] = body["cache_prompt"] = false;
    const ApiAnswer answer = client_.post(endpoint_.path + "/chat/completions", body);
    if (answer.status == 400 &&
        (answer.error.ends_with("context_length_exceeded") || answer.error.ends_with("exceed_context_size_error")))
      return std::nullopt;
    if (answer.end != ApiAnswer::End::kComplete)
      throw Error(Code::kIo, "does not answer a chat: " + answer.error, endpoint_.host + ":" + endpoint_.port);
    lab::ReplayAnswer out{.text = answer.text,
                          .ttft = (answer.first > 0 ? answer.first : answer.ended) - answer.sent,
                          .seconds = answer.ended - answer.sent,
                          .prompt_tokens = answer.prompt_tokens,
                          .reused_tokens = answer.cached_tokens};
    read_sources(answer, &out);
    return out;
  }

  void reopen() override {
    throw Error(Code::kBadInput, "cannot be used with --url: that server is not this program's", "--restart-every");
  }

 private:
  static void read_sources(const ApiAnswer& answer, lab::ReplayAnswer* out) {
    if (answer.kvasir.is_object() && answer.kvasir.contains("spans") && answer.kvasir["spans"].is_array()) {
      out->load_seconds = answer.kvasir.value("load_seconds", 0.0);
      out->loaded_bytes = answer.kvasir.value("loaded_bytes", std::uint64_t{0});
      for (const Json& s : answer.kvasir["spans"])
        if (s.is_object()) out->tokens_by_source[s.value("source", "")] += s.value("end", 0) - s.value("begin", 0);
      return;
    }
    if (out->reused_tokens > 0) out->tokens_by_source["cached"] = out->reused_tokens;
    out->tokens_by_source["computed"] = out->prompt_tokens - out->reused_tokens;
  }

  const Endpoint endpoint_;
  const std::string model_;
  const std::int32_t max_tokens_;
  BlockingClient client_;
};

}  // namespace

std::unique_ptr<lab::ReplayTarget> remote_target(const Endpoint& endpoint, const std::string& model,
                                                 const lab::ReplayOptions& options) {
  return std::make_unique<RemoteTarget>(endpoint, model, options);
}

}  // namespace kvasir::client
