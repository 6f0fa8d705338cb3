// Pictures and sounds in conversations. Where a message's content has a picture, a mark stands in it: the picture's
// name, made of the bytes of its file, between two characters that are none (Unicode's noncharacters U+FDD0 and
// U+FDD1). Texts of other people lose these, so they cannot spell a mark; and whatever knows a conversation by its text
// knows its pictures, too.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace kvasir::text {

// A picture or a sound of a conversation.
struct PictureFile {
  std::string mark;
  std::shared_ptr<const std::string> bytes;  // of the file, as it came
  std::string field;                         // "messages[0].content[1]"
};

std::string picture_mark(std::string_view file);
// Of sounds, which stand in conversations as pictures do. No file has the same mark as a picture and as a sound.
std::string sound_mark(std::string_view file);
bool is_sound_mark(std::string_view mark);

// A mark in a text: bytes [begin, end).
struct MarkAt {
  std::size_t begin, end;
};
// The first mark that begins at or behind `from`.
std::optional<MarkAt> next_mark(std::string_view text, std::size_t from = 0);
std::vector<std::string> marks_in(std::string_view text);  // in order

// Takes from all texts of a value, keys of objects too, what could begin a mark.
void drop_marks(Json& value);
// For people: `text` without the marks that begin at the places of pictures, ascending. Where a place is nothing but
// its mark, "<image>" stands there, for a sound "<audio>".
std::string without_marks(std::string_view text, std::span<const MarkAt> places);

// The bytes of a data: URL in base64 (RFC 2397); base64 without padding or with line breaks is taken, too. Throws
// Error(kBadInput), without a context, for other URLs and what is no base64.
std::string read_data_url(std::string_view url);
// The same of sounds, whose messages say so.
std::string read_sound_url(std::string_view url);
// The same of base64 alone, or of such a URL: `data` of a part input_audio.
std::string read_base64_file(std::string_view text);
// Throws Error(kBadInput) for a `format` of a part input_audio that is none of those that are read: wav, mp3, flac,
// ogg. Which it is, the file's first bytes say.
void check_sound_format(std::string_view format);

// Contents in parts with pictures (OpenAI's image_url with a data: URL) and sounds (input_audio; audio_url, as vLLM has
// it, with a data: URL) become texts with marks. For callers that have no parser of their own: throws Error(kBadInput)
// that names the part.
std::vector<PictureFile> take_pictures(Json& messages);

}  // namespace kvasir::text
