// GGUF files, memory-mapped. The bytes are read in weights/gguf.cpp.
#include "weights/gguf.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/format.hpp"

namespace kvasir::weights {
namespace {

void refuse_parts(const Metadata& metadata) {
  const auto parts = metadata.get_int("split.count", 0, 65535);
  if (parts && *parts > 1)
    throw Error(Code::kUnsupported,
                "metadata key 'split.count': one of " + std::to_string(*parts) +
                    " parts of a model; expected a whole model (llama-gguf-split --merge makes one)",
                metadata.path());
}

bool recognises(const Sight& sight) { return sight.starts_with(kGgufMagic); }

std::unique_ptr<ModelFile> open(const std::string& path) {
  std::vector<MappedFile> files;
  files.emplace_back(path);
  GgufContents contents = parse_gguf(files[0].bytes(), path);
  refuse_parts(contents.metadata);
  return std::make_unique<MappedModel>(std::move(files), std::move(contents.metadata), std::move(contents.tensors));
}

}  // namespace

namespace entries::formats {
extern const Format gguf;
const Format gguf{
    .summary = "GGUF version 2 and 3, little endian", .recognises = weights::recognises, .open = weights::open};
}  // namespace entries::formats

}  // namespace kvasir::weights
