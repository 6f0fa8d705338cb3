// Qwen3-Coder, Qwen3.5, Seed-OSS, Nemotron 3:
//   <tool_call>
//   <function=f>
//   <parameter=a>
//   1
//   </parameter>
//   </function>
//   </tool_call>
// Values of parameters that the schema calls strings are taken as they are, others as JSON where they are that.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_qwen3_coder {
namespace {

constexpr std::string_view kFunction = "<function=", kParameter = "<parameter=", kEndParameter = "</parameter>",
                           kEndFunction = "</function>", kCall = "<tool_call>", kEndCall = "</tool_call>";
constexpr std::size_t kLongestName = 256;

int match(std::string_view t) { return has(t, kFunction) && has(t, kParameter) ? 3 : 0; }

class Parser final : public MarkedParser {
 public:
  explicit Parser(const Json* tools) : MarkedParser({kCall, kFunction}), tools_(tools) {}

 private:
  enum class State { kBegin, kName, kParameters, kValue };

  void begin(std::string_view mark) override {
    state_ = mark == kFunction ? State::kName : State::kBegin;
    begun_ = false;
  }
  bool begun() const override { return begun_; }
  std::string_view closing() const override { return kEndCall; }

  // A name up to '>' behind what was taken: nothing when it is not here, empty when it is none.
  static std::optional<std::string> name(std::string_view text) {
    const std::size_t stop = text.find_first_of("><\n");
    if (stop == text.npos) return text.size() > kLongestName ? std::optional<std::string>("") : std::nullopt;
    return text[stop] == '>' ? std::string(text.substr(0, stop)) : std::string();
  }

  void complete(ToolOutput& out) override {
    if (state_ == State::kParameters) writer_->finish(out.calls.back().arguments);
  }

  Result read(std::string& buffer, ToolOutput& out, bool) override {
    for (;;) {
      const std::size_t space = count_space(buffer);
      const std::string_view rest = std::string_view(buffer).substr(space);
      switch (state_) {
        case State::kBegin:
          if (!rest.starts_with(kFunction)) return kFunction.starts_with(rest) ? Result::kMore : Result::kBad;
          if (const auto n = name(rest.substr(kFunction.size())); !n || n->empty())
            return n ? Result::kBad : Result::kMore;
          buffer.erase(0, space + kFunction.size());
          state_ = State::kName;
          break;
        case State::kName: {
          const auto n = name(buffer);
          if (!n) return Result::kMore;
          if (n->empty()) return Result::kBad;
          writer_.emplace(tools_, *n);
          out.calls.push_back({*n, {}});
          buffer.erase(0, n->size() + 1);
          begun_ = true;
          state_ = State::kParameters;
          break;
        }
        case State::kParameters: {
          if (rest.starts_with(kParameter)) {
            const auto n = name(rest.substr(kParameter.size()));
            if (!n) return Result::kMore;
            if (!n->empty()) {
              is_text_ = writer_->is_text(*n);
              writer_->begin(*n, out.calls.back().arguments);
              buffer.erase(0, space + kParameter.size() + n->size() + 1);
              at_first_ = true;
              state_ = State::kValue;
              break;
            }
          } else if (kParameter.starts_with(rest) || (kEndFunction.starts_with(rest) && rest != kEndFunction)) {
            return Result::kMore;
          }
          // The end of the call; whatever else stands here ends it too.
          if (rest.starts_with(kEndFunction)) buffer.erase(0, space + kEndFunction.size());
          writer_->finish(out.calls.back().arguments);
          return Result::kDone;
        }
        case State::kValue:
          if (!value(buffer, out)) return Result::kMore;
      }
    }
  }

  // Up to the closing tag; of a string what is sure is given out before.
  bool value(std::string& buffer, ToolOutput& out) {
    std::string& arguments = out.calls.back().arguments;
    if (at_first_ && !buffer.empty()) {
      if (buffer[0] == '\n') buffer.erase(0, 1);
      at_first_ = false;
    }
    const std::size_t close = buffer.find(kEndParameter);
    if (close == buffer.npos) {
      if (!is_text_) return false;
      std::size_t keep = partial_tag(buffer, kEndParameter);
      if (keep < buffer.size() && buffer[buffer.size() - keep - 1] == '\n') ++keep;
      writer_->text(std::string_view(buffer).substr(0, buffer.size() - keep), arguments);
      buffer.erase(0, buffer.size() - keep);
      return false;
    }
    std::string_view whole = std::string_view(buffer).substr(0, close);
    if (whole.ends_with('\n')) whole.remove_suffix(1);
    is_text_ ? writer_->text(whole, arguments) : writer_->value(whole, arguments);
    writer_->end(arguments);
    buffer.erase(0, close + kEndParameter.size());
    state_ = State::kParameters;
    return true;
  }

  const Json* tools_;
  std::optional<ArgumentsWriter> writer_;
  State state_ = State::kBegin;
  bool begun_ = false, is_text_ = false, at_first_ = false;
};

std::unique_ptr<ToolParser> make(const Json* tools) { return std::make_unique<Parser>(tools); }

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("<tool_call>\n<function=" + p.name + ">\n"),
                     plain_arguments(p, {"<parameter=", ">\n", "\n</parameter>\n"}),
                     g.text("</function>\n</tool_call>")});
}

std::string write(const std::string& name, const Json& arguments) {
  std::string text = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : arguments.items())
    text += "<parameter=" + key + ">\n" + (value.is_string() ? value.get<std::string>() : value.dump()) +
            "\n</parameter>\n";
  return text + "</function>\n</tool_call>";
}

constexpr std::string_view kMarks[] = {kCall, kEndCall};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .separator = "\n", .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_qwen3_coder
