#include "text/pictures.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/base64.hpp"
#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kOpen = "\uFDD0", kClose = "\uFDD1", kInstead = "\uFFFD";
constexpr std::size_t kHash = 16;  // bytes of BLAKE2b
constexpr std::size_t kDigits = 2 * kHash;
constexpr std::size_t kMark = kOpen.size() + kDigits + kClose.size();

bool drop_open(std::string& text) {
  bool found = false;
  for (std::size_t at = 0; (at = text.find(kOpen, at)) != text.npos; found = true)
    text.replace(at, kOpen.size(), kInstead);
  return found;
}

bool same_word(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]) != lower[i]) return false;
  return true;
}

// What shows which picture it is, and not all of its data.
std::string beginning(std::string_view url) {
  constexpr std::size_t kShown = 48;
  return std::string(url.substr(0, kShown)) + (url.size() > kShown ? "..." : "");
}

}  // namespace

static std::string mark_of(std::string_view file, char first) {
  unsigned char hash[kHash];
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, sizeof hash);
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  crypto_generichash_final(&state, hash, sizeof hash);
  std::string mark(kOpen);
  for (const unsigned char byte : hash) mark += fmt::format("{:02x}", byte);
  if (first) mark[kOpen.size()] = first;
  return mark += kClose;
}

std::string picture_mark(std::string_view file) { return mark_of(file, '\0'); }

// In the place of the first digit, which leaves 124 bits.
std::string sound_mark(std::string_view file) { return mark_of(file, 's'); }

bool is_sound_mark(std::string_view mark) { return mark.size() == kMark && mark[kOpen.size()] == 's'; }

std::optional<MarkAt> next_mark(std::string_view text, std::size_t from) {
  for (; (from = text.find(kOpen, from)) != text.npos; ++from)
    if (text.substr(from).size() >= kMark && text.substr(from + kMark - kClose.size(), kClose.size()) == kClose)
      return MarkAt{from, from + kMark};
  return std::nullopt;
}

std::vector<std::string> marks_in(std::string_view text) {
  std::vector<std::string> all;
  for (auto mark = next_mark(text); mark; mark = next_mark(text, mark->end))
    all.emplace_back(text.substr(mark->begin, kMark));
  return all;
}

void drop_marks(Json& value) {
  if (value.is_string()) {
    drop_open(value.get_ref<std::string&>());
  } else if (value.is_array()) {
    for (Json& item : value) drop_marks(item);
  } else if (value.is_object()) {
    bool keys = false;
    for (auto& [key, item] : value.items()) {
      keys |= key.find(kOpen) != key.npos;
      drop_marks(item);
    }
    if (!keys) return;
    Json out = Json::object();
    for (auto& [key, item] : value.items()) {
      std::string name = key;
      drop_open(name);
      out[name] = std::move(item);
    }
    value = std::move(out);
  }
}

std::string without_marks(std::string_view text, std::span<const MarkAt> places) {
  std::string out;
  std::size_t done = 0;
  for (const MarkAt& place : places) {
    out += text.substr(done, place.begin - done);
    done = place.begin + kMark;
    const bool sound = is_sound_mark(text.substr(place.begin, kMark));
    if (place.end == done) out += sound ? "<audio>" : "<image>";
  }
  return out.append(text.substr(done));
}

static std::string read_base64_of(std::string_view data, const char* expected) {
  std::string text;
  text.reserve(data.size() + 3);
  for (const char c : data)
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') text += c;
  while (text.size() % 4 != 0) text += '=';
  std::optional<std::string> bytes = from_base64(text);
  if (!bytes) throw Error(Code::kBadInput, "the data is no base64");
  if (bytes->empty()) throw Error(Code::kBadInput, fmt::format("is empty, expected {}", expected));
  return *std::move(bytes);
}

std::string read_base64_file(std::string_view text) {
  return same_word(text.substr(0, 5), "data:") ? read_sound_url(text) : read_base64_of(text, "a sound");
}

void check_sound_format(std::string_view format) {
  for (const std::string_view known : {"wav", "mp3", "flac", "ogg"})
    if (same_word(format, known)) return;
  throw Error(Code::kBadInput,
              fmt::format("the format '{}' is not read, expected wav, mp3, flac or ogg", beginning(format)));
}

