// Ollama's API: https://github.com/ollama/ollama/blob/main/docs/api.md. Bodies become those of chats and completions.
#pragma once

#include <string>

#include "serve/body.hpp"
#include "serve/dialect.hpp"
#include "serve/roster.hpp"

namespace kvasir::serve {

// Bodies of /api/chat and /api/generate. Defaults of sampling are Ollama's. Throw ApiException.
ApiRequest parse_ollama_chat(const Json& body, const RequestLimits& limits);
ApiRequest parse_ollama_generate(const Json& body, const RequestLimits& limits);

// Lines of JSON. Text stands in message.content of a chat, and in response of a completion.
std::unique_ptr<AnswerWriter> ollama_chat_writer(const AnswerInfo& info);
std::unique_ptr<AnswerWriter> ollama_generate_writer(const AnswerInfo& info);

Json ollama_error(const ApiError& error);

// The name that the body gives, which has to be this server's model. Throws ApiException.
std::string check_ollama_model(const Fields& fields, const RequestLimits& limits);

// Models without a tag have this one.
std::string without_tag(const std::string& model);

// How /api/tags, /api/show and /api/ps describe this server's model.
Json ollama_model(const Context& context, const run::ModelCard& card);
Json ollama_capabilities(const Roster::Entry& model);
Json ollama_details(const run::ModelCard& card);

// "2026-11-25T18:20:00.123456Z"
std::string rfc3339(double unix_seconds);
std::string rfc3339_now();

}  // namespace kvasir::serve
