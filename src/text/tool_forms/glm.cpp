// GLM 4.5 and later:
//   <tool_call>f
//   <arg_key>a</arg_key>
//   <arg_value>1</arg_value>
//   </tool_call>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_glm {
namespace {

constexpr std::string_view kCall = "<tool_call>", kEndCall = "</tool_call>", kKey = "<arg_key>", kEndKey = "</arg_key>",
                           kValue = "<arg_value>", kEndValue = "</arg_value>";
constexpr std::size_t kLongestName = 256;

int match(std::string_view t) { return has(t, kKey) ? 3 : 0; }

class Parser final : public MarkedParser {
 public:
  explicit Parser(const Json* tools) : MarkedParser({kCall}), tools_(tools) {}

 private:
  enum class State { kName, kKeys, kBeforeValue, kInValue };

  void begin(std::string_view) override {
    state_ = State::kName;
    begun_ = false;
  }
  bool begun() const override { return begun_; }
  std::string_view closing() const override { return kEndCall; }

  void complete(ToolOutput& out) override {
    if (state_ == State::kKeys || state_ == State::kBeforeValue) writer_->finish(out.calls.back().arguments);
  }

  Result read(std::string& buffer, ToolOutput& out, bool) override {
    for (;;) {
      const std::size_t space = count_space(buffer);
      const std::string_view rest = std::string_view(buffer).substr(space);
      switch (state_) {
        case State::kName: {
          const std::size_t stop = rest.find_first_of("\n<");
          if (stop == rest.npos || (rest[stop] == '<' && rest.size() - stop < kEndCall.size() &&
                                    (kKey.starts_with(rest.substr(stop)) || kEndCall.starts_with(rest.substr(stop)))))
            return rest.size() > kLongestName ? Result::kBad : Result::kMore;
          const std::string_view behind = rest.substr(stop);
          std::string_view name = rest.substr(0, stop);
          name = name.substr(0, name.find_last_not_of(" \t\r") + 1);
          const bool named = !name.empty() && name.find_first_of(" {}\"") == name.npos;
          if (!named || (behind[0] == '<' && !behind.starts_with(kKey) && !behind.starts_with(kEndCall)))
            return Result::kBad;
          writer_.emplace(tools_, name);
          out.calls.push_back({std::string(name), {}});
          buffer.erase(0, space + stop);
          begun_ = true;
          state_ = State::kKeys;
          break;
        }
        case State::kKeys: {
          if (rest.starts_with(kKey)) {
            const std::size_t close = rest.find(kEndKey);
            if (close == rest.npos) return Result::kMore;
            key_ = rest.substr(kKey.size(), close - kKey.size());
            buffer.erase(0, space + close + kEndKey.size());
            state_ = State::kBeforeValue;
            break;
          }
          const bool may_go_on = kKey.starts_with(rest) || (kEndCall.starts_with(rest) && rest != kEndCall);
          if (may_go_on) return Result::kMore;
          writer_->finish(out.calls.back().arguments);
          return Result::kDone;
        }
        case State::kBeforeValue:
          if (!rest.starts_with(kValue)) {
            if (kValue.starts_with(rest)) return Result::kMore;
            state_ = State::kKeys;  // a key without a value
            break;
          }
          buffer.erase(0, space + kValue.size());
          is_text_ = writer_->is_text(key_);
          writer_->begin(key_, out.calls.back().arguments);
          state_ = State::kInValue;
          break;
        case State::kInValue:
          if (!value(buffer, out)) return Result::kMore;
      }
    }
  }

  bool value(std::string& buffer, ToolOutput& out) {
    std::string& arguments = out.calls.back().arguments;
    const std::size_t close = buffer.find(kEndValue);
    if (close == buffer.npos) {
      if (!is_text_) return false;
      const std::size_t keep = partial_tag(buffer, kEndValue);
      writer_->text(std::string_view(buffer).substr(0, buffer.size() - keep), arguments);
      buffer.erase(0, buffer.size() - keep);
      return false;
    }
    const std::string_view whole = std::string_view(buffer).substr(0, close);
    is_text_ ? writer_->text(whole, arguments) : writer_->value(whole, arguments);
    writer_->end(arguments);
    buffer.erase(0, close + kEndValue.size());
    state_ = State::kKeys;
    return true;
  }

  const Json* tools_;
  std::optional<ArgumentsWriter> writer_;
  std::string key_;
  State state_ = State::kName;
  bool begun_ = false, is_text_ = false;
};

std::unique_ptr<ToolParser> make(const Json* tools) { return std::make_unique<Parser>(tools); }

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("<tool_call>" + p.name + "\n"),
                     plain_arguments(p, {"<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"}),
                     g.text("</tool_call>")});
}

std::string write(const std::string& name, const Json& arguments) {
  std::string text = "<tool_call>" + name + "\n";
  for (const auto& [key, value] : arguments.items())
    text += "<arg_key>" + key + "</arg_key>\n<arg_value>" +
            (value.is_string() ? value.get<std::string>() : value.dump()) + "</arg_value>\n";
  return text + "</tool_call>";
}

constexpr std::string_view kMarks[] = {kCall, kEndCall, kKey, kEndKey, kValue, kEndValue};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .separator = "\n", .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_glm
