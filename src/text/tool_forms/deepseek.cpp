// DeepSeek V3.1, and V3 and R1 before it:
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
//   <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
//   ```json
//   {"a": 1}
//   ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_deepseek {
namespace {

constexpr std::string_view kMarks[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
                                       "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"};

int match(std::string_view t) { return has(t, kMarks[1]) ? 3 : 0; }

// "f<sep>", or "function<sep>f\n```json\n".
std::string name_of(std::string_view head) {
  constexpr std::string_view kType = "function<｜tool▁sep｜>";
  head.remove_prefix(count_space(head));
  if (head.starts_with(kType)) head.remove_prefix(kType.size());
  head = head.substr(0, std::min({head.find(kMarks[2]), head.find('\n'), head.find('`')}));
  return std::string(head.substr(0, head.find_last_not_of(" \t\r") + 1));
}

std::unique_ptr<ToolParser> make(const Json* tools) {
  return make_style_parser({.open = {kMarks[0], kMarks[1]},
                            .close = {kMarks[3], kMarks[4], "```"},
                            .middle = "{",
                            .name = name_of,
                            .also = {kMarks[2]}},
                           tools);
}

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text(std::string(kMarks[1]) + p.name + std::string(kMarks[2])), p.arguments(),
                     g.text(std::string(kMarks[3]))});
}

std::string write(const std::string& name, const Json& arguments) {
  return std::string(kMarks[1]) + name + std::string(kMarks[2]) + arguments.dump() + std::string(kMarks[3]);
}

constexpr std::string_view kOpens[] = {kMarks[0], kMarks[1]};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = kMarks[0],
                     .end = kMarks[4],
                     .write = write,
                     .marks = kMarks,
                     .opens = kOpens};

}  // namespace kvasir::text::tool_forms_deepseek
