// Response templates (transformers' response_template, version 1): how an answer's text becomes the parts of a message.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "text/reasoning.hpp"
#include "text/search_pattern.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

// A part of the message: what stands between two places of the answer.
struct ResponseField {
  enum class Role { kContent, kReasoning, kCalls };
  Role role = Role::kContent;
  std::optional<SearchPattern> open, close;   // without `open`: what is in no other field
  std::string content = "text";               // how it is read
  std::optional<SearchPattern> tag;           // of content xml-inline: one argument
  std::string quote;                          // of content json: stands around strings
  std::string line_sep = "\n", kv_sep = ":";  // of content kv-lines
  bool json_values = false;                   // values in the tags or lines are JSON where they are that
  bool strip = true;                          // white space around text is none of it
  std::optional<std::string> join;            // between texts of this field
  Json transform;                             // null: none
  bool each = false;                          // it is of each item of a list

  std::string name;
};

class ResponseTemplate {
 public:
  // Throws Error(kBadInput) for what is no template, Error(kUnsupported) for what is not done here.
  static std::shared_ptr<const ResponseTemplate> parse(std::string_view json);

  const std::vector<ResponseField>& fields() const { return fields_; }
  const ResponseField* find(ResponseField::Role role) const;
  // Names that look like control tokens, in all patterns: they are text in what the parser gets.
  const std::vector<std::string>& marks() const { return marks_; }
  // Of a prompt the part that belongs to the answer's message; empty when that is not to be seen.
  std::string_view begun(std::string_view prompt) const;

  // `prompt`: what stands in front of the answer. `tools` (null: nothing is a call) outlives the parser, as does this.
  std::unique_ptr<ToolParser> parser(std::string_view prompt, const Json* tools) const;
  ToolOutput read(std::string_view text, const Json* tools) const;  // a whole answer

  // The form and the marks that are read in the same way: their parser does more. Nothing where there are none.
  const Entry<ToolForm>* same_form(const Entry<ToolForm>* likely) const;
  bool same_marks(const ReasoningMarks& marks) const;

 private:
  void add_field(const std::string& name, const Json& json);
  std::optional<SearchPattern> anchor(const Json& json, const std::string& where, const char* texts,
                                      const char* pattern);

  std::vector<ResponseField> fields_;
  std::vector<std::string> marks_;
  std::optional<SearchPattern> start_;
};

// The calls that a field's text stands for: name and arguments of each. Nothing where they cannot be read.
std::optional<std::vector<ToolCall>> read_response_calls(const ResponseField& field, std::string_view text,
                                                         const std::map<std::string, std::string>& groups,
                                                         const Json* tools);

}  // namespace kvasir::text
