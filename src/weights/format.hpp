// Contract of an entry in hub/formats: one kind of model on disk, a file or a folder of files.
//
// A format is a translator. What it gives has GGUF's vocabulary, which the rest of Kvasir reads: metadata keys
// ("llama.block_count", "tokenizer.ggml.tokens"), tensor names ("blk.0.attn_q.weight"), shapes with the fastest
// dimension first, rows of query and key heads in the order of GGUF. Where the model's own files say it otherwise the
// format renames it. Bytes stay where they are, in mapped files.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "weights/model_file.hpp"

namespace kvasir::weights {

// What there is to see of a path before it is opened.
struct Sight {
  bool folder = false;
  std::span<const std::byte> head;  // of a file: its first bytes, up to 64
  std::vector<std::string> names;   // of a folder: the names in it, in order

  bool starts_with(std::string_view magic) const;
  bool holds(std::string_view name) const;
};

struct Format {
  const char* summary;
  // Whether this looks like a model of the format. Must not read more; the first format that says yes opens it.
  bool (*recognises)(const Sight& sight);
  // Most formats fill a MappedModel. Throws Error naming file, field and expectation; every offset is checked.
  std::unique_ptr<ModelFile> (*open)(const std::string& path);
};

std::span<const Entry<Format>> formats();  // src/hub/formats, by the build

}  // namespace kvasir::weights