static std::string read_url_of(std::string_view url, const char* type, const char* expected) {
  const auto refuse = [&](const std::string& why) { throw Error(Code::kBadInput, why); };
  const std::size_t comma = url.find(',');
  if (!same_word(url.substr(0, 5), "data:") || comma == url.npos)
    refuse(fmt::format("'{}', expected a URL of the form data:{};base64,DATA", beginning(url), type));
  if (!same_word(url.substr(comma >= 7 ? comma - 7 : 0, 7), ";base64"))
    refuse(fmt::format("'{}': a data: URL has to be in base64", beginning(url)));
  return read_base64_of(url.substr(comma + 1), expected);
}

std::string read_data_url(std::string_view url) { return read_url_of(url, "image/png", "a picture"); }

std::string read_sound_url(std::string_view url) { return read_url_of(url, "audio/wav", "a sound"); }

namespace {

// What a part of this type, image_url or audio_url, says; null: it is of another type.
const std::string* url_of_part(const Json& part, const char* type) {
  if (!part.is_object() || part.value("type", Json()) != type) return nullptr;
  const auto named = part.find(type);
  const Json* url = named == part.end() ? nullptr : &*named;
  if (url && url->is_object()) url = url->contains("url") ? &(*url)["url"] : nullptr;
  if (!url || !url->is_string()) throw Error(Code::kBadInput, fmt::format("expected {}.url, a data: URL", type));
  return &url->get_ref<const std::string&>();
}

// The picture of a part, or nothing.
std::optional<std::string> picture_of(const Json& part) {
  const std::string* const url = url_of_part(part, "image_url");
  return url ? std::optional(read_data_url(*url)) : std::nullopt;
}

// The sound of a part, or nothing.
std::optional<std::string> sound_of(const Json& part) {
  if (const std::string* const url = url_of_part(part, "audio_url")) return read_sound_url(*url);
  if (!part.is_object() || part.value("type", Json()) != "input_audio") return std::nullopt;
  const auto audio = part.find("input_audio");
  const bool is = audio != part.end() && audio->is_object() && audio->contains("data") && (*audio)["data"].is_string();
  if (!is) throw Error(Code::kBadInput, "expected input_audio.data, a sound's file in base64");
  if (const auto format = audio->find("format"); format != audio->end() && !format->is_null()) {
    if (!format->is_string()) throw Error(Code::kBadInput, "expected input_audio.format, a string");
    check_sound_format(format->get_ref<const std::string&>());
  }
  return read_base64_file((*audio)["data"].get_ref<const std::string&>());
}

}  // namespace

std::vector<PictureFile> take_pictures(Json& messages) {
  std::vector<PictureFile> all;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    const bool parts = message.is_object() && message.contains("content") && message["content"].is_array();
    Json content = parts ? std::exchange(message["content"], nullptr) : Json();
    drop_marks(message);
    if (!parts) continue;
    bool any = false;
    std::string text, odd;  // the field of a part that is neither
    for (std::size_t k = 0; k < content.size(); ++k) {
      const std::string field = fmt::format("messages[{}].content[{}]", i, k);
      std::optional<std::string> bytes;
      bool sound = false;
      try {
        bytes = picture_of(content[k]);
        if (!bytes) sound = (bytes = sound_of(content[k])).has_value();
      } catch (const Error& e) {
        throw Error(e.code(), e.message(), field);
      }
      if (bytes) {
        any = true;
        const std::string mark = sound ? sound_mark(*bytes) : picture_mark(*bytes);
        all.push_back({mark, std::make_shared<const std::string>(*std::move(bytes)), field});
        text += all.back().mark;
        continue;
      }
      drop_marks(content[k]);
      if (content[k].is_object() && content[k].contains("text") && content[k]["text"].is_string())
        text += content[k]["text"].get_ref<const std::string&>();
      else if (odd.empty())
        odd = field;
    }
    if (any && !odd.empty())
      throw Error(Code::kBadInput, "expected a part of type text, image_url, input_audio or audio_url", odd);
    // Parts without a picture are as they were: whoever renders them says what is wrong with them.
    message["content"] = any ? Json(std::move(text)) : std::move(content);
  }
  return all;
}

}  // namespace kvasir::text
