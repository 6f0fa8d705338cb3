#include "weights/gguf_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::weights {
namespace {

template <class T>
constexpr GgufType type_of() {
  if constexpr (std::is_same_v<T, bool>) return GgufType::kBool;
  if constexpr (std::is_same_v<T, float>) return GgufType::kF32;
  if constexpr (std::is_same_v<T, double>) return GgufType::kF64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return GgufType::kU8;
  if constexpr (std::is_same_v<T, std::int8_t>) return GgufType::kI8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return GgufType::kU16;
  if constexpr (std::is_same_v<T, std::int16_t>) return GgufType::kI16;
  if constexpr (std::is_same_v<T, std::uint32_t>) return GgufType::kU32;
  if constexpr (std::is_same_v<T, std::int32_t>) return GgufType::kI32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return GgufType::kU64;
  return GgufType::kI64;
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

void append_string(std::vector<std::byte>& out, std::string_view text) {
  append(out, static_cast<std::uint64_t>(text.size()));
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  out.insert(out.end(), p, p + text.size());
}

// Walks over what parse_gguf has checked.
class Walk {
 public:
  explicit Walk(std::span<const std::byte> file) : p_(file.data()) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, p_, sizeof value);
    p_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const auto n = number<std::uint64_t>();
    p_ += n;
    return {reinterpret_cast<const char*>(p_ - n), n};
  }
  void value(GgufType type) {
    if (type == GgufType::kString) {
      text();
    } else if (type == GgufType::kArray) {
      const auto of = static_cast<GgufType>(number<std::uint32_t>());
      const auto n = number<std::uint64_t>();
      for (std::uint64_t i = 0; i < n; ++i) value(of);
    } else {
      constexpr int kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // by GgufType
      p_ += kBytes[static_cast<int>(type)];
    }
  }
  const std::byte* at() const { return p_; }

 private:
  const std::byte* p_;
};

std::uint64_t aligned(std::uint64_t n, std::uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

}  // namespace

GgufHeader::GgufHeader(std::uint64_t alignment) : alignment_(alignment) {
  KVASIR_CHECK(alignment >= 8 && std::has_single_bit(alignment));
  if (alignment != kGgufAlignment) set("general.alignment", static_cast<std::uint32_t>(alignment));
}

void GgufHeader::key(std::string_view key, GgufType type) {
  keys_.emplace(key);
  append_string(metadata_, key);
  append(metadata_, static_cast<std::uint32_t>(type));
}

template <class T>
void GgufHeader::set(std::string_view name, T value) {
  key(name, type_of<T>());
  append(metadata_, value);
}

template <class T>
void GgufHeader::set_array(std::string_view name, std::span<const T> values) {
  key(name, GgufType::kArray);
  append(metadata_, static_cast<std::uint32_t>(type_of<T>()));
  append(metadata_, static_cast<std::uint64_t>(values.size()));
  for (const T v : values) append(metadata_, v);
}

#define KVASIR_GGUF_TYPE(T)                                 \
  template void GgufHeader::set(std::string_view, T value); \
  template void GgufHeader::set_array(std::string_view, std::span<const T>);
KVASIR_GGUF_TYPE(bool)
KVASIR_GGUF_TYPE(float)
KVASIR_GGUF_TYPE(double)
KVASIR_GGUF_TYPE(std::uint8_t)
KVASIR_GGUF_TYPE(std::int8_t)
KVASIR_GGUF_TYPE(std::uint16_t)
KVASIR_GGUF_TYPE(std::int16_t)
KVASIR_GGUF_TYPE(std::uint32_t)
KVASIR_GGUF_TYPE(std::int32_t)
KVASIR_GGUF_TYPE(std::uint64_t)
KVASIR_GGUF_TYPE(std::int64_t)
#undef KVASIR_GGUF_TYPE

void GgufHeader::set_string(std::string_view name, std::string_view value) {
  key(name, GgufType::kString);
  append_string(metadata_, value);
}

void GgufHeader::set_strings(std::string_view name, std::span<const std::string> values) {
  key(name, GgufType::kArray);
  append(metadata_, static_cast<std::uint32_t>(GgufType::kString));
  append(metadata_, static_cast<std::uint64_t>(values.size()));
  for (const std::string& v : values) append_string(metadata_, v);
}

