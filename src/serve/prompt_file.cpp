#include "serve/prompt_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "serve/body.hpp"
#include "serve/pictures.hpp"
#include "serve/prompt.hpp"
#include "serve/request.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

Json body_of(std::string_view line) {
  if (line.substr(line.find_first_not_of(" \t")).starts_with('{')) return parse_body(line);
  return {{"prompt", unicode::to_valid_utf8(line)}};
}

}  // namespace

std::vector<run::ServiceRequest> read_prompt_file(const std::string& file, const run::ModelCard& card,
                                                  const text::Tokenizer& tokenizer, const ChatFormat* chat,
                                                  bool answered, run::Pictures* pictures) {
  const std::string text = read_text_file(file);
  std::vector<run::ServiceRequest> requests;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == line.npos) continue;
    try {
      Json body = body_of(line);
      if (answered && !body.contains("add_generation_prompt")) body["add_generation_prompt"] = true;
      ApiRequest request =
          parse_warm(body, {.vocabulary = card.vocabulary, .choices = 1, .pictures = pictures != nullptr});
      read_pictures(request, pictures);
      const std::string* tenant = Fields(body).string("tenant");
      EncodedPrompt prompt = encode_prompts(request, &tokenizer, chat, {.context = card.context}).front();
      request.service.request.prompt = std::move(prompt.ids);
      request.service.request.runs = std::move(prompt.runs);
      request.service.partings = std::move(prompt.partings);
      if (tenant) request.service.tenant = *tenant;
      requests.push_back(std::move(request.service));
    } catch (const ApiException& e) {
      throw Error(Code::kBadInput, e.error().param.empty() ? e.what() : e.error().param + ": " + e.what(),
                  file + ", line " + std::to_string(number));
    }
  }
  if (requests.empty()) throw Error(Code::kBadInput, "has no prompts, expected one per line", file);
  return requests;
}

}  // namespace kvasir::serve
