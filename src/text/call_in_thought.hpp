// Calls within reasoning. They are none, but where the model ends its answer behind one and never ended the reasoning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/tool_form.hpp"

namespace kvasir::text {

class CallInThought {
 public:
  // `form` null: no calls. `tools` outlives this.
  CallInThought(const Entry<ToolForm>* form, const Json* tools);

  // The next part of the reasoning; `over`: it has ended. What of it may be given out: not yet what stands behind a
  // mark that begins a call.
  std::string push(std::string_view reasoning, bool over);
  // At the end of the text: the calls with which it ends, of `tools` and whole. They are no longer part of the
  // reasoning.
  std::vector<ToolCall> calls();
  std::string take();  // what was held back

 private:
  const Entry<ToolForm>* form_;
  const Json* tools_;
  std::vector<std::string_view> opens_;
  std::string held_;
  bool found_ = false;  // held_ begins with a mark, or with blanks in front of one
};

}  // namespace kvasir::text
