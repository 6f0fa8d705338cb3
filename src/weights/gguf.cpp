#include "weights/gguf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "base/error.hpp"

namespace kvasir::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read with memcpy");

constexpr std::uint64_t kMaxArray = std::uint64_t{1} << 26;  // elements; the largest vocabularies have 2^18 tokens
constexpr std::uint64_t kMaxKey = 65535;                     // bytes, as the format says
constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;
constexpr std::size_t kMaxFaults = 20;                 // reported; the rest is counted
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // key of one byte, type, smallest value
constexpr std::uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // name of one byte, rank 1, one dimension, type, offset

constexpr const char* kTypeNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::uint32_t kTypeCount = std::size(kTypeNames);

// Bytes that one value takes in the file at least.
std::uint64_t least_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    default:
      return 8;
  }
}

// Text from the file, for messages: short, and without bytes that would harm a terminal.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + (text.size() > kLongest ? "…'" : "'");
}

class Parser {
 public:
  Parser(std::span<const std::byte> file, const std::string& path) : file_(file), path_(path) {
    out_.metadata = Metadata(path);
  }

  GgufContents run() {
    header();
    for (std::uint64_t i = 0; i < keys_; ++i) key_value(i);
    where_ = "header";
    alignment();
    out_.tensors.reserve(tensors_);
    offsets_.reserve(tensors_);
    for (std::uint64_t i = 0; i < tensors_; ++i) tensor(i);
    place();
    if (!faults_.empty()) report();
    return std::move(out_);
  }

 private:
  // What can be read further on is not known any more: reports this fault with those collected before.
  [[noreturn]] void fail(const std::string& message, Code code = Code::kBadInput) {
    fault(message, code);
    report();
  }

  // Collects a fault; reading goes on.
  void fault(const std::string& message, Code code = Code::kBadInput) {
    if (code == Code::kBadInput) code_ = code;
    ++fault_count_;
    if (faults_.size() < kMaxFaults) faults_.push_back(where_ + ": " + message);
  }

  [[noreturn]] void report() const {
    std::string message;
    if (fault_count_ == 1) {
      message = faults_.front();
    } else {
      message = fmt::format("{} faults:", fault_count_);
      for (const std::string& f : faults_) message += "\n  " + f;
      if (fault_count_ > faults_.size()) message += fmt::format("\n  and {} more", fault_count_ - faults_.size());
    }
    throw Error(code_, message, path_);
  }

  std::uint64_t left() const { return file_.size() - at_; }

  const std::byte* take(std::uint64_t bytes, const char* field) {
    if (bytes > left())
      fail(fmt::format("{} needs {} bytes at byte {}, but the file ends at {} (truncated?)", field, bytes, at_,
                       file_.size()));
    const std::byte* p = file_.data() + at_;
    at_ += bytes;
    return p;
  }

  template <class T>
  T number(const char* field) {
    T value;
    std::memcpy(&value, take(sizeof value, field), sizeof value);
    return value;
  }

  std::string_view text(const char* field) {
    const auto length = number<std::uint64_t>(field);
    return {reinterpret_cast<const char*>(take(length, field)), length};
  }

  void header();
  void key_value(std::uint64_t index);
  void alignment();
  void tensor(std::uint64_t index);
  bool dimensions(TensorInfo& info, std::uint32_t rank);
  void place();
  void place(TensorInfo& info, std::uint64_t offset, std::uint64_t size);
  void overlaps();

  GgufType value_type(const char* field);
  Value value(GgufType type);
  Value array();
  bool boolean(std::uint8_t byte);
  template <class T>
  Value integer();
  template <class T>
  Value numbers(std::uint64_t count);
  template <class T>
  Value floats(std::uint64_t count);

