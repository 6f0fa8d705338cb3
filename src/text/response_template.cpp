#include "text/response_template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kReasoningFields[] = {"reasoning_content", "reasoning", "thinking", "thought", "thoughts"};
constexpr std::string_view kContents[] = {"text", "int",        "float",    "bool",
                                          "json", "xml-inline", "kv-lines", "python-call-list"};

[[noreturn]] void bad_template(const std::string& where, const std::string& what) {
  throw Error(Code::kBadInput, what, where.empty() ? "response_template" : "response_template." + where);
}

void check_keys(const Json& json, const std::string& where, std::initializer_list<std::string_view> known) {
  if (!json.is_object()) bad_template(where, "expected an object");
  for (const auto& [key, value] : json.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      bad_template(where, fmt::format("'{}' is not known", key));
}

// Names in <> and [] of an expression without its escapes.
void add_marks(std::string expression, std::vector<std::string>& marks) {
  std::erase(expression, '\\');
  const std::string_view text = expression;
  for (std::size_t at = text.find_first_of("<["); at != text.npos; at = text.find_first_of("<[", at + 1)) {
    const std::size_t end = text.find(text[at] == '<' ? '>' : ']', at);
    if (end == text.npos) continue;
    std::string name(text.substr(at, end + 1 - at));
    if (std::find(marks.begin(), marks.end(), name) == marks.end()) marks.push_back(std::move(name));
  }
}

const Json& sample_tools() {
  static const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "look_up", "parameters": {
    "type": "object", "properties": {"note": {"type": "string"}, "day": {"type": "integer"}}}}}])");
  return tools;
}

}  // namespace

std::shared_ptr<const ResponseTemplate> ResponseTemplate::parse(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  check_keys(json, "", {"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"});
  if (json.value("version", Json(1)) != Json(1)) bad_template("version", "only version 1 is known");
  auto out = std::make_shared<ResponseTemplate>();
  out->start_ = out->anchor(json, "", "start_anchor", "start_anchor_pattern");
  const auto fields = json.find("fields");
  if (fields == json.end() || !fields->is_object() || fields->empty()) bad_template("fields", "expected fields");
  for (const auto& [name, field] : fields->items()) out->add_field(name, field);
  const auto implicit = [](const ResponseField& f) { return !f.open; };
  if (std::count_if(out->fields_.begin(), out->fields_.end(), implicit) > 1)
    bad_template("fields", "more than one has no 'open'");
  return out;
}

std::optional<SearchPattern> ResponseTemplate::anchor(const Json& json, const std::string& where, const char* texts,
                                                      const char* pattern) {
  const auto one = json.find(texts), other = json.find(pattern);
  if (one != json.end() && other != json.end()) bad_template(where, fmt::format("has both {} and {}", texts, pattern));
  if (other != json.end()) {
    if (!other->is_string()) bad_template(where, fmt::format("{}: expected a string", pattern));
    add_marks(other->get<std::string>(), marks_);
    return SearchPattern(other->get<std::string>());
  }
  if (one == json.end()) return {};
  std::vector<std::string> all;
  for (const Json& text : one->is_array() ? *one : Json::array({*one})) {
    if (!text.is_string() || text.get<std::string>().empty())
      bad_template(where, fmt::format("{}: expected texts", texts));
    all.push_back(text.get<std::string>());
    add_marks(all.back(), marks_);
  }
  if (all.empty()) bad_template(where, fmt::format("{}: expected texts", texts));
  return SearchPattern::of_texts(std::move(all));
}

