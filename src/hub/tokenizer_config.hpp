// tokenizer.json, tokenizer_config.json, generation_config.json and chat templates, as metadata with GGUF's keys.
#pragma once

#include <cstdint>
#include <string>

#include "weights/model_file.hpp"
#include "weights/safetensors/json_text.hpp"

namespace kvasir::hub {

// What a folder's files say of texts; objects of files that are not there are null.
struct TokenizerFiles {
  weights::FolderJson tokenizer;   // tokenizer.json
  weights::FolderJson config;      // tokenizer_config.json
  weights::FolderJson generation;  // generation_config.json
  weights::FolderJson model;       // config.json
  std::string chat_template;       // chat_template.jinja; "": none
};

// Sets the keys "tokenizer.*". `vocabulary` is the number of rows of the embedding: the tokens are filled up to it.
// `path` names the folder in messages. Throws Error naming file, field and expectation: kUnsupported for a tokenizer
// that would cut texts otherwise than any here.
void read_tokenizer(const TokenizerFiles& files, std::int64_t vocabulary, const std::string& path,
                    weights::Metadata& metadata);

// Sets general.sampling.* and tokenizer.ggml.suppress_tokens by an object of generation_config.json; null: none.
void set_generation(const weights::FolderJson& generation, weights::Metadata& metadata);

}  // namespace kvasir::hub
