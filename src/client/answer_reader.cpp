#include "client/answer_reader.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace kvasir::client {
namespace {

std::int64_t number(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<std::int64_t>() : 0;
}

std::string text_member(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : std::string();
}

// What a choice says, whether it is a message, a part of one, or a completion.
std::string text_of(const Json& choice) {
  for (const char* key : {"delta", "message"}) {
    const auto it = choice.find(key);
    if (it != choice.end() && it->is_object())
      return text_member(*it, "reasoning_content") + text_member(*it, "content");
  }
  return text_member(choice, "text");
}

}  // namespace

Endpoint parse_endpoint(std::string_view url, const std::string& option) {
  const auto bad = [&](const std::string& why) {
    return Error(Code::kBadInput, "is '" + std::string(url) + "', " + why, option);
  };
  constexpr std::string_view kPlain = "http://", kTls = "https://", kExpected = "expected http[s]://HOST:PORT";
  Endpoint e;
  e.tls = url.starts_with(kTls);
  if (!e.tls && !url.starts_with(kPlain)) throw bad(std::string(kExpected));
  std::string_view rest = url.substr((e.tls ? kTls : kPlain).size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view path = rest.substr(slash);
  rest = rest.substr(0, slash);
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string_view::npos) throw bad("expected ']' after an IPv6 address");
    e.host = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
  } else {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    e.host = rest.substr(0, colon);
    rest = rest.substr(colon);
  }
  e.port = !rest.empty() ? std::string(rest.substr(1)) : e.tls ? "443" : "80";
  const bool digits = !e.port.empty() && e.port.find_first_not_of("0123456789") == std::string::npos;
  if (e.host.empty() || !digits || (!rest.empty() && rest[0] != ':')) throw bad(std::string(kExpected));
  while (path.ends_with('/')) path.remove_suffix(1);
  e.path = path.empty() ? "/v1" : std::string(path);
  e.root = e.path.ends_with("/v1") ? e.path.substr(0, e.path.size() - 3) : e.path;
  return e;
}

void AnswerReader::feed(std::string_view bytes, double now) {
  pending_ += bytes;
  if (!stream_) return;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view text(pending_.data() + begin, end - begin);
    if (text.ends_with('\r')) text.remove_suffix(1);
    line(text, now);
  }
  pending_.erase(0, begin);
}

// Server-sent events: comments begin with ':', a data line follows the one before it, an empty line ends an event.
void AnswerReader::line(std::string_view text, double now) {
  if (text.empty()) return event(std::exchange(data_, {}), now);
  constexpr std::string_view kData = "data:";
  if (!text.starts_with(kData)) return;
  text.remove_prefix(kData.size());
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (!data_.empty()) data_ += '\n';
  data_ += text;
}

void AnswerReader::event(std::string_view data, double now) {
  if (data.empty() || done_) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Json json = Json::parse(data, nullptr, false);
  if (!json.is_object()) {
    if (answer_.error.empty()) answer_.error = "an event that is no JSON object";
    return;
  }
  if (json.contains("error")) return fail(json);
  read_usage(json);
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty()) return;
  add_text(text_of(choices->front()), now);
}

void AnswerReader::add_text(const std::string& text, double now) {
  if (text.empty()) return;
  if (answer_.first == 0) {
    answer_.first = now;
  } else {
    answer_.gaps.push_back(static_cast<float>(now - answer_.last));
  }
  answer_.last = now;
  answer_.text += text;
}

void AnswerReader::read_usage(const Json& json) {
  if (const auto it = json.find("kvasir"); it != json.end()) answer_.kvasir = *it;
  const auto usage = json.find("usage");
  if (usage == json.end() || !usage->is_object()) return;
  answer_.has_usage = true;
  answer_.prompt_tokens = number(*usage, "prompt_tokens");
  answer_.completion_tokens = number(*usage, "completion_tokens");
  const auto details = usage->find("prompt_tokens_details");
  if (details != usage->end() && details->is_object()) answer_.cached_tokens = number(*details, "cached_tokens");
}

// Some servers give the error as text only.
void AnswerReader::fail(const Json& json) {
  const auto error = json.is_object() ? json.find("error") : json.end();
  std::string kind;
  if (json.is_object() && error != json.end() && error->is_object()) {
    kind = text_member(*error, "code");
    if (kind.empty()) kind = text_member(*error, "type");
  }
  if (kind.empty()) kind = "error";
  answer_.error = (answer_.status == 200 ? "in a stream" : std::to_string(answer_.status)) + " " + kind;
}

ApiAnswer AnswerReader::finish(bool whole, double now) {
  using End = ApiAnswer::End;
  answer_.ended = now;
  if (answer_.status == 429 || answer_.status == 503) {
    fail(Json::parse(pending_, nullptr, false));
    answer_.end = End::kRefused;
  } else if (answer_.status != 200) {
    fail(Json::parse(pending_, nullptr, false));
    answer_.end = End::kError;
  } else if (!answer_.error.empty()) {
    answer_.end = End::kError;
  } else if (!whole || (stream_ && !done_)) {
    answer_.end = End::kDropped;
    answer_.error = "closed in the middle";
  } else {
    answer_.end = End::kComplete;
    if (!stream_) {
      answer_.body = Json::parse(pending_, nullptr, false);
      if (answer_.body.is_object()) {
        read_usage(answer_.body);
        const auto choices = answer_.body.find("choices");
        if (choices != answer_.body.end() && choices->is_array() && !choices->empty())
          answer_.text = text_of(choices->front());
      }
    }
  }
  return std::move(answer_);
}

}  // namespace kvasir::client
