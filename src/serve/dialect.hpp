// Contract of an entry in serve/dialects: an API in which clients ask for answers. It reads a body into the one request
// that this server knows, and writes what was generated in the words of that API. Everything between is the same for
// all of them: rendering, reuse, scheduling, limits (serve/generation.cpp).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/registry.hpp"
#include "serve/request.hpp"
#include "serve/shape.hpp"

namespace kvasir::serve {

struct Context;  // serve/context.hpp

struct AnswerInfo {
  Context& context;
  const ApiRequest& request;  // outlives the writer
  std::string tenant;
  std::int64_t prompt_tokens = 0;  // of the first prompt
};

// The answers to one request, whole or streamed. What the functions of a stream return are bytes for the client; "" is
// nothing to say. Called on one thread.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  virtual Json whole(std::span<const Choice> choices) = 0;

  virtual std::string_view content_type() const { return "text/event-stream; charset=utf-8"; }
  virtual std::string begin(int index) = 0;  // once for every answer, before its deltas
  // Whether begin() says what of the prompt was known already: then it waits for prompt_begun().
  virtual bool begins_with_prompt() const { return false; }
  virtual void prompt_begun(const Progress& /*progress*/) {}
  // While the prompt is computed, behind begin(): for streams that asked for it, and about once a second for all.
  virtual std::string progress(int /*index*/, const Progress& /*progress*/) { return {}; }
  virtual std::string delta(int index, const ChatDelta& text, Json logprobs) = 0;
  // The answer's end; `all_done`: of all answers of the request.
  virtual std::string end(int index, std::span<const Choice> choices, bool all_done) = 0;
  virtual std::string finish(std::span<const Choice> choices) = 0;
  virtual std::string error(const ApiError& error) = 0;  // the last thing of a stream that had begun
  // For a stream that has been silent for a while, perhaps before begin().
  virtual std::string keep_alive() { return ": keep-alive\n\n"; }
};

struct Dialect {
  std::string_view path;  // of POST requests
  // Throws ApiException that names the field.
  ApiRequest (*parse)(const Json& body, const RequestLimits& limits);
  std::unique_ptr<AnswerWriter> (*writer)(const AnswerInfo& info);
  ErrorShape error = nullptr;  // of the path's errors
};

std::span<const Entry<Dialect>> dialects();

// The dialect that is spoken at `path`; null: none.
const Dialect* find_dialect(std::string_view path);

// One event of a stream: "event: NAME" unless the name is empty, and the data.
std::string sse(std::string_view name, const Json& data);

}  // namespace kvasir::serve
