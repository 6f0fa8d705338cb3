#include "weights/safetensors/shard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "weights/safetensors/json_text.hpp"

namespace kvasir::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers are read with memcpy");

struct Dtype {
  std::string_view name;
  int bits;
};
constexpr Dtype kDtypes[] = {{"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F8_E4M3", 8},
                             {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
                             {"C64", 64},    {"I64", 64},    {"U64", 64},    {"I32", 32},    {"U32", 32},
                             {"I16", 16},    {"U16", 16},    {"I8", 8},      {"U8", 8},      {"BOOL", 8}};

class Shard {
 public:
  Shard(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {}

  std::vector<ShardTensor> tensors() {
    const FolderJson header = read_header();
    std::vector<Placed> all;
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") all.push_back(read_tensor(name, value));
    std::sort(all.begin(), all.end(),
              [](const Placed& a, const Placed& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
    std::uint64_t at = 0;
    std::vector<ShardTensor> out;
    for (Placed& p : all) {
      if (p.begin != at)
        bad(p.tensor.name, fmt::format("begins at byte {} of the data, {} the tensor before it, which ends at {}",
                                       p.begin, p.begin < at ? "inside" : "behind a gap after", at));
      at = p.end;
      p.tensor.bytes = data_.subspan(p.begin, p.end - p.begin);
      out.push_back(std::move(p.tensor));
    }
    if (at != data_.size())
      throw Error(Code::kBadInput,
                  fmt::format("has {} bytes of data, but its tensors end at byte {}", data_.size(), at), path_);
    return out;
  }

 private:
  struct Placed {
    ShardTensor tensor;
    std::uint64_t begin, end;
  };

  [[noreturn]] void bad(const std::string& tensor, const std::string& text) const {
    throw Error(Code::kBadInput, fmt::format("tensor {}: {}", tensor.substr(0, 200), text), path_);
  }

  FolderJson read_header() {
    std::uint64_t length = 0;
    if (file_.size() < sizeof length) throw Error(Code::kBadInput, "is too short for a safetensors file", path_);
    std::memcpy(&length, file_.data(), sizeof length);
    const std::uint64_t left = file_.size() - sizeof length;
    if (length > left || length > kMostHeaderBytes)
      throw Error(Code::kBadInput,
                  fmt::format("the header has {} bytes, expected at most {}", length, std::min(left, kMostHeaderBytes)),
                  path_);
    const auto header = file_.subspan(sizeof length, length);
    data_ = file_.subspan(sizeof length + length);
    return parse_folder_json({reinterpret_cast<const char*>(header.data()), header.size()}, path_);
  }

  Placed read_tensor(const std::string& name, const FolderJson& value) const {
    if (!value.is_object()) bad(name, "expected an object with dtype, shape and data_offsets");
    const auto dtype = value.find("dtype"), shape = value.find("shape"), offsets = value.find("data_offsets");
    if (dtype == value.end() || !dtype->is_string()) bad(name, "'dtype' is missing, expected a text");
    if (shape == value.end() || !shape->is_array()) bad(name, "'shape' is missing, expected an array");
    Placed p{.tensor = {.name = name, .dtype = *dtype, .shape = {}, .bytes = {}}, .begin = 0, .end = 0};
    const auto known =
        std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const Dtype& d) { return d.name == p.tensor.dtype; });
    if (known == std::end(kDtypes))
      bad(name, fmt::format("'dtype' is '{}', which is no type of the format", p.tensor.dtype.substr(0, 40)));
    const std::uint64_t elements = read_shape(name, *shape, p.tensor.shape);
    if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
        !(*offsets)[1].is_number_unsigned())
      bad(name, "'data_offsets': expected two numbers");
    p.begin = (*offsets)[0].get<std::uint64_t>();
    p.end = (*offsets)[1].get<std::uint64_t>();
    if (p.begin > p.end || p.end > data_.size())
      bad(name,
          fmt::format("'data_offsets' are {} and {}, expected ascending ones of at most {}, the bytes of the data",
                      p.begin, p.end, data_.size()));
    const std::uint64_t bits = elements * static_cast<std::uint64_t>(known->bits);
    if (bits % 8 != 0 || p.end - p.begin != bits / 8)
      bad(name, fmt::format("has {} bytes, expected {} for {} elements of {}", p.end - p.begin, bits / 8, elements,
                            p.tensor.dtype));
    return p;
  }

  // Returns the number of elements.
  std::uint64_t read_shape(const std::string& name, const FolderJson& shape, std::vector<std::int64_t>& out) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // elements; their bits do not overflow
    if (shape.size() > 8) bad(name, fmt::format("'shape' has {} dimensions, expected at most 8", shape.size()));
    std::uint64_t elements = 1;
    for (const FolderJson& d : shape) {
      if (!d.is_number_unsigned() || d.get<std::uint64_t>() > kMost) bad(name, "'shape': expected sizes below 2^48");
      const auto n = d.get<std::uint64_t>();
      if (n != 0 && elements > kMost / n) bad(name, "'shape': has more than 2^48 elements");
      elements *= n;
      out.push_back(static_cast<std::int64_t>(n));
    }
    return elements;
  }

  const std::span<const std::byte> file_;
  const std::string& path_;
  std::span<const std::byte> data_;
};

}  // namespace

std::vector<ShardTensor> parse_safetensors(std::span<const std::byte> file, const std::string& path) {
  return Shard(file, path).tensors();
}

}  // namespace kvasir::weights