  std::span<const std::byte> file_;
  const std::string& path_;
  std::uint64_t at_ = 0;  // always <= file_.size()
  std::string where_ = "header";
  std::uint64_t tensors_ = 0;
  std::uint64_t keys_ = 0;
  GgufContents out_;
  std::vector<std::uint64_t> offsets_;          // of out_.tensors
  std::unordered_set<std::string_view> names_;  // of tensors, in the file
  std::vector<std::string> faults_;
  std::size_t fault_count_ = 0;
  Code code_ = Code::kUnsupported;  // until a fault says the bytes are broken
};

void Parser::header() {
  if (file_.size() < kGgufMagic.size() || std::memcmp(file_.data(), kGgufMagic.data(), kGgufMagic.size()) != 0)
    fail("not a GGUF file: it does not start with 'GGUF'");
  at_ = kGgufMagic.size();
  const auto version = number<std::uint32_t>("version");
  if ((version & 0xffff) == 0 && version != 0)
    fail("a big-endian GGUF file; only little-endian ones can be read", Code::kUnsupported);
  if (version != 2 && version != kGgufVersion)
    fail(fmt::format("GGUF version {}; versions 2 and 3 can be read", version), Code::kUnsupported);
  out_.version = version;
  tensors_ = number<std::uint64_t>("number of tensors");
  keys_ = number<std::uint64_t>("number of metadata keys");
  if (keys_ > left() / kMinKeyBytes)
    fail(fmt::format("{} metadata keys do not fit into the {} bytes that follow", keys_, left()));
  if (tensors_ > left() / kMinTensorBytes)
    fail(fmt::format("{} tensors do not fit into the {} bytes that follow", tensors_, left()));
}

GgufType Parser::value_type(const char* field) {
  const auto type = number<std::uint32_t>(field);
  if (type >= kTypeCount)
    fail(fmt::format("{} {} is unknown; expected 0 ({}) to {} ({})", field, type, kTypeNames[0], kTypeCount - 1,
                     kTypeNames[kTypeCount - 1]));
  return static_cast<GgufType>(type);
}

void Parser::key_value(std::uint64_t index) {
  where_ = fmt::format("metadata key {} of {}", index + 1, keys_);
  const std::string_view key = text("key");
  where_ = fmt::format("metadata key {} ({} of {})", in_quotes(key), index + 1, keys_);
  if (key.empty() || key.size() > kMaxKey)
    fail(fmt::format("the key has {} bytes; expected 1 to {}", key.size(), kMaxKey));
  Value v = value(value_type("value type"));
  if (out_.metadata.has(key)) {
    fault("the key occurs twice");
    return;
  }
  out_.metadata.set(std::string(key), std::move(v));
}

bool Parser::boolean(std::uint8_t byte) {
  if (byte > 1) fault(fmt::format("a bool has the value {}; expected 0 or 1", byte));
  return byte != 0;
}

template <class T>
Value Parser::integer() {
  const T v = number<T>("value");
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return v;
  }
  return static_cast<std::int64_t>(v);
}

Value Parser::value(GgufType type) {
  switch (type) {
    case GgufType::kU8:
      return integer<std::uint8_t>();
    case GgufType::kI8:
      return integer<std::int8_t>();
    case GgufType::kU16:
      return integer<std::uint16_t>();
    case GgufType::kI16:
      return integer<std::int16_t>();
    case GgufType::kU32:
      return integer<std::uint32_t>();
    case GgufType::kI32:
      return integer<std::int32_t>();
    case GgufType::kU64:
      return integer<std::uint64_t>();
    case GgufType::kI64:
      return integer<std::int64_t>();
    case GgufType::kF32:
      return static_cast<double>(number<float>("value"));
    case GgufType::kF64:
      return number<double>("value");
    case GgufType::kBool:
      return boolean(number<std::uint8_t>("value"));
    case GgufType::kString:
      return std::string(text("value"));
    case GgufType::kArray:
      return array();
  }
  fail("unknown value type");
}

