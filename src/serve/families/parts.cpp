#include "serve/families/parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "base/base64.hpp"
#include "sound/sound.hpp"

namespace kvasir::serve {

const std::string& block_string(const Fields& block, std::string_view name) {
  const std::string* text = block.string(name);
  if (!text) bad_field(block.path(name), "is missing", "missing_required_parameter");
  return *text;
}

const std::string& block_type(const Fields& block) { return block_string(block, "type"); }

bool is_picture(std::string_view type) { return type == "image" || type == "input_image" || type == "image_url"; }

bool is_sound(std::string_view type) { return type == "input_audio" || type == "audio_url"; }

static const std::string& text_of_block(const Json& json, const std::string& field) {
  const Fields block(json, field + ".");
  const std::string& type = block_type(block);
  if (type != "text" && type != "input_text" && type != "output_text")
    unsupported(block.path("type"), is_picture(type) ? "a picture cannot stand here"
                                    : is_sound(type) ? "a sound cannot stand here"
                                                     : fmt::format("'{}', expected text", type));
  return block_string(block, "text");
}

std::string text_of_blocks(const Json* content, const std::string& field) {
  if (!content) return {};
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array())
    bad_field(field, "expected a string or an array of blocks, found " + shown(*content), "invalid_type");
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i)
    text += text_of_block((*content)[i], fmt::format("{}[{}]", field, i));
  return text;
}

Json picture_part(const std::string& base64, std::string_view media_type) {
  const std::string url = base64.starts_with("data:") ? base64 : fmt::format("data:{};base64,{}", media_type, base64);
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

Json picture_part(const Fields& block) {
  if (block_type(block) != "image") {
    if (!block.find("image_url") && block.find("file_id"))
      unsupported(block.path("file_id"), "this server keeps no files: send the picture as image_url");
    if (!block.find("image_url")) bad_field(block.path("image_url"), "is missing", "missing_required_parameter");
    return {{"type", "image_url"}, {"image_url", *block.find("image_url")}};
  }
  const Json* source = block.object("source");
  if (!source) bad_field(block.path("source"), "is missing", "missing_required_parameter");
  const Fields inner(*source, block.path("source."));
  const std::string& type = block_type(inner);
  if (type == "url") return {{"type", "image_url"}, {"image_url", {{"url", block_string(inner, "url")}}}};
  if (type != "base64") unsupported(inner.path("type"), fmt::format("'{}', expected 'base64'", type));
  const std::string* media = inner.string("media_type");
  return picture_part(block_string(inner, "data"), media ? *media : "");
}

Json content_of_blocks(const Json* content, const std::string& field) {
  const auto is = [](const Json& block, bool (*kind)(std::string_view)) {
    const auto type = block.is_object() ? block.find("type") : block.end();
    return block.is_object() && type != block.end() && type->is_string() && kind(type->get_ref<const std::string&>());
  };
  const auto shows = [&](const Json& block) { return is(block, is_picture) || is(block, is_sound); };
  if (!content || !content->is_array() || std::none_of(content->begin(), content->end(), shows))
    return text_of_blocks(content, field);
  Json parts = Json::array();
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Json& block = (*content)[i];
    const std::string name = fmt::format("{}[{}]", field, i);
    parts.push_back(is(block, is_sound)     ? block
                    : is(block, is_picture) ? picture_part(Fields(block, name + "."))
                                            : Json{{"type", "text"}, {"text", text_of_block(block, name)}});
  }
  return parts;
}

// Whether base64, or a data: URL, begins as a sound's file.
static bool begins_as_sound(std::string_view text) {
  if (text.starts_with("data:")) text = text.substr(std::min(text.find(','), text.size() - 1) + 1);
  std::string first;
  for (std::size_t i = 0; i < text.size() && first.size() < 64; ++i)
    if (text[i] > ' ' && text[i] != '=') first += text[i];
  first.resize(first.size() / 4 * 4);
  const std::optional<std::string> bytes = from_base64(first);
  return bytes && sound::is_sound_file(std::as_bytes(std::span(*bytes)));
}

Json content_with_images(const std::string& text, const Json* images, const std::string& field, FieldNames& names,
                         const std::string& content) {
  if (!images || images->empty()) return text;
  Json parts = Json::array();
  for (const Json& image : *images) {
    const std::string name = fmt::format("{}[{}]", field, parts.size());
    names.add(fmt::format("{}[{}]", content, parts.size()), name);
    if (!image.is_string()) bad_field(name, "expected base64, found " + shown(image), "invalid_type");
    const std::string& data = image.get_ref<const std::string&>();
    parts.push_back(begins_as_sound(data) ? Json{{"type", "input_audio"}, {"input_audio", {{"data", data}}}}
                                          : picture_part(data, "image/*"));
  }
  if (!text.empty()) parts.push_back({{"type", "text"}, {"text", text}});
  return parts;
}

Json message_of(std::string_view role, Json content) { return {{"role", role}, {"content", std::move(content)}}; }

Json call_of(const std::string& id, const std::string& name, Json arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

}  // namespace kvasir::serve
