// GGUF files, memory-mapped: one, or the parts of a model, of which any may be named. The bytes are read in
// weights/gguf.cpp.
//
// The first part has the metadata, the others little more than split.no (from 0 on), split.count and
// split.tensors.count, the number of tensors in all parts.
#include "weights/gguf.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/format.hpp"
#include "weights/parts.hpp"

namespace kvasir::weights::formats_gguf {
namespace {

constexpr const char* kNumber = "split.no";
constexpr const char* kCount = "split.count";
constexpr const char* kTensors = "split.tensors.count";
constexpr std::int64_t kMostParts = 65535;

std::int64_t parts_in(const Metadata& metadata) { return metadata.get_int(kCount, 0, kMostParts).value_or(0); }

// Puts parts together, in order.
class Whole {
 public:
  explicit Whole(const std::string& named) : named_(named) {}

  void add(MappedFile file, GgufContents part, const PartName& name) {
    check_number(part.metadata, name);
    if (files_.empty()) {
      metadata_ = std::move(part.metadata);
    } else {
      check_keys(part.metadata);
    }
    for (TensorInfo& t : part.tensors) {
      if (!names_.insert(t.name).second)
        foreign(file.path(), fmt::format("tensor {} is in an earlier part too", t.name));
      tensors_.push_back(std::move(t));
    }
    files_.push_back(std::move(file));
  }

  std::unique_ptr<ModelFile> take() {
    const auto expected = metadata_.get_int(kTensors, 0, std::int64_t{1} << 32);
    if (expected && std::cmp_not_equal(*expected, tensors_.size()))
      throw Error(Code::kBadInput,
                  fmt::format("metadata key '{}': is {}, but the {} parts have {} tensors", kTensors, *expected,
                              files_.size(), tensors_.size()),
                  metadata_.path());
    return std::make_unique<MappedModel>(std::move(files_), std::move(metadata_), std::move(tensors_));
  }

 private:
  [[noreturn]] void foreign(const std::string& path, const std::string& why) const {
    throw Error(Code::kBadInput, "is no part of the model of " + named_ + ": " + why, path);
  }

  void check_number(const Metadata& metadata, const PartName& name) const {
    const std::int64_t count = parts_in(metadata);
    const auto number = metadata.get_int(kNumber, 0, kMostParts);
    if (count != name.count)
      foreign(metadata.path(), fmt::format("metadata key '{}' is {}, expected {}", kCount, count, name.count));
    if (!number || *number + 1 != name.number)
      foreign(metadata.path(), fmt::format("metadata key '{}' {}, expected {}", kNumber,
                                           number ? fmt::format("is {}", *number) : "is missing", name.number - 1));
  }

  // What a later part says of the model besides its own place must be what the first says.
  void check_keys(const Metadata& metadata) {
    for (const auto& [key, value] : metadata.all()) {
      const Value* first = metadata_.find(key);
      if (key == kNumber) continue;
      if (!first)
        metadata_.set(key, value);
      else if (*first != value)
        foreign(metadata.path(), fmt::format("metadata key '{}' is not what the first part says", key));
    }
  }

  const std::string& named_;
  std::vector<MappedFile> files_;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::unordered_set<std::string> names_;
};

std::unique_ptr<ModelFile> open_parts(MappedFile file, GgufContents contents) {
  const std::string path = file.path();
  const std::int64_t count = parts_in(contents.metadata);
  auto part = parse_part_name(path);
  if (!part || part->count != count)
    throw Error(Code::kBadInput,
                fmt::format("metadata key '{}': one of {} parts of a model; expected a name that ends in "
                            "-00001-of-{:05}.gguf, by which the others are found",
                            kCount, count, count),
                path);
  const int named = part->number;
  Whole whole(path);
  for (part->number = 1; part->number <= part->count; ++part->number) {
    if (part->number == named) {
      whole.add(std::move(file), std::move(contents), *part);
      continue;
    }
    const std::string other = part_path(*part);
    std::error_code none;
    if (!std::filesystem::exists(other, none))
      throw Error(Code::kIo, fmt::format("is missing, part {} of {} of the model of {}", part->number, count, path),
                  other);
    MappedFile mapped(other);
    GgufContents read = parse_gguf(mapped.bytes(), other);
    whole.add(std::move(mapped), std::move(read), *part);
  }
  return whole.take();
}

bool recognises(const Sight& sight) { return sight.starts_with(kGgufMagic); }

std::unique_ptr<ModelFile> open(const std::string& path) {
  MappedFile file(path);
  GgufContents contents = parse_gguf(file.bytes(), path);
  if (parts_in(contents.metadata) > 1) return open_parts(std::move(file), std::move(contents));
  std::vector<MappedFile> files;
  files.push_back(std::move(file));
  return std::make_unique<MappedModel>(std::move(files), std::move(contents.metadata), std::move(contents.tensors));
}

}  // namespace

const Format entry{
    .summary = "GGUF version 2 and 3, little endian, whole or in parts", .recognises = recognises, .open = open};

}  // namespace kvasir::weights::formats_gguf
