#include "weights/importance.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/gguf.hpp"

namespace kvasir::weights {
namespace {

using Values = std::map<std::string, std::vector<float>, std::less<>>;

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  std::span<const std::byte> take(std::size_t n, const std::string& what) {
    if (n > bytes_.size() - at_)
      fail(fmt::format("{} needs {} bytes at byte {}, but the file ends at {}", what, n, at_, bytes_.size()));
    return bytes_.subspan(std::exchange(at_, at_ + n), n);
  }
  // A number of things of `bytes` each that follow.
  std::size_t count(const std::string& what, std::size_t bytes) {
    std::int32_t n;
    std::memcpy(&n, take(4, what).data(), 4);
    if (n < 0 || static_cast<std::size_t>(n) > (bytes_.size() - at_) / bytes)
      fail(fmt::format("{} is {}; expected 0 to what the {} bytes that follow can hold", what, n, bytes_.size() - at_));
    return static_cast<std::size_t>(n);
  }
  std::int32_t number(const std::string& what) {
    std::int32_t n;
    std::memcpy(&n, take(4, what).data(), 4);
    return n;
  }
  [[noreturn]] void fail(const std::string& message) const { throw Error(Code::kBadInput, message, path_); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

Values read_old(std::span<const std::byte> bytes, const std::string& path) {
  Reader in(bytes, path);
  Values out;
  const std::size_t entries = in.count("the number of entries", 12);
  if (entries == 0) in.fail("the number of entries is 0; expected at least 1");
  for (std::size_t i = 0; i < entries; ++i) {
    const std::string which = fmt::format("entry {} of {}", i + 1, entries);
    const auto name = in.take(in.count(which + ": the length of its name", 1), which + ": its name");
    const std::int32_t calls = in.number(which + ": calls");
    const std::size_t n = in.count(which + ": its values", 4);
    std::vector<float> values(n);
    std::memcpy(values.data(), in.take(4 * n, which + ": its values").data(), 4 * n);
    if (calls > 0)
      for (float& v : values) v /= static_cast<float>(calls);
    out[std::string(reinterpret_cast<const char*>(name.data()), name.size())] = std::move(values);
  }
  return out;
}

std::vector<float> floats_of(const TensorInfo& t) {
  std::vector<float> out(t.bytes.size() / 4);
  std::memcpy(out.data(), t.bytes.data(), 4 * out.size());
  return out;
}

// Means are sums over counts, one count for each matrix; without a count nothing is known, and all columns are alike.
Values read_gguf(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
  const GgufContents file = parse_gguf(bytes, path);
  const auto fail = [&](const std::string& name, const std::string& message) {
    throw Error(Code::kBadInput, name + ": " + message, path);
  };
  std::map<std::string, const TensorInfo*, std::less<>> tensors;
  for (const TensorInfo& t : file.tensors) {
    if (!t.name.ends_with(kSums) && !t.name.ends_with(kCounts)) continue;
    if (t.quant != "f32") fail(t.name, "is of type " + t.quant + ", expected f32");
    tensors[t.name] = &t;
  }
  Values out;
  for (const TensorInfo& t : file.tensors) {
    if (!t.name.ends_with(kSums)) continue;
    const std::string name = t.name.substr(0, t.name.size() - kSums.size());
    const auto counted = tensors.find(name + std::string(kCounts));
    if (counted == tensors.end()) fail(name + std::string(kCounts), "is missing");
    const std::vector<float> counts = floats_of(*counted->second);
    std::vector<float> values = floats_of(t);
    if (counts.empty() || static_cast<std::int64_t>(counts.size()) != t.rows())
      fail(counted->first, fmt::format("has {} elements, expected {}", counts.size(), t.rows()));
    const auto columns = static_cast<std::size_t>(t.columns());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float count = counts[i / columns];
      values[i] = count > 0 ? values[i] / count : 1.0f;
    }
    out[name] = std::move(values);
  }
  if (out.empty()) throw Error(Code::kBadInput, "is no importance matrix: it has no tensor NAME.in_sum2", path);
  return out;
}

}  // namespace

Importance Importance::read(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const bool gguf =
      bytes.size() >= kGgufMagic.size() && std::memcmp(bytes.data(), kGgufMagic.data(), kGgufMagic.size()) == 0;
  Importance out;
  out.path_ = path;
  out.values_ = gguf ? read_gguf(bytes, path) : read_old(bytes, path);
  for (const auto& [name, values] : out.values_)
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!std::isfinite(values[i]) || values[i] < 0)
        throw Error(Code::kBadInput, fmt::format("{}[{}] is {}, expected a number of at least 0", name, i, values[i]),
                    path);
  return out;
}

std::span<const float> Importance::of(const TensorInfo& t, std::int64_t i, std::int64_t count) const {
  const auto at = values_.find(t.name);
  if (at == values_.end()) return {};
  const auto columns = static_cast<std::size_t>(t.columns()), have = at->second.size();
  // One for each matrix, or one for all of them.
  if (have != columns && have != columns * static_cast<std::size_t>(count))
    throw Error(Code::kBadInput,
                fmt::format("{} has {} values, expected {}", t.name, have, columns * static_cast<std::size_t>(count)),
                path_);
  return std::span(at->second).subspan(have == columns ? 0 : static_cast<std::size_t>(i) * columns, columns);
}

}  // namespace kvasir::weights
