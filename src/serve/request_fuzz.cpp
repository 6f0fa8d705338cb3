// Any bytes as the body of a request. What is accepted must keep to the documented ranges and its answer must be valid
// JSON; what is refused must be refused with an error a client can read.
//
// Input: the first byte chooses the dialect (bits 2 and 3: OpenAI's older ones, messages, responses, Ollama's; of the
// first bits 0 and 1: chat, completion, warm, target and headers; of the last bit 0: chat, generate), the rest is the
// body.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "serve/body.hpp"
#include "serve/chat_fixture.hpp"
#include "serve/families/anthropic.hpp"
#include "serve/families/ollama.hpp"
#include "serve/families/responses.hpp"
#include "serve/prompt.hpp"
#include "serve/shape.hpp"
#include "text/vocabularies_fixture.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

void require(bool condition) {
  if (!condition) std::abort();  // what the fuzzer reports as a finding
}

constexpr PromptLimits kPrompt{.context = 1000, .most = 500};

void check_request(const ApiRequest& r, const text::Tokenizer& tokenizer) {
  const run::SamplingOptions& s = r.service.request.sampling;
  run::validate(s, tokenizer.size());
  require(r.n >= 1 && r.n <= 8);
  require(r.service.request.max_tokens >= -1 && r.service.request.top_logprobs >= -1);
  for (const std::string& stop : r.service.request.stop) require(!stop.empty() && unicode::to_valid_utf8(stop) == stop);
  require(r.is_chat != !r.prompts.empty());
  require(r.prompts.size() * static_cast<std::size_t>(r.n) <= 8);
}

void check_answer(const ApiRequest& r, const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt) {
  const Shape shape({.kind = r.kind, .include_usage = r.include_usage, .id = "id", .model = "m"});
  Choice choice;
  LogprobWriter logprobs(r.kind, &tokenizer);
  for (const std::int32_t id : prompt) logprobs.add({.id = id, .logprob = -1, .best = {{id, -1}}});
  choice.logprobs = logprobs.take();
  choice.text.content = tokenizer.decode(prompt);  // may be no UTF-8
  for (const Json& json : {shape.whole({&choice, 1}), shape.delta(0, choice.text, choice.logprobs),
                           shape.last(0, "stop"), usage_json({&choice, 1}, 1), kvasir_json({&choice, 1}, r)})
    require(Json::accept(dump(json)));
}

void fuzz_body(int choice, std::string_view bytes, const text::Tokenizer& tokenizer) {
  static const FakeChat chat;
  const RequestLimits limits{.vocabulary = tokenizer.size(), .choices = 8, .model = "m"};
  constexpr decltype(&parse_chat) kOlder[] = {parse_chat, parse_completion, parse_warm};
  constexpr decltype(&parse_chat) kOllama[] = {parse_ollama_chat, parse_ollama_generate};
  const int dialect = choice >> 2;
  const auto parse = dialect == 0   ? kOlder[choice & 3]
                     : dialect == 1 ? parse_anthropic
                     : dialect == 2 ? parse_responses
                                    : kOllama[choice & 1];
  try {
    const ApiRequest r = parse(parse_body(bytes), limits);
    if (!r.ready.is_null()) return;
    check_request(r, tokenizer);
    const auto prompts = encode_prompts(r, &tokenizer, &chat, kPrompt);
    require(prompts.size() == (r.is_chat ? 1 : r.prompts.size()));
    for (const EncodedPrompt& prompt : prompts) {
      require(!prompt.ids.empty() && prompt.ids.size() <= 500);
      for (const auto id : prompt.ids) require(id >= 0 && id < tokenizer.size());
    }
    check_answer(r, tokenizer, prompts.front().ids);
  } catch (const ApiException& e) {
    require(e.error().status >= 400 && e.error().status < 600);
    require(Json::accept(error_response(e.error()).body));
  } catch (const Error& e) {
    require(Json::accept(error_response(api_error(e)).body));
  }
}

void fuzz_target(std::string_view bytes) {
  std::string path, query, parameter;
  if (split_target(bytes, path, query)) {
    require(path[0] == '/' && path.find('\0') == std::string::npos);
    if (match_path("/v1/models/{id}", path, &parameter)) require(!parameter.empty());
  }
  host_allowed(bytes, {"a"});
}

}  // namespace
}  // namespace kvasir::serve

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kvasir;
  static const auto tokenizer = text::make_tokenizer(text::byte_level_vocabulary("gpt-2"));
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  const int choice = data[0] & 15;
  if (choice == 3) {
    serve::fuzz_target(rest);
  } else {
    serve::fuzz_body(choice, rest, *tokenizer);
  }
  return 0;
}
