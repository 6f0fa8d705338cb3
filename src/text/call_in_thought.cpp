#include "text/call_in_thought.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/call_check.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {

CallInThought::CallInThought(const Entry<ToolForm>* form, const Json* tools) : form_(form), tools_(tools) {
  if (!form || form->value->always) return;  // forms with reasoning of their own know what is a call
  const ToolForm& f = *form->value;
  opens_.assign(f.opens.begin(), f.opens.end());
  if (opens_.empty() && !f.marks.empty()) opens_.push_back(f.marks.front());
  std::erase_if(opens_, [](std::string_view mark) { return mark[0] != '<' && mark[0] != '['; });
}

std::string CallInThought::push(std::string_view reasoning, bool over) {
  if (opens_.empty()) return std::string(reasoning);
  held_ += reasoning;
  if (over) return take();
  if (found_) return {};
  std::size_t keep = held_.size();
  for (const std::string_view mark : opens_) {
    const std::size_t at = held_.find(mark);
    found_ = found_ || at != held_.npos;
    keep = std::min(keep, at != held_.npos ? at : held_.size() - partial_tag(held_, mark));
  }
  const std::size_t last = std::string_view(held_).substr(0, keep).find_last_not_of(" \t\r\n");
  const std::string told = held_.substr(0, last + 1);
  held_.erase(0, told.size());
  return told;
}

std::vector<ToolCall> CallInThought::calls() {
  if (!found_) return {};
  ToolOutput out;
  const auto parser = make_tool_parser(form_, tools_, false);
  parser->push(held_, out);
  parser->finish(out, false);
  if (out.content.find_first_not_of(" \t\r\n") != std::string::npos) return {};
  for (const ToolCall& call : out.calls)
    if (!is_offered(tools_, call.name) || !Json::parse(call.arguments, nullptr, false).is_object()) return {};
  if (!out.calls.empty()) held_.clear();
  return std::move(out.calls);
}

std::string CallInThought::take() {
  found_ = false;
  return std::exchange(held_, {});
}

}  // namespace kvasir::text
