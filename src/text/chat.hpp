// Conversations to prompts, by the chat template that comes with a model.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "text/jinja/jinja.hpp"
#include "text/reasoning.hpp"
#include "text/response_template.hpp"
#include "text/special.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

struct Conversation;  // text/conversation.hpp

// A prompt, and where the conversation's own text spells the name of a control token: those bytes are to be read as
// text (EncodeOptions::plain), or whoever writes a message could end it and go on in another role.
struct Prompt {
  std::string text;
  std::vector<std::size_t> plain;  // ascending
  // Where the contents of the messages begin that are shown as they are: other conversations part from this one there.
  std::vector<std::size_t> contents = {};
  // Where pictures stand, ascending: in the place of bytes [begin, end), which are the mark (text/pictures.hpp) and
  // what the template itself wrote for a picture, behind `lead`, which is text that stays.
  struct Picture {
    std::size_t begin, end;
    std::string mark, lead;
  };
  std::vector<Picture> pictures = {};
};

// A byte of a prompt, in terms of the conversation.
struct Place {
  int message = -1;        // as message_at says
  int messages = 0;        // how many there are
  std::string role;        // of that message; empty outside of all
  std::int64_t byte = -1;  // of its content; -1: in its header, or in something that the template made of it
};
std::string describe(const Place& place);  // "byte 17 of messages[3].content (user)"

// Immutable; any number of threads may share one.
class ChatTemplate {
 public:
  // `bos` and `eos`: the texts of those tokens, empty where the vocabulary has none. Throws Error(kBadInput) that names
  // the template's line.
  ChatTemplate(std::string_view source, std::string bos, std::string eos, jinja::RenderOptions options = {});

  // The prompt. Messages are brought into the form that this template reads: content null or absent becomes "", content
  // in parts becomes text (or the other way round), arguments of tool calls become objects or JSON text; the template
  // gets them otherwise as they are. Throws Error(kBadInput) that names the message and field, or the template's line
  // with what the template itself says.
  //
  // Special tokens stand in it as text, so it is encoded with parse_special; and without BOS if it begins with bos().
  std::string render(const Conversation& c) const;

  // The same, with the places where what the conversation says is not the template's own marking, and the places of
  // pictures. Where the template writes something for pictures it gets them as parts. `names`: those of the
  // control tokens (Tokenizer::control_names). Everything that a message or tool holds counts as text, but a role may
  // be part of a name. Costs a second render where a name occurs. Throws Error(kBadInput) when the template itself
  // reads a text that holds a name, so that nobody can tell whose it is, and for pictures that the template does not
  // show.
  Prompt prompt(const Conversation& c, const SpecialMatcher& names) const;

  // The message that byte `at` of the prompt belongs to, its header included: -1 in front of the first message (what
  // the template itself says, tools), the number of messages behind the last one (the generation prompt). Where the
  // prompts of two turns differ first, this tells which message changed. Costs some ten renders; templates that reorder
  // messages get an answer of the neighbourhood.
  int message_at(const Conversation& c, std::size_t at) const;
  // With the byte of its content, where the template shows that as it is.
  Place place_at(const Conversation& c, std::size_t at) const;

  // How the model writes tool calls: as the template does, or in the generic form.
  const Entry<ToolForm>* tool_form() const { return tool_form_; }
  // Whether the template has a place for tools, and shows calls and results as they are. What it does not show is said
  // in words: tools behind the system message, calls in the assistant's text, results in messages of the user.
  bool shows_tools() const { return !tools_name_.empty(); }
  bool shows_calls() const { return shows_calls_; }
  bool shows_results() const { return shows_results_; }
  // What of `c` reaches the model in words alone, for people.
  std::vector<std::string> warnings(const Conversation& c) const;
  // Between which marks the model thinks; null: not known.
  const ReasoningMarks* reasoning() const { return reasoning_ ? &*reasoning_ : nullptr; }
  // Whether it is known where answers hold reasoning.
  bool shows_thinking() const { return shows_thinking_ || !tool_form_->value->efforts.empty(); }
  // How answers are read by the model's response template (JSON), where that is not as the chat template lets expect.
  // One that cannot be used changes nothing but `warnings`.
  void use_response(std::string_view json);
  // Null: answers are read by tool_form() and reasoning().
  const ResponseTemplate* response() const { return response_.get(); }
  // Marks of reasoning that the vocabulary has, where the template shows none.
  void learn_tokens(const std::function<bool(std::string_view)>& is_token);
  const std::string& source() const { return source_; }
  // The ids of calls that it takes: nine letters or digits, as Mistral's, functions.NAME:0 as Kimi's, or any. Others
  // are brought into that form.
  enum class Ids { kAny, kShort, kNumbered };
  static constexpr std::size_t kShortId = 9;
  Ids ids() const { return ids_; }
  const std::string& bos() const { return bos_; }
  const std::string& eos() const { return eos_; }