template <class T>
Value Parser::numbers(std::uint64_t count) {
  const std::byte* p = take(count * sizeof(T), "array");
  std::vector<std::int64_t> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    T v;
    std::memcpy(&v, p + i * sizeof v, sizeof v);
    out[i] = static_cast<std::int64_t>(v);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (out[i] < 0) fail(fmt::format("element {} of the array is {}, above the range of int64", i, v));
    }
  }
  return out;
}

template <class T>
Value Parser::floats(std::uint64_t count) {
  const std::byte* p = take(count * sizeof(T), "array");
  std::vector<double> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    T v;
    std::memcpy(&v, p + i * sizeof v, sizeof v);
    out[i] = v;
  }
  return out;
}

Value Parser::array() {
  const GgufType type = value_type("array element type");
  const auto count = number<std::uint64_t>("array length");
  // Bounds every allocation below, and every count * size.
  if (count > left() / least_bytes(type))
    fail(fmt::format("an array of {} {} does not fit into the {} bytes that follow", count,
                     kTypeNames[static_cast<int>(type)], left()));
  if (count > kMaxArray) fail(fmt::format("an array of {} elements; expected at most {}", count, kMaxArray));
  switch (type) {
    case GgufType::kU8:
      return numbers<std::uint8_t>(count);
    case GgufType::kI8:
      return numbers<std::int8_t>(count);
    case GgufType::kU16:
      return numbers<std::uint16_t>(count);
    case GgufType::kI16:
      return numbers<std::int16_t>(count);
    case GgufType::kU32:
      return numbers<std::uint32_t>(count);
    case GgufType::kI32:
      return numbers<std::int32_t>(count);
    case GgufType::kU64:
      return numbers<std::uint64_t>(count);
    case GgufType::kI64:
      return numbers<std::int64_t>(count);
    case GgufType::kF32:
      return floats<float>(count);
    case GgufType::kF64:
      return floats<double>(count);
    case GgufType::kBool: {
      const std::byte* p = take(count, "array");
      std::vector<bool> out(count);
      const std::byte* bad = std::find_if(p, p + count, [](std::byte b) { return b > std::byte{1}; });
      if (bad != p + count)
        fault(fmt::format("element {} of a bool array is {}; expected 0 or 1", bad - p, static_cast<int>(*bad)));
      for (std::uint64_t i = 0; i < count; ++i) out[i] = p[i] != std::byte{0};
      return out;
    }
    case GgufType::kString: {
      std::vector<std::string> out;
      out.reserve(count);
      for (std::uint64_t i = 0; i < count; ++i) out.emplace_back(text("array element"));
      return out;
    }
    case GgufType::kArray:
      fail("an array of arrays; only arrays of plain values can be read", Code::kUnsupported);
  }
  fail("unknown array element type");
}

void Parser::alignment() {
  const Value* v = out_.metadata.find("general.alignment");
  if (!v) return;
  where_ = "metadata key 'general.alignment'";
  const auto* n = std::get_if<std::int64_t>(v);
  if (!n) {
    fault("not an integer");
  } else if (*n < 8 || *n > static_cast<std::int64_t>(kMaxAlignment) ||
             !std::has_single_bit(static_cast<std::uint64_t>(*n))) {
    fault(fmt::format("{}; expected a power of two from 8 to {}", *n, kMaxAlignment));
  } else {
    out_.alignment = static_cast<std::uint64_t>(*n);
  }
}

// Reads `rank` dimensions into info.shape; false when they cannot be a tensor's.
bool Parser::dimensions(TensorInfo& info, std::uint32_t rank) {
  const std::byte* p = take(std::uint64_t{rank} * 8, "dimensions");
  if (rank < 1 || rank > info.shape.size()) {
    fault(fmt::format("rank {}; expected 1 to {}", rank, info.shape.size()));
    return false;
  }
  info.rank = static_cast<int>(rank);
  std::int64_t elements = 1;
  for (std::uint32_t d = 0; d < rank; ++d) {
    std::memcpy(&info.shape[d], p + d * 8, 8);
    if (info.shape[d] < 1) {
      fault(fmt::format("dimension {} is {}; expected 1 to 2^63 - 1", d, static_cast<std::uint64_t>(info.shape[d])));
      return false;
    }
    if (__builtin_mul_overflow(elements, info.shape[d], &elements)) {
      fault("the product of the dimensions is above 2^63 - 1");
      return false;
    }
  }
  return true;
}

