// What a chat request holds, in the form of OpenAI's API.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/json.hpp"

namespace kvasir::text {

struct Conversation {
  Json messages = Json::array();
  Json tools;  // an array, or null: none
  // Whether the prompt ends where the model is to answer. Usual when the last message is a user's or a tool's.
  bool add_generation_prompt = true;
  // The prompt ends within the last message, an assistant's, which the model is to go on writing; no generation prompt.
  bool continue_last = false;
  Json extra = Json::object();  // further variables of the template, such as enable_thinking
};

// Throws Error(kBadInput) that names a place of the conversation.
[[noreturn]] void refuse_message(const std::string& where, const std::string& message);
// The same for a value nested deeper than templates go. Before anything is copied: copies and templates walk a value
// recursively.
void check_depth(const Json& json, const std::string& where, int depth = 0);
void check_depths(const Conversation& c);

}  // namespace kvasir::text
