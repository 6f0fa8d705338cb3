// Contents in blocks, as the newer APIs write them, to the text that templates read.
#pragma once

#include <string>
#include <string_view>

#include "serve/body.hpp"
#include "serve/field_names.hpp"

namespace kvasir::serve {

// The type of block `field`. Throws ApiException where it is missing.
const std::string& block_type(const Fields& block);

// A string that the block must have.
const std::string& block_string(const Fields& block, std::string_view name);

// The texts of a string or of an array of blocks of the types text, input_text and output_text, joined without anything
// between. Other blocks are refused by name. An absent content (null) is "".
std::string text_of_blocks(const Json* content, const std::string& field);

// The same with pictures and sounds: blocks of the types image, input_image and image_url become parts image_url, those
// of the types input_audio and audio_url stay, and then the content is an array with one part for each block.
Json content_of_blocks(const Json* content, const std::string& field);

bool is_picture(std::string_view type);
bool is_sound(std::string_view type);  // input_audio and audio_url, as chats have them
// The part image_url that a block says. Throws ApiException for a picture that is not in the block: a file's id.
Json picture_part(const Fields& block);
// The same of base64, or of a data: URL.
Json picture_part(const std::string& base64, std::string_view media_type);

// A text behind pictures and sounds in base64, which `field` calls images, as parts of `content`. What is a sound, its
// first bytes say. images: null where there are none.
Json content_with_images(const std::string& text, const Json* images, const std::string& field, FieldNames& names,
                         const std::string& content);

// A message in the internal form. content: a text or parts.
Json message_of(std::string_view role, Json content);

// The internal form of a call.
Json call_of(const std::string& id, const std::string& name, Json arguments);

}  // namespace kvasir::serve
