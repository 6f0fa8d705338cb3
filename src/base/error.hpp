// Errors that input, files, network or memory can cause. Programming errors use check.hpp.
#pragma once

#include <stdexcept>
#include <string>

namespace kvasir {

enum class Code {
  kBadInput,     // the caller's text, file, option or request is wrong; the message names it
  kIo,           // the operating system refused a file or a socket
  kMemory,       // a budget or the machine's memory does not allow it
  kUnsupported,  // well formed, but this build or machine cannot do it
  kCancelled,    // somebody asked to stop
  kBusy,         // a queue or a budget is full; the same request may succeed later
};

// Thrown at load and at admission; never from the hot path. `message` says what was found and what was
// expected; `context` names where (file, field, tensor, option). what() is "context: message".
class Error : public std::runtime_error {
 public:
  Error(Code code, std::string message, std::string context = {})
      : std::runtime_error(context.empty() ? message : context + ": " + message),
        code_(code),
        message_(std::move(message)),
        context_(std::move(context)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& context() const { return context_; }

 private:
  Code code_;
  std::string message_;
  std::string context_;
};

}  // namespace kvasir