void Parser::tensor(std::uint64_t index) {
  where_ = fmt::format("tensor {} of {}", index + 1, tensors_);
  TensorInfo info;
  const std::string_view name = text("name");
  info.name = name;
  where_ = fmt::format("tensor {} ({} of {})", in_quotes(name), index + 1, tensors_);
  if (name.empty()) fault("the name is empty");
  if (!names_.insert(name).second) fault("the name occurs twice");
  const bool sane = dimensions(info, number<std::uint32_t>("rank"));
  const auto type = number<std::uint32_t>("type");
  const auto offset = number<std::uint64_t>("offset");
  if (const auto t = find_block_type(type)) {
    info.quant = t->quant;
  } else {
    const std::string known = ggml_type_name(type);
    const std::string what = known.empty() ? fmt::format("weight type {} is unknown", type)
                                           : fmt::format("weight type {} ({}) is known but not supported", known, type);
    fault(fmt::format("{}; supported are {}", what, block_type_names()), Code::kUnsupported);
  }
  if (!sane) info.rank = 0;  // place() leaves it alone
  out_.tensors.push_back(std::move(info));
  offsets_.push_back(offset);
}

// Finds the bytes of all tensors: only now is the start of the data known.
void Parser::place() {
  const std::uint64_t start = (at_ + out_.alignment - 1) / out_.alignment * out_.alignment;
  const std::uint64_t size = start < file_.size() ? file_.size() - start : 0;
  at_ = std::min<std::uint64_t>(start, file_.size());
  for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
    TensorInfo& info = out_.tensors[i];
    if (info.rank == 0 || info.quant.empty()) continue;
    where_ = fmt::format("tensor {} ({} of {})", in_quotes(info.name), i + 1, tensors_);
    place(info, offsets_[i], size);
  }
  if (faults_.empty()) overlaps();
}

void Parser::place(TensorInfo& info, std::uint64_t offset, std::uint64_t size) {
  const BlockType type = find_block_type(info.quant).value();
  if (info.columns() % type.block != 0) {
    fault(fmt::format("rows of {} elements; expected a multiple of the block of {}, {}", info.columns(), info.quant,
                      type.block));
    return;
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(info.columns() / type.block, type.block_bytes, &bytes) ||
      __builtin_mul_overflow(bytes, info.rows(), &bytes)) {
    fault("its size in bytes is above 2^63 - 1");
    return;
  }
  const auto length = static_cast<std::uint64_t>(bytes);
  if (offset % out_.alignment != 0)
    fault(fmt::format("offset {} is no multiple of the alignment, {}", offset, out_.alignment));
  if (offset > size || length > size - offset) {
    fault(fmt::format("{} bytes at offset {} end beyond the {} bytes of tensor data in the file (truncated?)", length,
                      offset, size));
    return;
  }
  info.bytes = file_.subspan(at_ + offset, length);
}

void Parser::overlaps() {
  std::vector<const TensorInfo*> order;
  order.reserve(out_.tensors.size());
  for (const TensorInfo& t : out_.tensors) order.push_back(&t);
  std::sort(order.begin(), order.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->bytes.data() < b->bytes.data(); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (order[i - 1]->bytes.data() + order[i - 1]->bytes.size() <= order[i]->bytes.data()) continue;
    where_ = fmt::format("tensor {}", in_quotes(order[i]->name));
    fault(fmt::format("its bytes overlap those of {}", in_quotes(order[i - 1]->name)));
  }
}

}  // namespace

GgufContents parse_gguf(std::span<const std::byte> file, const std::string& path) { return Parser(file, path).run(); }

}  // namespace kvasir::weights
