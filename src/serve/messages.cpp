// Messages and tools of a chat, brought into the one form that templates expect.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "serve/body.hpp"
#include "serve/picture_urls.hpp"
#include "serve/request.hpp"
#include "serve/thinking.hpp"

namespace kvasir::serve {
namespace {

struct PictureParts {
  bool read;          // by the model
  PictureUrls* urls;  // null: this server fetches none
};

bool is_elsewhere(const std::string& url) { return url.starts_with("http://") || url.starts_with("https://"); }

// The picture in a part image_url. One that is not fetched yet has no bytes.
ChatPicture picture_of(const Fields& part, const std::string& name, PictureUrls* urls) {
  const Json* image = part.find("image_url");
  if (!image) bad_field(name + ".image_url", "is missing", "missing_required_parameter");
  const std::string* url = nullptr;
  if (image->is_string()) {
    url = part.string("image_url");
  } else {
    const Fields inner(*image, name + ".image_url.");
    url = inner.string("url");
    if (!url) bad_field(name + ".image_url.url", "is missing", "missing_required_parameter");
  }
  if (is_elsewhere(*url) && !urls)
    unsupported(name,
                "this server fetches no pictures from other servers (--image-urls lets it): send it as "
                "data:image/png;base64,DATA");
  try {
    const auto bytes = is_elsewhere(*url) ? urls->find(client::Fetched::kPicture, *url)
                                          : std::make_shared<const std::string>(text::read_data_url(*url));
    if (!bytes) return {{{}, nullptr, name}};
    return {{text::picture_mark(*bytes), bytes, name}};
  } catch (const Error& e) {
    bad_field(name, e.message(), "invalid_image");
  }
}

// What a part input_audio or audio_url says of its sound: base64, or a URL.
const std::string& sound_source(const Fields& part, const std::string& name, const std::string& type) {
  const Json* audio = part.find(type);
  if (!audio) bad_field(part.path(type), "is missing", "missing_required_parameter");
  if (type == "audio_url" && audio->is_string()) return audio->get_ref<const std::string&>();
  const Fields inner(*part.object(type), part.path(type) + ".");
  const char* const field = type == "audio_url" ? "url" : "data";
  const std::string* const source = inner.string(field);
  if (!source) bad_field(inner.path(field), "is missing", "missing_required_parameter");
  try {
    if (const std::string* format = type == "input_audio" ? inner.string("format") : nullptr)
      text::check_sound_format(*format);
  } catch (const Error& e) {
    bad_field(name, e.message(), "invalid_audio");
  }
  return *source;
}

// The sound in a part input_audio or audio_url. One that is not fetched yet has no bytes.
ChatPicture sound_of(const Fields& part, const std::string& name, const std::string& type, PictureUrls* urls) {
  const std::string& source = sound_source(part, name, type);
  if (is_elsewhere(source) && !urls)
    unsupported(name,
                "this server fetches no sounds from other servers (--image-urls lets it): send its file in base64 as "
                "input_audio.data");
  try {
    const auto bytes = is_elsewhere(source)  ? urls->find(client::Fetched::kSound, source)
                       : type == "audio_url" ? std::make_shared<const std::string>(text::read_sound_url(source))
                                             : std::make_shared<const std::string>(text::read_base64_file(source));
    if (!bytes) return {{{}, nullptr, name}};
    return {{text::sound_mark(*bytes), bytes, name}};
  } catch (const Error& e) {
    bad_field(name, e.message(), "invalid_audio");
  }
}

// A content of parts becomes their text, with marks in place of pictures and sounds.
std::string joined_parts(const Json& parts, const std::string& field, PictureParts how,
                         std::vector<ChatPicture>& pictures) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const Fields part(parts[i], name + ".");
    const std::string* type = part.string("type");
    if (!type) bad_field(name + ".type", "is missing", "missing_required_parameter");
    if (*type == "image_url") {
      if (!how.read)
        unsupported(name, "is a picture, and this model has no encoder of pictures, which --mmproj FILE gives it");
      text += pictures.emplace_back(picture_of(part, name, how.urls)).mark;
      continue;
    }
    if (*type == "input_audio" || *type == "audio_url") {
      if (!how.read)
        unsupported(name, "is a sound, and this model has no encoder of sounds, which --mmproj FILE may give it");
      text += pictures.emplace_back(sound_of(part, name, *type, how.urls)).mark;
      continue;
    }
    if (*type != "text")
      unsupported(name + ".type",
                  fmt::format("'{}', expected 'text', 'image_url', 'input_audio' or 'audio_url'", *type));
    const std::string* part_text = part.string("text");
    if (!part_text) bad_field(name + ".text", "is missing", "missing_required_parameter");
    Json own = *part_text;
    text::drop_marks(own);
    text += own.get_ref<const std::string&>();
  }
  return text;
}