 private:
  enum class Content { kText, kParts, kEither };

  // Messages as this template takes them, and which of the conversation's each one is (-1: none of them).
  struct Adapted {
    Json messages = Json::array();
    std::vector<int> origin;
  };
  Adapted adapt(const Conversation& c) const;
  void check_role(const std::string& role, const std::string& where) const;
  void adapt_message(const Json& messages, std::size_t& i, Adapted& out) const;
  void split_calls(const Json& messages, std::size_t& i, Adapted& out) const;
  void add_front(std::string text, Adapted& out) const;
  int original(const Adapted& adapted, int message, const Conversation& c) const;
  void adapt_content(Json& message, const std::string& where) const;
  void adapt_calls(Json& message, const std::string& where) const;
  void adapt_arguments(Json& arguments, const std::string& at) const;
  void adapt_ids(Json& messages) const;
  void adapt_reasoning(Json& message) const;
  void alternate(Adapted& out) const;
  Json filled_tools(const Json& tools) const;
  void blame(const Conversation& c, const Error& e) const;
  struct Located {
    int message;
    std::size_t begin;  // of the message's content; of nothing outside of contents
  };
  Located locate(const Conversation& c, const Json& messages, const std::string& full, std::size_t at) const;
  std::string render_messages(const Json& messages, const Conversation& c) const;
  std::string render_adapted(const Json& messages, const Conversation& c, bool generation_prompt) const;
  std::string effort(const Conversation& c) const;
  std::string probe(const Json& messages, bool tools, std::string* why = nullptr) const;
  std::string probe_with(const Json& messages, const Json& tools, std::string* why = nullptr) const;
  void probe_content();
  void probe_pictures();
  Json picture_parts(std::string_view content) const;
  void find_plain(const Json& messages, const Conversation& c, const SpecialMatcher& names, Prompt& prompt) const;
  void find_pictures(const Conversation& c, Prompt& prompt) const;
  void probe_arguments();
  void probe_tools();
  void probe_history();
  void probe_schemas();
  void probe_reasoning();

  jinja::Template template_;
  jinja::RenderOptions options_;
  std::string source_, bos_, eos_;
  const Entry<ToolForm>* tool_form_;
  std::optional<ReasoningMarks> reasoning_;
  bool shows_thinking_ = false;  // the template does
  bool knows_form_ = true;       // it shows how calls are written
  std::shared_ptr<const ResponseTemplate> response_;
  std::string response_problem_;  // why the model's is not used
  // How this template wants them, found by rendering small conversations.
  Content content_ = Content::kText;
  std::string picture_type_, picture_text_;  // of a part that is a picture; what it writes for it, without blanks
  bool arguments_as_objects_ = true;
  std::string tools_name_ = "tools";  // the variable that it shows tools of; empty: none
  bool shows_calls_ = true, shows_results_ = true, shows_several_ = true, shows_system_ = true;
  bool takes_system_ = true;   // and does not refuse it
  std::string calls_refused_;  // why it shows no calls: what it says to the probe
  Ids ids_ = Ids::kAny;
  std::string reasoning_name_ = "reasoning_content";  // the field of messages in which it reads reasoning
  bool content_or_thinking_ = false;                  // it refuses both in a message with calls
  bool shows_broken_ = false;                         // arguments that are no JSON, as they are
  bool alternates_ = false;                           // it refuses two messages of one role in a row
  // What of a tool it cannot do without.
  struct Needs {
    bool description = false, parameters = false, type = false, properties = false, required = false,
         property_type = false, property_description = false;
  } needs_;
};

// The template's text: the file `path` (--chat-template) if it is not empty, else what the model's file holds. Throws
// Error(kBadInput) that names the option when there is neither, Error(kIo) for the file.
std::string chat_template_text(const std::string& from_model, const std::string& path, const std::string& model);

}  // namespace kvasir::text
