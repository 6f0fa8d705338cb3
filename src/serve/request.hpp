// The one request that all dialects are read into, and the bodies of /v1/chat/completions, /v1/completions and
// /v1/warm.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "run/service.hpp"
#include "serve/body.hpp"
#include "serve/chat.hpp"
#include "serve/field_names.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

class PictureUrls;     // serve/picture_urls.hpp
class ResponseMemory;  // serve/response_memory.hpp

enum class Kind { kChat, kCompletion, kWarm };

// Texts around a gap that the model fills (serve/infill.cpp).
struct Gap {
  struct File {
    std::string name, text;
  };
  std::string prefix, suffix;
  std::vector<File> files;  // other ones that it may look at
};

struct Prompt {
  bool is_ids = false;
  std::string text;
  std::vector<std::int32_t> ids;
  std::optional<Gap> gap = {};  // instead of the text
};

// What to do where the context is full (serve/context_shift.cpp).
struct ContextShift {
  bool on = false;
  std::int64_t keep = -2;  // tokens at the beginning that stay; -1: the whole prompt; -2: what the prompt suggests
  std::int64_t dropped_messages = 0, dropped_tokens = 0;  // of the prompt, before anything was computed
};

struct ApiRequest {
  Kind kind = Kind::kCompletion;
  std::vector<Prompt> prompts;  // completions
  bool is_chat = false;         // `messages` instead of prompts (warm knows both)
  ChatInput chat;
  int n = 1;  // answers to every prompt
  bool stream = false;
  bool include_usage = false;
  bool echo = false;
  bool logprobs = false;
  bool logprob_items = false;  // in the form of chats, whatever the kind
  bool progress = false;       // of the prompt, in a stream
  ContextShift shift;
  std::int32_t thinking_budget = -1;  // tokens; -1: none
  run::ServiceRequest service;        // all but the prompt, the tenant and the time-out
  // service.request.grammar is that of any answer but for calls that are not wanted: it may hold reasoning.
  bool any_text = false;
  // Adds what the answer has to be to a grammar; null: any text. service.request.grammar is the same alone.
  std::function<text::Grammar::Node(text::Grammar&)> format;
  std::vector<std::string> warnings;  // what was asked for and does not hold: in the receipt
  std::vector<std::string> notes;     // what was made of the body and the client should know: in the receipt
  FieldNames names;                   // the client's, of what the dialect translated
  Json dialect;                       // what the dialect's writer needs of the body
  Json ready;                         // not null: the answer already, nothing is generated
};

// For dialects: what /v1/completions has by the same names. Copies the fields of `names` that there are; Kvasir's own,
// which all dialects have; and those of sampling.
void pass_fields(const Fields& from, Json& to, std::initializer_list<const char*> names);
void pass_own(const Fields& from, Json& to);
void pass_sampling(const Fields& from, Json& to);

// What bounds a request besides the documented ranges.
struct RequestLimits {
  std::int32_t vocabulary = 0;
  int choices = 128;
  std::string model;                    // the only one that may be named; "": any
  bool keep_billing_line = false;       // see ServerOptions
  std::string tenant;                   // whose request it is
  ResponseMemory* responses = nullptr;  // what earlier requests stored; null: none
  bool pictures = false;                // whether the model has an encoder of pictures
  PictureUrls* urls = nullptr;          // what is known of pictures at URLs; null: none are fetched
  run::ModelSampling sampling = {};     // what the model's file recommends, in place of an API's own defaults
};

// Throw ApiException that names the field: missing, of the wrong type, out of range, or asking for what this server
// cannot do. Unknown fields are ignored.
ApiRequest parse_chat(const Json& body, const RequestLimits& limits);
ApiRequest parse_completion(const Json& body, const RequestLimits& limits);
ApiRequest parse_warm(const Json& body, const RequestLimits& limits);

// `messages`, `tools` and what goes with them (messages.cpp). Pictures are taken out of the parts and not looked at.
// Throws PictureUrls::Missing where some are at URLs and not fetched yet.
ChatInput parse_messages(const Json& body, bool reads_pictures = false, PictureUrls* urls = nullptr);

}  // namespace kvasir::serve