void check_calls(const Json& calls, const std::string& field) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", field, i);
    const Fields call(calls[i], name + ".");
    const Json* function = call.object("function");
    if (!function) bad_field(name + ".function", "is missing", "missing_required_parameter");
    const Fields body(*function, name + ".function.");
    if (!body.string("name")) bad_field(body.path("name"), "is missing", "missing_required_parameter");
    const Json* arguments = body.find("arguments");
    if (arguments && !arguments->is_string() && !arguments->is_object())
      bad_field(body.path("arguments"), "expected JSON text, found " + shown(*arguments), "invalid_type");
  }
}

// What the model thought, which clients send back under the name by which they know it.
void read_reasoning(const Fields& fields, Json& message) {
  constexpr const char* kNames[] = {"reasoning_content", "reasoning", "thinking"};
  for (const char* name : kNames) message.erase(name);
  for (const char* name : kNames)
    if (const Json* value = fields.find(name); value && value->is_string()) {
      message["reasoning_content"] = *value;
      return;
    }
}

Json one_message(const Json& message, const std::string& field, PictureParts how, std::vector<ChatPicture>& pictures) {
  const Fields fields(message, field + ".");
  const std::string* role = fields.string("role");
  if (!role || role->empty()) bad_field(fields.path("role"), "is missing", "missing_required_parameter");
  Json out = Json::object();
  for (const auto& [name, value] : message.items())
    out[name] = name == "content" && value.is_array() ? Json() : value;  // pictures are large
  text::drop_marks(out);
  // The newer name of the same thing; templates know only the older one.
  if (*role == "developer") out["role"] = "system";
  read_reasoning(fields, out);
  const Json* calls = fields.array("tool_calls");
  if (calls) check_calls(*calls, fields.path("tool_calls"));
  const Json* content = fields.find("content");
  if (!content) {
    if (*role != "assistant") bad_field(fields.path("content"), "is missing", "missing_required_parameter");
    out["content"] = calls && !calls->empty() ? Json(nullptr) : Json("");
  } else if (content->is_array()) {
    out["content"] = joined_parts(*content, fields.path("content"), how, pictures);
  } else if (!content->is_string()) {
    bad_field(fields.path("content"), "expected a string or an array of parts, found " + shown(*content),
              "invalid_type");
  }
  return out;
}

void check_tools(const Json& tools) {
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string name = fmt::format("tools[{}]", i);
    const Fields tool(tools[i], name + ".");
    const std::string* type = tool.string("type");
    if (type && *type != "function") unsupported(name + ".type", fmt::format("'{}', expected 'function'", *type));
    const Json* function = tool.object("function");
    if (!function) bad_field(name + ".function", "is missing", "missing_required_parameter");
    const Fields named(*function, name + ".function.");
    if (!named.string("name")) bad_field(name + ".function.name", "is missing", "missing_required_parameter");
    named.boolean("strict");  // refuses other types
  }
}

