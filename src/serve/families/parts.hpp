// Contents in blocks, as the newer APIs write them, to the text that templates read.
#pragma once

#include <string>
#include <string_view>

#include "serve/body.hpp"

namespace kvasir::serve {

// The type of block `field`. Throws ApiException where it is missing.
const std::string& block_type(const Fields& block);

// A string that the block must have.
const std::string& block_string(const Fields& block, std::string_view name);

// The texts of a string or of an array of blocks of the types text, input_text and output_text, joined without anything
// between. Other blocks are refused by name: this model reads only text. An absent content (null) is "".
std::string text_of_blocks(const Json* content, const std::string& field);

// A message in the internal form.
Json message_of(std::string_view role, std::string text);

// The internal form of a call.
Json call_of(const std::string& id, const std::string& name, Json arguments);

}  // namespace kvasir::serve
