// A dialect of the HTTP server: copy to src/serve/dialects/NAME.cpp and rename `skeleton` to NAME. Contract:
// serve/dialect.hpp. This one takes a chat and answers with its text alone.
#include <nlohmann/json.hpp>

#include "serve/dialect.hpp"

namespace kvasir::serve::dialects_skeleton {
namespace {

class Writer final : public AnswerWriter {
 public:
  Json whole(std::span<const Choice> choices) override { return {{"text", choices.front().text.content}}; }
  std::string begin(int) override { return {}; }
  std::string delta(int, const ChatDelta& text, Json) override { return text.content; }
  std::string end(int, std::span<const Choice>, bool) override { return {}; }
  std::string finish(std::span<const Choice>) override { return {}; }
  std::string error(const ApiError& error) override { return error.message; }
};

}  // namespace

const Dialect entry{.path = "/skeleton/chat", .parse = parse_chat, .writer = [](const AnswerInfo&) {
                      return std::unique_ptr<AnswerWriter>(std::make_unique<Writer>());
                    }};

}  // namespace kvasir::serve::dialects_skeleton
