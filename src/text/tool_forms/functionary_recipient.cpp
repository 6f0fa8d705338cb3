// Functionary 3.2: every part of an answer has a recipient. >>>all\nTEXT is content, >>>f\n{"a": 1} a call. The prompt
// ends with the first ">>>".
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_functionary_recipient {
namespace {

constexpr std::string_view kOpen = ">>>", kAll = "all\n";
constexpr std::size_t kLongestName = 256;

int match(std::string_view t) { return has(t, ">>>all") || has(t, "'>>>' + ") || has(t, "'>>>'") ? 2 : 0; }

class Parser final : public StepParser {
  enum class State { kRecipient, kContent, kCall };

  bool step(bool end, bool cut, ToolOutput& out) override {
    switch (state_) {
      case State::kRecipient:
        return recipient(end, cut, out);
      case State::kContent:
        return content(end, out);
      case State::kCall:
        return call(end, out);
    }
    return false;
  }

  bool recipient(bool end, bool cut, ToolOutput& out) {
    const std::string_view text = buffer_;
    const std::size_t line = text.find('\n');
    if (line == text.npos && text.size() <= kLongestName && !end) return false;
    std::string name(text.substr(0, line == text.npos ? 0 : line));
    const bool named = !name.empty() && name.find_first_of(" {}<>\t") == name.npos;
    if (named && name != "all") {
      const std::size_t at = line + 1 + count_space(text.substr(line + 1));
      if (at == text.size() && !end) return false;
      if (at < text.size() && text[at] == '{') {
        buffer_.erase(0, at);
        json_ = LooseJson();
        writer_.after_call(out);
        out.calls.push_back({std::move(name), {}});
        state_ = State::kCall;
        return true;
      }
    }
    if (line == text.npos && cut && !first_) return buffer_.clear(), false;
    if (text.starts_with(kAll)) {
      buffer_.erase(0, kAll.size());
    } else if (!first_) {
      writer_.write(kOpen, out);  // it was text
    }
    first_ = false;
    state_ = State::kContent;
    return true;
  }

  bool content(bool end, ToolOutput& out) {
    const std::size_t at = buffer_.find(kOpen);
    const std::size_t keep = end || at != buffer_.npos ? 0 : partial_tag(buffer_, kOpen);
    const std::size_t size = at != buffer_.npos ? at : buffer_.size() - keep;
    writer_.write(std::string_view(buffer_).substr(0, size), out);
    buffer_.erase(0, size);
    if (at == buffer_.npos && !buffer_.starts_with(kOpen)) return false;
    if (!buffer_.starts_with(kOpen)) return false;
    buffer_.erase(0, kOpen.size());
    first_ = false;
    state_ = State::kRecipient;
    return true;
  }

  bool call(bool end, ToolOutput& out) {
    if (!json_.convert(buffer_, end, out.calls.back().arguments)) return end ? (buffer_.clear(), false) : false;
    buffer_.erase(0, json_.taken());
    first_ = false;
    state_ = State::kContent;
    return true;
  }

  LooseJson json_;
  State state_ = State::kRecipient;
  bool first_ = true;
};

std::unique_ptr<ToolParser> make(const Json*) { return std::make_unique<Parser>(); }

// The mark in front of the first one is in the prompt.
Grammar::Node call(const CallParts& p) { return p.grammar.sequence({p.grammar.text(p.name + "\n"), p.arguments()}); }

std::string write(const std::string& name, const Json& arguments) { return name + "\n" + arguments.dump(); }

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .separator = ">>>", .write = write, .always = true};

}  // namespace kvasir::text::tool_forms_functionary_recipient
