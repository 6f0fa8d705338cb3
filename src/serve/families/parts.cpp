#include "serve/families/parts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvasir::serve {

const std::string& block_string(const Fields& block, std::string_view name) {
  const std::string* text = block.string(name);
  if (!text) bad_field(block.path(name), "is missing", "missing_required_parameter");
  return *text;
}

const std::string& block_type(const Fields& block) { return block_string(block, "type"); }

std::string text_of_blocks(const Json* content, const std::string& field) {
  if (!content) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array())
    bad_field(field, "expected a string or an array of blocks, found " + shown(*content), "invalid_type");
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Fields block((*content)[i], fmt::format("{}[{}].", field, i));
    const std::string& type = block_type(block);
    if (type != "text" && type != "input_text" && type != "output_text")
      unsupported(block.path("type"), fmt::format("'{}', this model reads only text", type));
    text += block_string(block, "text");
  }
  return text;
}

Json message_of(std::string_view role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

Json call_of(const std::string& id, const std::string& name, Json arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

}  // namespace kvasir::serve
