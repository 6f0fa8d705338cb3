// kvasir cache explain: where two prompts part after templating and tokenising.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/cache.hpp"
#include "cli/chat_format.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "kv/page.hpp"
#include "serve/prompt.hpp"
#include "serve/request.hpp"
#include "unicode/utf8.hpp"
#include "weights/model_file.hpp"

namespace kvasir::cli {
namespace {

using Json = nlohmann::ordered_json;
using kv::kPageTokens;

constexpr std::size_t kAround = 6;  // tokens shown on either side

struct CacheExplainSettings {
  std::string a, b;
  std::string model;
  std::string chat_template;
  bool text = false;
  bool json = false;
};

struct Side {
  std::string path;
  serve::ApiRequest request;
  serve::EncodedPrompt prompt;
};

class Explainer {
 public:
  explicit Explainer(const CacheExplainSettings& settings) : settings_(settings) {
    const auto file = weights::open_model_file(local_model(settings.model));
    tokenizer_ = text::make_tokenizer(file->metadata());
    if (!tokenizer_)
      throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", settings.model);
    chat_ = open_chat(file->metadata().get_string("tokenizer.chat_template").value_or(""), *tokenizer_,
                      settings.chat_template, settings.model);
  }

  Side read(const std::string& path) const {
    Side side{.path = path};
    const std::string content = read_text_file(path);
    try {
      if (settings_.text || !read_json(content, path, &side.request)) {
        side.request = {};
        side.request.prompts = {{.text = content}};
      }
      side.prompt = serve::encode_prompts(side.request, tokenizer_.get(), chat_.get(), {.context = INT64_MAX}).front();
    } catch (const serve::ApiException& e) {
      throw Error(Code::kBadInput, e.what(), path);
    } catch (const Error& e) {
      throw Error(e.code(), e.what(), path);
    }
    return side;
  }

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

  // What byte `at` of the prompt's text belongs to.
  text::Place place(const Side& side, std::size_t at) const {
    if (side.request.is_chat) return chat_->place(side.request.chat, at).value_or(text::Place{});
    return {.byte = static_cast<std::int64_t>(at)};
  }

 private:
  // The body of a chat or a completion, or an array of messages. False: a text.
  static bool read_json(const std::string& content, const std::string& path, serve::ApiRequest* request) {
    const Json body = Json::parse(content, nullptr, false);
    const bool object = body.is_object() && (body.contains("messages") || body.contains("prompt"));
    const bool messages = body.is_array() && !body.empty() && body[0].is_object() && body[0].contains("role");
    if (!object && !messages) {
      if (path.ends_with(".json"))
        throw Error(Code::kBadInput,
                    "expected JSON: the body of a chat ('messages') or completion ('prompt'), or an array of messages; "
                    "--text takes it as it is");
      return false;
    }
    if (messages || body.contains("messages")) {
      request->is_chat = true;
      request->chat = serve::parse_messages(messages ? Json{{"messages", body}} : body);
    } else {
      *request = serve::parse_completion(body, {.vocabulary = INT32_MAX});
    }
    if (!request->is_chat && request->prompts.front().is_ids)
      throw Error(Code::kBadInput, "expected 'prompt' as text, found token ids");
    return true;
  }