// {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required", "tools": [...]}}: the model sees
// all tools, so that prompts stay equal, and may call those.
void read_allowed(const Fields& choice, const Json& tools, ChatInput& chat) {
  const Json* inner = choice.object("allowed_tools");
  if (!inner) bad_field("tool_choice.allowed_tools", "is missing", "missing_required_parameter");
  const Fields allowed(*inner, "tool_choice.allowed_tools.");
  const std::string* mode = allowed.string("mode");
  if (!mode || (*mode != "auto" && *mode != "required"))
    bad_field("tool_choice.allowed_tools.mode", "expected 'auto' or 'required'", "invalid_value");
  const Json* names = allowed.array("tools");
  if (!names || names->empty())
    bad_field("tool_choice.allowed_tools.tools", "expected at least one tool", "missing_required_parameter");
  chat.callable = Json::array();
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string field = fmt::format("tool_choice.allowed_tools.tools[{}]", i);
    const Fields tool((*names)[i], field + ".");
    const Json* function = tool.object("function");
    const std::string* name = function ? Fields(*function, field + ".function.").string("name") : tool.string("name");
    if (!name) bad_field(field + ".function.name", "is missing", "missing_required_parameter");
    const auto it =
        std::find_if(tools.begin(), tools.end(), [&](const Json& t) { return t["function"]["name"] == *name; });
    if (it == tools.end())
      bad_field(field + ".function.name", fmt::format("'{}' is none of the tools", *name), "invalid_value");
    chat.callable->push_back(*it);
  }
  if (*mode == "required") chat.must_call.emplace();
}

// Which of the tools the model may call, and whether it has to call one.
void read_choice(const Fields& fields, const Json& tools, bool one_call, ChatInput& chat) {
  const Json* choice = fields.find("tool_choice");
  chat.tools = tools;
  chat.one_call = one_call;
  if (choice && *choice == "none") chat.callable = Json::array();
  if (chat.callable) return;
  if (!choice || *choice == "auto") return;
  if (choice->is_object() && choice->contains("type") && (*choice)["type"] == "allowed_tools")
    return read_allowed(Fields(*choice, "tool_choice."), tools, chat);
  chat.must_call.emplace();
  if (*choice == "required") return;
  if (!choice->is_object())
    bad_field("tool_choice",
              "expected 'none', 'auto', 'required' or an object that names a function, found " + shown(*choice),
              "invalid_value");
  const Fields named(*choice, "tool_choice.");
  if (const std::string* type = named.string("type"); type && *type != "function")
    unsupported("tool_choice.type", fmt::format("'{}', expected 'function'", *type));
  const Json* function = named.object("function");
  if (!function) bad_field("tool_choice.function", "is missing", "missing_required_parameter");
  const std::string* name = Fields(*function, "tool_choice.function.").string("name");
  if (!name) bad_field("tool_choice.function.name", "is missing", "missing_required_parameter");
  const auto has_it = [&](const Json& tool) { return tool["function"]["name"] == *name; };
  if (std::none_of(tools.begin(), tools.end(), has_it))
    bad_field("tool_choice.function.name", fmt::format("'{}' is none of the tools", *name), "invalid_value");
  *chat.must_call = *name;
  chat.one_call = true;  // as the API has it
}

}  // namespace

ChatInput parse_messages(const Json& body, bool reads_pictures, PictureUrls* urls) {
  const Fields fields(body);
  const Json* messages = fields.array("messages");
  if (!messages) bad_field("messages", "is missing", "missing_required_parameter");
  if (messages->empty()) bad_field("messages", "is empty, expected at least one message", "invalid_value");
  ChatInput chat;
  for (std::size_t i = 0; i < messages->size(); ++i)
    chat.messages.push_back(
        one_message((*messages)[i], fmt::format("messages[{}]", i), {reads_pictures, urls}, chat.pictures));
  if (urls) urls->check();
  const bool one_call = !fields.boolean("parallel_tool_calls").value_or(true);  // of a wrong type: refused anyway
  if (const Json* tools = fields.array("tools"); tools && !tools->empty()) {
    check_tools(*tools);
    read_choice(fields, *tools, one_call, chat);
  } else if (const Json* choice = fields.find("tool_choice"); choice && *choice != "none" && *choice != "auto") {
    bad_field("tool_choice", "needs 'tools'", "invalid_value");
  }
  for (const char* old : {"functions", "function_call"})
    if (fields.find(old)) unsupported(old, "is not supported, use 'tools'");
  if (const std::string* name = fields.string("chat_template")) chat.template_name = *name;
  if (const Json* extra = fields.object("chat_template_kwargs")) chat.extra = *extra;
  if (const std::string* effort = fields.string("reasoning_effort"))
    ask_effort(chat.extra, *effort, "reasoning_effort");
  chat.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  text::drop_marks(chat.tools);
  text::drop_marks(chat.extra);
  return chat;
}

}  // namespace kvasir::serve
