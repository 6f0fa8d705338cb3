#include "cli/chat_session.hpp"

#include <utility>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "run/ask.hpp"
#include "serve/pictures.hpp"
#include "serve/prompt.hpp"
#include "serve/request.hpp"
#include "serve/turns.hpp"

namespace kvasir::cli {
namespace {

constexpr std::int64_t kAnswerMemory = 16 << 20;  // as a server has by default

// As other programs read it in a conversation that was saved.
std::string data_url(std::string_view file) {
  const char* kind = file.starts_with("\x89PNG") ? "png" : file.starts_with("\xff\xd8") ? "jpeg" : "webp";
  return std::string("data:image/") + kind + ";base64," + to_base64(file);
}

const char* sound_format(std::string_view file) {
  return file.starts_with("RIFF")   ? "wav"
         : file.starts_with("fLaC") ? "flac"
         : file.starts_with("OggS") ? "ogg"
                                    : "mp3";
}

bool is(const Json& message, std::string_view role) { return message["role"] == role; }

}  // namespace

ChatSession::ChatSession(run::Service& service, const serve::ChatFormat& format, run::Request settings, Json variables,
                         run::Pictures* pictures)
    : service_(service),
      format_(format),
      settings_(std::move(settings)),
      variables_(std::move(variables)),
      pictures_(pictures),
      memory_(kAnswerMemory) {}

void ChatSession::set_system(const std::string& text) {
  if (!messages_.empty() && is(messages_.front(), "system")) messages_.erase(messages_.begin());
  if (!text.empty()) messages_.insert(messages_.begin(), Json{{"role", "system"}, {"content", text}});
}

ChatAnswer ChatSession::ask(const std::string& text, const ChatEvents& events, const std::vector<std::string>& images,
                            const std::vector<std::string>& sounds) {
  const Json before = messages_;
  Json content = text;
  if (!images.empty() || !sounds.empty()) {
    content = Json::array();
    for (const std::string& image : images)
      content.push_back({{"type", "image_url"}, {"image_url", {{"url", data_url(image)}}}});
    for (const std::string& sound : sounds)
      content.push_back(
          {{"type", "input_audio"}, {"input_audio", {{"data", to_base64(sound)}, {"format", sound_format(sound)}}}});
    content.push_back({{"type", "text"}, {"text", text}});
  }
  messages_.push_back({{"role", "user"}, {"content", std::move(content)}});
  return answer_or(before, events);
}

// What was stopped before it had any text, or failed, leaves the conversation as it was.
ChatAnswer ChatSession::answer_or(const Json& before, const ChatEvents& events) {
  try {
    ChatAnswer given = answer(events);
    const bool nothing = given.content.empty() && given.reasoning.empty();
    if (nothing && given.outcome.finish == run::Finish::kCancelled) messages_ = before;
    return given;
  } catch (...) {
    messages_ = before;
    throw;
  }
}

ChatAnswer ChatSession::retry(const ChatEvents& events) {
  const Json before = messages_;
  while (!messages_.empty() && is(messages_.back(), "assistant")) messages_.erase(messages_.size() - 1);
  if (messages_.empty() || !is(messages_.back(), "user")) {
    messages_ = before;
    throw Error(Code::kBadInput, "nothing was said that could be answered again");
  }
  ++retries_;
  return answer_or(before, events);
}

bool ChatSession::undo() {
  std::size_t keep = messages_.size();
  while (keep > 0 && !is(messages_[keep - 1], "user")) --keep;
  if (keep == 0) return false;
  while (messages_.size() >= keep) messages_.erase(messages_.size() - 1);
  return true;
}

void ChatSession::load(const Json& json) {
  serve::ChatInput chat = serve::parse_messages(json, pictures_ != nullptr);
  serve::read_pictures(chat, pictures_);
  messages_ = chat.pictures.empty() ? std::move(chat.messages) : json["messages"];
}

ChatAnswer ChatSession::answer(const ChatEvents& events) {
  serve::ChatInput input = serve::parse_messages({{"messages", messages_}}, pictures_ != nullptr);
  serve::read_pictures(input, pictures_);
  input.extra = variables_;
  const text::Tokenizer& tokenizer = *service_.tokenizer();
  text::Prompt said = format_.prompt(input, tokenizer);
  const std::vector<run::PicturePlace> places = serve::places_of(said, input);
  const serve::EncodedPrompt prompt = serve::encode_turns(std::move(said), tokenizer, memory_, {}, nullptr, places);
  run::ServiceRequest request;
  request.request = settings_;
  request.request.prompt = prompt.ids;
  request.request.runs = prompt.runs;
  request.request.shown = serve::shown_tokens(format_, input, tokenizer);
  // A seed that was given would give the same answer again.
  if (std::int64_t& seed = request.request.sampling.seed; seed >= 0) seed = (seed + retries_) & INT64_MAX;
  const auto parser = format_.parser(input, {.prompt = prompt.text});
  ChatAnswer given;
  given.warnings = format_.warnings(input);
  const auto show = [&](const serve::ChatDelta& delta) {
    given.content += delta.content;
    given.reasoning += delta.reasoning;
    if (events.reasoning && !delta.reasoning.empty()) events.reasoning(delta.reasoning);
    if (events.content && !delta.content.empty()) events.content(delta.content);
  };
  run::Answered reply = run::ask(service_, std::move(request),
                                 {.text = [&](std::string_view text) { show(parser->feed(text)); },
                                  .prefill = events.prefill,
                                  .cancelled = events.cancelled});
  show(parser->finish(reply.outcome.finish != run::Finish::kEnd));
  given.outcome = std::move(reply.outcome);
  given.remembered_tokens = prompt.remembered;
  if (given.content.empty() && given.reasoning.empty() && given.outcome.finish == run::Finish::kCancelled) return given;
  serve::remember_turn(memory_, tokenizer, {}, prompt, reply.ids);
  Json message{{"role", "assistant"}, {"content", given.content}};
  if (!given.reasoning.empty()) message["reasoning_content"] = given.reasoning;
  messages_.push_back(std::move(message));
  return given;
}

}  // namespace kvasir::cli