  const CacheExplainSettings& settings_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<serve::TemplateChat> chat_;
};

template <class T>
std::size_t common(const T& a, const T& b) {
  const std::size_t n = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first - a.begin());
}

struct Parting {
  std::size_t tokens = 0, bytes = 0;
  std::size_t chunks = 0;
};

// Of the tokens [begin, end) that there are, quoted as JSON does it.
std::string pieces(const Explainer& e, const Side& side, std::size_t begin, std::size_t end) {
  std::string out;
  for (std::size_t i = begin; i < std::min(end, side.prompt.ids.size()); ++i)
    out += (out.empty() ? "" : " ") + Json(unicode::to_valid_utf8(e.tokenizer().piece(side.prompt.ids[i]))).dump();
  return out;
}

Json pieces_json(const Explainer& e, const Side& side, std::size_t begin, std::size_t end) {
  Json out = Json::array();
  for (std::size_t i = begin; i < std::min(end, side.prompt.ids.size()); ++i)
    out.push_back(
        {{"id", side.prompt.ids[i]}, {"piece", unicode::to_valid_utf8(e.tokenizer().piece(side.prompt.ids[i]))}});
  return out;
}

std::string where(const Explainer& e, const Side& side, const Parting& p) {
  if (p.tokens >= side.prompt.ids.size()) return "it ends there";
  if (!side.request.is_chat) return fmt::format("byte {} of the text", p.bytes);
  return text::describe(e.place(side, p.bytes));
}

Json side_json(const Explainer& e, const Side& side, const Parting& p) {
  Json out{{"file", side.path}, {"tokens", side.prompt.ids.size()}, {"bytes", side.prompt.text.size()}};
  const bool ends = p.tokens >= side.prompt.ids.size();
  out["ends"] = ends;
  const std::size_t begin = p.tokens - std::min(p.tokens, kAround);
  out["before"] = pieces_json(e, side, begin, p.tokens);
  out["after"] = pieces_json(e, side, p.tokens, p.tokens + kAround);
  if (ends) return out;
  const text::Place place = e.place(side, p.bytes);
  if (side.request.is_chat) out["message"] = place.message;
  if (!place.role.empty()) out["role"] = place.role;
  out["byte"] = place.byte < 0 ? Json(nullptr) : Json(place.byte);
  return out;
}

void print_side(const Explainer& e, const char* name, const Side& side, const Parting& p) {
  fmt::print("{}: {}\n", name, where(e, side, p));
  const std::size_t begin = p.tokens - std::min(p.tokens, kAround);
  fmt::print("   {} | {}\n", pieces(e, side, begin, p.tokens), pieces(e, side, p.tokens, p.tokens + kAround));
}

int explain(const CacheExplainSettings& s) {
  const Explainer e(s);
  const Side a = e.read(s.a), b = e.read(s.b);
  Parting p{.tokens = common(a.prompt.ids, b.prompt.ids), .bytes = common(a.prompt.text, b.prompt.text)};
  const bool same = p.tokens == a.prompt.ids.size() && p.tokens == b.prompt.ids.size();
  // The last token of a prompt is always computed: its logits choose the first one of the answer.
  p.chunks = std::min(p.tokens, std::min(a.prompt.ids.size(), b.prompt.ids.size()) - (same ? 1 : 0)) / kPageTokens;
  if (s.json) {
    print_json_row({{"same", same},
                    {"shared_tokens", p.tokens},
                    {"shared_bytes", p.bytes},
                    {"shared_chunks", p.chunks},
                    {"chunk_tokens", kPageTokens},
                    {"a", side_json(e, a, p)},
                    {"b", side_json(e, b, p)}});
    return kSuccess;
  }
  fmt::print("A {}: {} tokens\nB {}: {} tokens\n", a.path, a.prompt.ids.size(), b.path, b.prompt.ids.size());
  fmt::print("shared: {} tokens ({:.1f} % of A, {:.1f} % of B), {} whole chunks of {}\n", p.tokens,
             100.0 * static_cast<double>(p.tokens) / static_cast<double>(a.prompt.ids.size()),
             100.0 * static_cast<double>(p.tokens) / static_cast<double>(b.prompt.ids.size()), p.chunks, kPageTokens);
  if (same) {
    fmt::print("they are the same prompt\n");
    return kSuccess;
  }
  fmt::print("they part at token {}:\n", p.tokens);
  print_side(e, "A", a, p);
  print_side(e, "B", b, p);
  return kSuccess;
}

}  // namespace

Action setup_cache_explain(Flags& flags) {
  auto s = std::make_shared<CacheExplainSettings>();
  flags.value("--a", s->a, "a chat or completion as JSON, an array of messages, or text",
              {.placeholder = "FILE", .required = true});
  flags.value("--b", s->b, "likewise", {.placeholder = "FILE", .required = true});
  flags.value("-m,--model", s->model, "model file; only its vocabulary and template are read",
              {.placeholder = "FILE", .required = true});
  flags.value("--chat-template", s->chat_template, "a Jinja chat template in place of the model's own",
              {.placeholder = "FILE"});
  flags.flag("--text", s->text, "take both files as text, whatever they hold");
  flags.flag("--json", s->json, "one object");
  return [s] { return explain(*s); };
}

}  // namespace kvasir::cli
