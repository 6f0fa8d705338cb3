// How answers look: the OpenAI API's objects for chats and completions, whole and in chunks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "run/service.hpp"
#include "serve/chat.hpp"
#include "serve/http.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

// One answer as far as it is known.
struct Choice {
  ChatDelta text;  // completions use only .content
  Json logprobs;   // null when there are none
  std::string finish;
  run::Outcome outcome;
  std::int64_t remembered_tokens = 0;  // of the prompt: see serve/turns.hpp
  Json miss_at;                        // locate_token's; null: not known
  bool pinned = false;                 // asked for and done
  std::int64_t reasoning_tokens = 0;   // of the answer: up to the mark that ends its thinking
  text::Warnings warnings;             // of its calls and its reasoning
};

// How far a prompt is computed.
struct Progress {
  std::int64_t total = 0, reused = 0, done = 0;  // tokens; `done` with the reused ones
  double seconds = 0;                            // since the request left the queue
  run::Listener::RowProgress rows;               // all is 0: the prompt waits for none
};
// llama.cpp's form, and `remaining_ms`, an estimate by the speed so far.
Json progress_json(const Progress& progress);

// Log-probabilities of a run of tokens, in the shape of the kind of request.
class LogprobWriter {
 public:
  LogprobWriter(Kind kind, const text::Tokenizer* tokenizer) : kind_(kind), tokenizer_(tokenizer) {}
  void add(const run::TokenRecord& token) { add(token, true); }
  // Of a completion's prompt. `in_text`: the echo shows the token. A log-probability that is no number becomes null.
  void add_prompt(const run::TokenRecord& token, bool in_text) { add(token, in_text); }
  Json take();  // of the tokens added since the last call; null when there were none

 private:
  void add(const run::TokenRecord& token, bool in_text);
  std::string piece(std::int32_t id) const;
  Json chat_item(std::int32_t id, float logprob) const;

  Kind kind_;
  const text::Tokenizer* tokenizer_;
  Json json_;
  std::int64_t offset_ = 0;  // characters of the text before the next token
};

class Shape {
 public:
  struct Info {
    Kind kind = Kind::kChat;
    bool include_usage = false;
    std::string id, model, fingerprint;
    std::int64_t created = 0;
  };
  explicit Shape(Info info) : info_(std::move(info)) {}

  // Chunks of a stream.
  Json first(int index) const;  // chat: the role; null for completions, which have no such chunk
  Json delta(int index, const ChatDelta& text, Json logprobs) const;
  Json last(int index, std::string_view finish) const;
  Json progress(int index, const Progress& progress) const;
  Json usage_chunk() const;  // no choices; the caller adds usage

  Json whole(std::span<const Choice> choices) const;

 private:
  Json head(const char* object) const;
  Json chunk(Json choice) const;

  Info info_;
};

// `per_prompt` answers follow each other for every prompt: a prompt is counted once.
Json usage_json(std::span<const Choice> choices, int per_prompt);

// Receipts. Of several answers the first one's fields stand on top and all of them in "choices".
Json kvasir_json(std::span<const Choice> choices, const ApiRequest& request);

std::string_view finish_reason(run::Finish finish);  // "stop", "length"

}  // namespace kvasir::serve
