#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/tool_json.hpp"

namespace kvasir::text {

// The call that is being read, as far as it was given out.
class OpenCall {
 public:
  explicit OpenCall(const Json* tools) : tools_(tools) {}

  void begin(std::string name, ToolOutput& out) {
    name_ = name;
    arguments_.emplace(tools_, name);
    out.calls.push_back({std::move(name), {}});
    open_ = true;
  }
  void end(ToolOutput& out) {
    if (std::exchange(open_, false)) arguments_->finish(out.calls.back().arguments);
  }
  void leave() { open_ = false; }  // another parser writes its arguments

  const std::string& name() const { return name_; }
  bool has_parameter(const std::string& key) const {
    const auto* const parameters = parameters_of(tools_, name_);
    return parameters && parameters->contains(key);
  }

  void begin_value(std::string key, std::optional<bool> text) {
    key_ = std::move(key);
    is_text_ = text.value_or(arguments_->is_text(key_)) && !is_again();
    wrote_ = false;
  }
  bool is_again() const { return arguments_->has(key_); }  // it has such a parameter already
  bool is_text() const { return is_text_; }
  bool wrote() const { return wrote_; }  // a part of the value
  void text(std::string_view part, ToolOutput& out) { arguments_->text(part, begin_argument(out)); }
  void end_value(std::string_view rest, ToolOutput& out) {
    std::string& to = begin_argument(out);
    is_text_ ? arguments_->text(rest, to) : arguments_->value(rest, to);
    arguments_->end(to);
  }

 private:
  std::string& begin_argument(ToolOutput& out) {
    std::string& to = out.calls.back().arguments;
    if (!std::exchange(wrote_, true)) arguments_->begin(key_, to);
    return to;
  }

  const Json* tools_;
  std::optional<ArgumentsWriter> arguments_;
  std::string name_, key_;
  bool open_ = false, is_text_ = false, wrote_ = false;
};

}  // namespace kvasir::text