void GgufHeader::set_value(std::string_view key, const Value& value) {
  const auto put = [&](const auto& v) {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::int64_t>) {
      std::in_range<std::uint32_t>(v) ? set(key, static_cast<std::uint32_t>(v)) : set(key, v);
    } else if constexpr (std::is_same_v<T, double>) {
      set(key, static_cast<float>(v));
    } else if constexpr (std::is_same_v<T, std::string>) {
      set_string(key, v);
    } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
      const auto flags = std::make_unique<bool[]>(v.size());
      std::copy(v.begin(), v.end(), flags.get());
      set_array<bool>(key, std::span<const bool>(flags.get(), v.size()));
    } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      const bool small = std::all_of(v.begin(), v.end(), [](std::int64_t x) { return std::in_range<std::int32_t>(x); });
      small ? set_array<std::int32_t>(key, std::vector<std::int32_t>(v.begin(), v.end()))
            : set_array<std::int64_t>(key, v);
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      set_array<float>(key, std::vector<float>(v.begin(), v.end()));
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      set_strings(key, v);
    } else {
      set(key, v);
    }
  };
  std::visit(put, value);
}

void GgufHeader::copy_metadata(std::span<const std::byte> file, std::span<const std::string_view> but) {
  Walk walk(file.subspan(kGgufMagic.size() + 4 + 8));  // magic, version, number of tensors
  const auto keys = walk.number<std::uint64_t>();
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::byte* const from = walk.at();
    const std::string_view name = walk.text();
    walk.value(static_cast<GgufType>(walk.number<std::uint32_t>()));
    if (std::find(but.begin(), but.end(), name) != but.end() || keys_.contains(name)) continue;
    keys_.emplace(name);
    metadata_.insert(metadata_.end(), from, walk.at());
  }
}

std::uint64_t GgufHeader::add_tensor(std::string_view name, std::string_view quant,
                                     std::span<const std::int64_t> shape) {
  const auto type = find_block_type(quant);
  if (!type)
    throw Error(Code::kUnsupported, fmt::format("weight type '{}'; expected one of {}", quant, block_type_names()),
                std::string(name));
  std::int64_t bytes = type->block_bytes;
  bool good = !shape.empty() && shape.size() <= 4 && shape[0] >= 1 && shape[0] % type->block == 0 &&
              !__builtin_mul_overflow(bytes, shape[0] / type->block, &bytes);
  for (std::size_t d = 1; good && d < shape.size(); ++d)
    good = shape[d] >= 1 && !__builtin_mul_overflow(bytes, shape[d], &bytes);
  if (!good)
    throw Error(Code::kBadInput,
                fmt::format("expected 1 to 4 dimensions >= 1, the first a multiple of {}", type->block),
                std::string(name));
  append_string(tensors_, name);
  append(tensors_, static_cast<std::uint32_t>(shape.size()));
  for (const std::int64_t n : shape) append(tensors_, n);
  append(tensors_, type->ggml_type);
  append(tensors_, end_);
  sizes_.push_back(static_cast<std::uint64_t>(bytes));
  end_ = aligned(end_ + sizes_.back(), alignment_);
  return sizes_.back();
}

std::vector<std::byte> GgufHeader::encode() const {
  std::vector<std::byte> out;
  for (const char c : kGgufMagic) out.push_back(static_cast<std::byte>(c));
  append(out, kGgufVersion);
  append(out, static_cast<std::uint64_t>(sizes_.size()));
  append(out, static_cast<std::uint64_t>(keys_.size()));
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  out.insert(out.end(), tensors_.begin(), tensors_.end());
  out.resize(aligned(out.size(), alignment_));
  return out;
}

GgufWriter::GgufWriter(std::string path, const GgufHeader& header)
    : path_(std::move(path)),
      temporary_(path_ + ".partial." + std::to_string(::getpid())),
      alignment_(header.alignment()),
      sizes_(header.sizes().begin(), header.sizes().end()) {
  check_replaceable(path_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) io_error("cannot create");
  put(header.encode());
}

GgufWriter::~GgufWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

// The temporary file goes at once: when the constructor throws, no destructor will run.
void GgufWriter::io_error(const char* what) {
  const std::string reason = std::strerror(errno);
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
    ::unlink(temporary_.c_str());
  }
  throw Error(Code::kIo, std::string(what) + ": " + reason, path_);
}

void GgufWriter::put(std::span<const std::byte> bytes) {
  written_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error("cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  KVASIR_CHECK(fd_ >= 0 && tensor_ < sizes_.size() && bytes.size() <= sizes_[tensor_] - in_tensor_);
  put(bytes);
  in_tensor_ += bytes.size();
  if (in_tensor_ < sizes_[tensor_]) return;
  put(std::vector<std::byte>(aligned(in_tensor_, alignment_) - in_tensor_));
  ++tensor_;
  in_tensor_ = 0;
}

void GgufWriter::finish() {
  KVASIR_CHECK(fd_ >= 0 && tensor_ == sizes_.size());
  if (::close(std::exchange(fd_, -1)) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    io_error("cannot finish");
  }
}

}  // namespace kvasir::weights
