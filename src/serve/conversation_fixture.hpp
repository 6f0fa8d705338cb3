// One conversation in the words of every dialect that knows chats, and a template that shows all of it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "serve/http.hpp"
#include "serve/template_chat.hpp"

namespace kvasir::serve {

// Hermes' calls and Qwen3's thinking.
inline constexpr const char* kThinkingTemplate =
    "{% if tools %}<|im_start|>tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}"
    "<tool_call>{\"name\": , \"arguments\": }</tool_call><|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}";

inline TemplateChat thinking_chat() { return TemplateChat(text::ChatTemplate(kThinkingTemplate, "", "")); }

// By the dialect's path.
inline std::map<std::string, Json> same_conversation() {
  std::map<std::string, Json> all;
  all["/v1/chat/completions"] = Json::parse(R"({
    "model": "org/fake-model",
    "messages": [
      {"role": "developer", "content": "You know the weather."},
      {"role": "user", "content": [{"type": "text", "text": "How is it in "}, {"type": "text", "text": "Oslo?"}]},
      {"role": "assistant", "content": "I look.", "reasoning_content": "They ask for Oslo.",
       "tool_calls": [{"id": "c1", "type": "function",
                       "function": {"name": "weather", "arguments": "{\"place\":\"Oslo\",\"days\":[1,2]}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "grey"},
      {"role": "assistant", "content": "It is grey."},
      {"role": "user", "content": "And tomorrow?"}],
    "tools": [{"type": "function", "function": {"name": "weather", "description": "the weather of a place",
       "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]})");
  all["/v1/messages"] = Json::parse(R"({
    "model": "org/fake-model",
    "system": [{"type": "text", "text": "You know the weather.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
      {"role": "user", "content": [{"type": "text", "text": "How is it in "}, {"type": "text", "text": "Oslo?"}]},
      {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "They ask for Oslo.", "signature": "x"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {"place": "Oslo", "days": [1, 2]}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1",
                                    "content": [{"type": "text", "text": "grey"}]}]},
      {"role": "assistant", "content": "It is grey."},
      {"role": "user", "content": "And tomorrow?"}],
    "tools": [{"name": "weather", "description": "the weather of a place",
       "input_schema": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}},
      {"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]})");
  all["/v1/responses"] = Json::parse(R"({
    "model": "org/fake-model", "instructions": "You know the weather.",
    "input": [
      {"role": "user", "content": [{"type": "input_text", "text": "How is it in "},
                                   {"type": "input_text", "text": "Oslo?"}]},
      {"type": "reasoning", "id": "rs_1", "summary": [],
       "content": [{"type": "reasoning_text", "text": "They ask for Oslo."}]},
      {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
       "content": [{"type": "output_text", "text": "I look.", "annotations": []}]},
      {"type": "web_search_call", "id": "ws_1", "status": "completed"},
      {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather",
       "arguments": "{\"place\":\"Oslo\",\"days\":[1,2]}"},
      {"type": "function_call_output", "call_id": "c1", "output": "grey"},
      {"type": "message", "role": "assistant", "content": "It is grey."},
      {"type": "message", "role": "user", "content": "And tomorrow?"}],
    "tools": [{"type": "web_search"},
      {"type": "function", "name": "weather", "description": "the weather of a place", "strict": false,
       "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}]})");
  all["/api/chat"] = Json::parse(R"({
    "model": "org/fake-model:latest", "stream": false,
    "messages": [
      {"role": "system", "content": "You know the weather."},
      {"role": "user", "content": "How is it in Oslo?"},
      {"role": "assistant", "content": "I look.", "thinking": "They ask for Oslo.",
       "tool_calls": [{"function": {"name": "weather", "arguments": {"place": "Oslo", "days": [1, 2]}}}]},
      {"role": "tool", "tool_name": "weather", "content": "grey"},
      {"role": "assistant", "content": "It is grey."},
      {"role": "user", "content": "And tomorrow?"}],
    "tools": [{"type": "function", "function": {"name": "weather", "description": "the weather of a place",
       "parameters": {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}}}]})");
  return all;
}

}  // namespace kvasir::serve
