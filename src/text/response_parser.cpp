// Answers by response templates.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/response_template.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kFieldBlanks = " \t\r\n\f\v";
using FieldRole = ResponseField::Role;

class ResponseParser final : public ToolParser {
 public:
  ResponseParser(const ResponseTemplate& response, std::string_view prompt, const Json* tools)
      : response_(response), tools_(tools) {
    for (const ResponseField& f : response.fields())
      if (!f.open) implicit_ = &f;
    current_ = implicit_;
    ToolOutput before;  // what the prompt began is the client's already
    push(response.begun(prompt), before);
  }

  void push(std::string_view text, ToolOutput& out) override {
    buffer_ += text;
    process(false, false, out);
  }
  void finish(ToolOutput& out, bool cut) override { process(true, cut, out); }
  bool thinking() const override { return current_ && current_->role == FieldRole::kReasoning; }

 private:
  // The next place where a field begins or ends.
  struct Place {
    const ResponseField* field = nullptr;
    bool opens = false;
    SearchPattern::Match match = {};
  };

  void process(bool end, bool cut, ToolOutput& out) {
    for (;;) {
      std::size_t sure = buffer_.size();
      Place place = next(end && !cut, sure);
      if (!place.field || place.match.at >= sure) {
        give(end ? (cut ? sure : buffer_.size()) : sure, out);
        if (end) close(true, cut, out);
        return;
      }
      give(place.match.at, out);
      const bool had = opened_ || !body_.empty();
      buffer_.erase(0, place.match.size);
      for (auto& [name, text] : place.match.groups) groups_[name] = text;
      if (place.opens) {
        auto groups = std::exchange(groups_, {});
        close(false, false, out);
        current_ = place.field;
        groups_ = std::move(groups);
        opened_ = true;
      } else {
        close(false, false, out);
        if (!had && place.match.size == 0) {  // an end of nothing, which would be found again
          if (end) return;
          break;
        }
      }
    }
  }

  Place next(bool end, std::size_t& sure) const {
    Place best;
    const auto look = [&](const ResponseField& f, const std::optional<SearchPattern>& pattern, bool opens) {
      if (!pattern) return;
      auto found = pattern->search(buffer_, 0, end);
      if (!found.match) {
        sure = std::min(sure, found.sure);
        return;
      }
      const bool first = !best.field || found.match->at < best.match.at ||
                         (found.match->at == best.match.at && found.match->size > best.match.size);
      if (first) best = {&f, opens, std::move(*found.match)};
    };
    if (current_ && current_ != implicit_) {
      look(*current_, current_->close, false);
      return best;
    }
    for (const ResponseField& f : response_.fields())
      if (tools_ || f.role != FieldRole::kCalls) look(f, f.open, true);
    if (implicit_) look(*implicit_, implicit_->close, false);
    return best;
  }

  // The first bytes belong to the field that is open.
  void give(std::size_t size, ToolOutput& out) {
    const std::string text = buffer_.substr(0, size);
    buffer_.erase(0, size);
    if (text.empty() || !current_) return;
    if (current_->role == FieldRole::kCalls) {
      body_ += text;
      return;
    }
    opened_ = true;
    write(text, out);
  }

  // Text of content or reasoning: white space around it counts only within.
  void write(std::string_view text, ToolOutput& out) {
    std::string& to = current_->role == FieldRole::kReasoning ? out.reasoning : out.content;
    bool& begun = current_->role == FieldRole::kReasoning ? reasoned_ : said_;
    if (current_->strip) {
      if (!written_) text.remove_prefix(std::min(text.find_first_not_of(kFieldBlanks), text.size()));
      const std::size_t last = text.find_last_not_of(kFieldBlanks);
      if (last == text.npos) {
        if (written_) space_ += text;
        return;
      }
      if (!written_ && begun) to += current_->join.value_or("\n\n");
      to += space_;
      to += text.substr(0, last + 1);
      space_ = text.substr(last + 1);
    } else {
      if (!written_ && begun && current_->join) to += *current_->join;
      to += text;
    }
    written_ = begun = true;
  }

  void close(bool end, bool cut, ToolOutput& out) {
    if (current_ && current_->role == FieldRole::kCalls && opened_) calls(end && cut, out);
    current_ = implicit_;
    groups_.clear();
    body_.clear();
    space_.clear();
    opened_ = written_ = false;
  }

  void calls(bool cut, ToolOutput& out) {
    if (!cut) {
      if (auto all = read_response_calls(*current_, body_, groups_, tools_)) {
        for (ToolCall& call : *all) out.calls.push_back(std::move(call));
        return;
      }
    }
    // Broken or cut: as far as it goes.
    const auto name = groups_.find("name");
    const std::size_t begin = count_space(body_);
    const std::string_view text = std::string_view(body_).substr(begin);
    if (name != groups_.end()) {
      ToolCall call{name->second, {}};
      if (text.starts_with('{')) {
        LooseJson loose({.quote = current_->quote});
        loose.convert(text, true, call.arguments);
      }
      out.calls.push_back(std::move(call));
      return;
    }
    if (text.starts_with('{')) {
      ObjectCallReader reader(false, false);
      reader.read(text, true, out);
      if (reader.begun()) return;
    }
    if (cut) return;
    const ResponseField* field = std::exchange(current_, response_.find(FieldRole::kContent));
    written_ = false;
    if (current_) write(body_, out);  // what cannot be read is not lost
    current_ = field;
  }

  const ResponseTemplate& response_;
  const Json* tools_;
  const ResponseField* implicit_ = nullptr;
  const ResponseField* current_ = nullptr;
  std::map<std::string, std::string> groups_;
  std::string buffer_, body_, space_;
  bool opened_ = false, written_ = false;  // of the field that is open
  bool said_ = false, reasoned_ = false;
};

}  // namespace

std::unique_ptr<ToolParser> ResponseTemplate::parser(std::string_view prompt, const Json* tools) const {
  return std::make_unique<ResponseParser>(*this, prompt, tools);
}

}  // namespace kvasir::text
