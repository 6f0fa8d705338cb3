// GGUF files, memory-mapped. The bytes are read in weights/gguf.cpp.
#include "weights/gguf.hpp"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/format.hpp"

namespace kvasir::weights {
namespace {

class GgufFile final : public ModelFile {
 public:
  explicit GgufFile(const std::string& path) : file_(path), contents_(parse_gguf(file_.bytes(), path)) {
    refuse_parts();
    index_.reserve(contents_.tensors.size());
    for (const TensorInfo& t : contents_.tensors) index_.emplace(t.name, &t);
  }

  const Metadata& metadata() const override { return contents_.metadata; }
  std::span<const TensorInfo> tensors() const override { return contents_.tensors; }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : it->second;
  }
  void drop(std::span<const std::byte> bytes) const override { file_.drop(bytes); }

 private:
  void refuse_parts() const {
    const auto parts = contents_.metadata.get_int("split.count", 0, 65535);
    if (parts && *parts > 1)
      throw Error(Code::kUnsupported,
                  "metadata key 'split.count': one of " + std::to_string(*parts) +
                      " parts of a model; expected a whole model (llama-gguf-split --merge makes one)",
                  file_.path());
  }

  MappedFile file_;
  GgufContents contents_;
  std::unordered_map<std::string_view, const TensorInfo*> index_;  // keys view contents_
};

bool recognises(std::span<const std::byte> head) {
  return head.size() >= kGgufMagic.size() && std::memcmp(head.data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
}

std::unique_ptr<ModelFile> open(const std::string& path) { return std::make_unique<GgufFile>(path); }

}  // namespace

namespace entries::formats {
extern const Format gguf;
const Format gguf = {"GGUF version 2 and 3, little endian", recognises, open};
}  // namespace entries::formats

}  // namespace kvasir::weights
