#include "weights/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "weights/format.hpp"

namespace kvasir::weights {

namespace {

constexpr std::size_t kHeadBytes = 64;

// What a file starts with, as text where it is text.
std::string shown(std::span<const std::byte> head) {
  std::string out;
  for (const std::byte b : head.first(std::min<std::size_t>(head.size(), 8))) {
    const int c = std::to_integer<int>(b);
    out += c >= 0x20 && c < 0x7f && c != '\\' ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return out;
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
    names.push_back(i->path().filename().string());
  if (error) throw Error(Code::kIo, "cannot read the folder: " + error.message(), folder.string());
  std::sort(names.begin(), names.end());
  return names;
}

const Format* recognised(const Sight& sight) {
  for (const auto& f : formats())
    if (f.value->recognises(sight)) return f.value;
  return nullptr;
}

const Format& format_of(const std::string& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) {
    if (const Format* format = recognised({.folder = true, .names = names_in(path)})) return *format;
    throw Error(Code::kBadInput,
                fmt::format("not a regular file, and no folder of one of the formats {}", names(formats())), path);
  }
  const MappedFile file(path);
  const auto head = file.bytes().first(std::min(file.bytes().size(), kHeadBytes));
  if (const Format* format = recognised({.head = head})) return *format;
  throw Error(
      Code::kBadInput,
      fmt::format("no model file: it starts with '{}'; expected one of the formats {}", shown(head), names(formats())),
      path);
}

}  // namespace

bool Sight::starts_with(std::string_view magic) const {
  return head.size() >= magic.size() && std::memcmp(head.data(), magic.data(), magic.size()) == 0;
}
bool Sight::holds(std::string_view name) const { return std::binary_search(names.begin(), names.end(), name); }

MappedModel::MappedModel(std::vector<MappedFile> files, Metadata metadata, std::vector<TensorInfo> tensors,
                         std::vector<std::vector<float>> floats)
    : files_(std::move(files)),
      floats_(std::move(floats)),
      metadata_(std::move(metadata)),
      tensors_(std::move(tensors)) {
  index_.reserve(tensors_.size());
  for (const TensorInfo& t : tensors_) index_.emplace(t.name, &t);
}

const TensorInfo* MappedModel::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : it->second;
}

void MappedModel::drop(std::span<const std::byte> bytes) const {
  for (const MappedFile& file : files_) {
    const auto all = file.bytes();
    if (bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size()) return file.drop(bytes);
  }
}

std::unique_ptr<ModelFile> open_model_file(const std::string& path) { return format_of(path).open(path); }

}  // namespace kvasir::weights
