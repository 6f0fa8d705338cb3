// A conversation with a model in this process: what `kvasir chat` keeps between its lines.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "run/pictures.hpp"
#include "run/service.hpp"
#include "serve/chat.hpp"
#include "serve/turn_memory.hpp"

namespace kvasir::cli {

struct ChatAnswer {
  std::string content, reasoning;
  run::Outcome outcome;
  std::int64_t remembered_tokens = 0;  // of the prompt: of answers as they were generated
  text::Warnings warnings;             // what a server's answer would have
};

// Called while an answer is made: the first three on the service's thread, `cancelled` on the caller's.
struct ChatEvents {
  std::function<void(std::string_view)> content, reasoning;
  std::function<void(std::int64_t, std::int64_t)> prefill;
  std::function<bool()> cancelled;
};

class ChatSession {
 public:
  // What references and pointers name must outlive this. `settings`: everything but the prompt. `variables`: of the
  // template. `pictures`: null where the model reads none.
  ChatSession(run::Service& service, const serve::ChatFormat& format, run::Request settings, Json variables,
              run::Pictures* pictures = nullptr);

  void set_system(const std::string& text);  // "": none
  // Says `text` and returns the answer, which is part of the conversation from then on. An answer that was cancelled
  // before its first text is not, nor is what was said. Throws Error, and then nothing was said either.
  // `images`, `sounds`: the bytes of files, which stand in front of the text, pictures first.
  ChatAnswer ask(const std::string& text, const ChatEvents& events, const std::vector<std::string>& images = {},
                 const std::vector<std::string>& sounds = {});
  // Another answer to what was said last. Throws Error(kBadInput) when nothing was.
  ChatAnswer retry(const ChatEvents& events);
  bool undo();  // forgets what was said last, and its answer; false: there is nothing

  // {"messages": [...]}, as a body of /v1/chat/completions has them.
  Json to_json() const { return {{"messages", messages_}}; }
  // Takes the messages of such an object. Throws Error(kBadInput) or serve::ApiException naming the field.
  void load(const Json& json);

  const Json& messages() const { return messages_; }

 private:
  ChatAnswer answer(const ChatEvents& events);
  ChatAnswer answer_or(const Json& before, const ChatEvents& events);

  run::Service& service_;
  const serve::ChatFormat& format_;
  const run::Request settings_;
  const Json variables_;
  run::Pictures* const pictures_;
  serve::TurnMemory memory_;
  Json messages_ = Json::array();
  std::int64_t retries_ = 0;
};

}  // namespace kvasir::cli
