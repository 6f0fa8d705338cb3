// Conversations to prompts, by the chat template that comes with a model.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/response_template.hpp"
#include "text/special.hpp"
#include "text/template_traits.hpp"

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

  // What it does not show is said in words: tools behind the system message, calls in the assistant's text, results in
  // messages of the user.
  const TemplateTraits& traits() const { return template_.traits; }
  const Entry<ToolForm>* tool_form() const { return traits().tool_form; }
  const ReasoningMarks* reasoning() const { return traits().reasoning ? &*traits().reasoning : nullptr; }
  // What of `c` reaches the model in words alone, for people.
  std::vector<std::string> warnings(const Conversation& c) const;
  // Whether it is known where answers hold reasoning.
  bool shows_thinking() const { return traits().shows_thinking || !tool_form()->value->efforts.empty(); }
  // How answers are read by the model's response template (JSON), where that is not as the chat template lets expect.
  // One that cannot be used changes nothing but `warnings`.
  void use_response(std::string_view json);
  // Null: answers are read by the traits' tool_form and reasoning.
  const ResponseTemplate* response() const { return response_.get(); }
  // Marks of reasoning that the vocabulary has, where the template shows none.
  void learn_tokens(const std::function<bool(std::string_view)>& is_token);
  const std::string& source() const { return source_; }
  const std::string& bos() const { return template_.bos; }
  const std::string& eos() const { return template_.eos; }

 private:
  std::string source_;
  ProbedTemplate template_;
  std::shared_ptr<const ResponseTemplate> response_;
  std::string response_problem_;  // why the model's is not used
};

// The pictures of `c` in its prompt. Throws Error(kBadInput) where the template does not show them all.
void find_pictures(const Conversation& c, const TemplateTraits& t, Prompt& prompt);

// The template's text: the file `path` (--chat-template) if it is not empty, else what the model's file holds. Throws
// Error(kBadInput) that names the option when there is neither, Error(kIo) for the file.
std::string chat_template_text(const std::string& from_model, const std::string& path, const std::string& model);

}  // namespace kvasir::text