void ResponseTemplate::add_field(const std::string& name, const Json& json) {
  const std::string where = "fields." + name;
  check_keys(json, where,
             {"open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join",
              "optional", "transform", "transform_each"});
  ResponseField f;
  f.name = name;
  if (name == "tool_calls") f.role = ResponseField::Role::kCalls;
  if (std::find(std::begin(kReasoningFields), std::end(kReasoningFields), name) != std::end(kReasoningFields))
    f.role = ResponseField::Role::kReasoning;
  f.open = anchor(json, where, "open", "open_pattern");
  f.close = anchor(json, where, "close", "close_pattern");
  if (const auto at = json.find("content"); at != json.end()) f.content = at->is_string() ? at->get<std::string>() : "";
  if (std::find(std::begin(kContents), std::end(kContents), f.content) == std::end(kContents))
    bad_template(where, fmt::format("content '{}', expected one of {}", f.content, fmt::join(kContents, ", ")));
  if (const auto at = json.find("join"); at != json.end() && at->is_string()) f.join = at->get<std::string>();
  f.transform = json.value("transform", Json());
  f.each = json.value("transform_each", Json()) == Json(true);
  const Json args = json.value("content_args", Json::object());
  if (!args.is_object()) bad_template(where, "content_args: expected an object");
  const auto text = [&](const char* key, std::string& to) {
    if (const auto at = args.find(key); at != args.end() && at->is_string() && !at->get<std::string>().empty())
      to = at->get<std::string>();
  };
  text("line_sep", f.line_sep);
  text("kv_sep", f.kv_sep);
  f.strip = args.value("strip", Json(true)) != Json(false);
  if (const auto at = args.find("value_parser"); at != args.end() && at->is_object())
    f.json_values = at->value("name", "text") != "text";
  std::string tag;
  text("tag_pattern", tag);
  if (f.content == "xml-inline") {
    if (tag.empty()) bad_template(where, "content_args: 'tag_pattern' is missing");
    f.tag = SearchPattern(tag);
    add_marks(tag, marks_);
  }
  if (const auto at = args.find("string_delims"); at != args.end() && at->is_array() && !at->empty()) {
    const Json& pair = at->front();
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      bad_template(where, "string_delims: expected pairs of texts");
    if (at->size() > 1 || pair[0] != pair[1])
      throw Error(Code::kUnsupported, "string_delims: strings between two marks that differ are not supported",
                  "response_template." + where);
    f.quote = pair[0].get<std::string>();
    add_marks(f.quote, marks_);
  }
  fields_.push_back(std::move(f));
}

const ResponseField* ResponseTemplate::find(ResponseField::Role role) const {
  const ResponseField* found = nullptr;
  for (const ResponseField& f : fields_)
    if (f.role == role && (!found || f.name == "content")) found = &f;
  return found;
}

std::string_view ResponseTemplate::begun(std::string_view prompt) const {
  std::size_t last = prompt.npos;
  for (std::size_t from = 0; start_;) {
    const auto found = start_->search(prompt, from, true);
    if (!found.match || found.match->size == 0) break;
    from = last = found.match->at + found.match->size;
  }
  return last == prompt.npos ? std::string_view() : prompt.substr(last);
}

ToolOutput ResponseTemplate::read(std::string_view text, const Json* tools) const {
  ToolOutput out;
  const auto all = parser("", tools);
  all->push(text, out);
  all->finish(out, false);
  return out;
}

// What a form writes is read as what it was.
const Entry<ToolForm>* ResponseTemplate::same_form(const Entry<ToolForm>* likely) const {
  const ToolCall calls[] = {{"look_up", R"({"note":"a b","day":3})"}, {"look_up", R"({"day":4})"}};
  const auto reads = [&](const Entry<ToolForm>& form) {
    const ToolOutput out = read(write_tool_calls(form, calls), &sample_tools());
    if (out.calls.size() != std::size(calls) || out.content.find_first_not_of(" \n") != out.content.npos) return false;
    for (std::size_t i = 0; i < std::size(calls); ++i)
      if (out.calls[i].name != calls[i].name ||
          Json::parse(out.calls[i].arguments, nullptr, false) != Json::parse(calls[i].arguments))
        return false;
    return true;
  };
  if (likely && reads(*likely)) return likely;
  for (const auto& form : tool_forms())
    if (reads(form)) return &form;
  return nullptr;
}

bool ResponseTemplate::same_marks(const ReasoningMarks& marks) const {
  const std::string label = marks.label.empty() ? "" : marks.label;
  const ToolOutput out = read(
      marks.open + label + "\nHm, hm.\n" + marks.close + "\n" + marks.said_open + "Yes." + marks.said_close, nullptr);
  return out.reasoning == "Hm, hm." && out.content == "Yes.";
}

}  // namespace kvasir::text
