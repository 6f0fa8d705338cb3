// What an answer has to be, as the clients of several servers ask for it.
#pragma once

#include <functional>
#include <memory>

#include "serve/body.hpp"
#include "text/grammar.hpp"
#include "text/json_schema.hpp"

namespace kvasir::serve {

struct AnswerFormat {
  std::function<text::Grammar::Node(text::Grammar&)> add;  // null: any text
  std::shared_ptr<const text::Grammar> grammar;            // the same alone
};

// Reads response_format (a schema also beside the type json_object), and what other servers call json_schema,
// guided_json, guided_choice, guided_regex, guided_grammar, grammar, structural_tag and structured_outputs. Throws
// ApiException that names the field for what is not there (grammars in GBNF), wrong, or asked for twice. What a schema
// asks for and cannot be held is said in `warnings` unless it is strict.
AnswerFormat read_answer_format(const Fields& fields, text::Warnings& warnings);

}  // namespace kvasir::serve
