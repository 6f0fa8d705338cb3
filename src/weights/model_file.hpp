// What a model holds, whatever its format: metadata (key, value) and named tensors whose bytes stay in their files.
// Keys and names are those of GGUF (weights/format.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/file.hpp"

namespace kvasir::weights {

// One metadata value. Integers of any width are int64 or (above its range) uint64; floats are double.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<bool>,
                           std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

class Metadata {
 public:
  explicit Metadata(std::string path = {}) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool has(std::string_view key) const;
  const Value* find(std::string_view key) const;  // nullptr when absent
  void set(std::string key, Value value);
  const std::map<std::string, Value, std::less<>>& all() const { return values_; }

  // Typed access. The `require_` forms throw Error(kBadInput) naming file and key when the key is absent; every form
  // throws it when the value has another type or (integers) lies outside [low, high]. Integers are accepted where a
  // float is asked.
  std::int64_t require_int(std::string_view key, std::int64_t low, std::int64_t high) const;
  std::optional<std::int64_t> get_int(std::string_view key, std::int64_t low, std::int64_t high) const;
  double require_float(std::string_view key) const;  // finite
  std::optional<double> get_float(std::string_view key) const;
  const std::string& require_string(std::string_view key) const;
  std::optional<std::string> get_string(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  const std::vector<std::string>* get_strings(std::string_view key) const;  // nullptr when absent
  const std::vector<std::int64_t>* get_ints(std::string_view key) const;    // nullptr when absent
  const std::vector<double>* get_floats(std::string_view key) const;        // nullptr when absent

 private:
  std::string path_;
  std::map<std::string, Value, std::less<>> values_;
};

// Rows that do not lie in their file as rows: made when they are asked for.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual std::int64_t row_bytes() const = 0;
  // Rows `rows` of the file one behind the other, in the tensor's weight type. Rows that lie near each other are read
  // together: ask for many. May be called by several threads.
  virtual void read(std::span<const std::int64_t> rows, std::byte* out) const = 0;
  // Bytes that a call for `rows` rows takes for itself, where they are more than some rows.
  virtual std::int64_t scratch([[maybe_unused]] std::int64_t rows) const { return 0; }
};

// Rows with columns in an order of their own: column j belongs to element order[j] of what the matrix reads.
struct OrderedRows {
  std::string quant;
  std::shared_ptr<const RowSource> source;
  std::shared_ptr<const std::vector<std::int32_t>> order;  // a permutation of the columns
};

struct TensorInfo {
  std::string name;
  std::string quant;                              // stem of its entry in weights/quants: "q4_0", "f16", …
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};  // fastest dimension first, as GGUF stores it: {columns, rows, …}
  int rank = 0;
  std::span<const std::byte> bytes;         // inside a mapped file, or floats beside it
  std::shared_ptr<const RowSource> source;  // then `bytes` is what it reads, and rows are only had from it
  // Heads whose rows lie here as two halves and are pairs in GGUF; 0: as in GGUF. See row_in_file.
  std::int64_t half_heads = 0;
  // The same rows in fewer bytes, for those who read columns in another order; `quant` and `source` have GGUF's.
  std::shared_ptr<const OrderedRows> ordered;

  std::int64_t columns() const { return shape[0]; }
  std::int64_t rows() const { return shape[1] * shape[2] * shape[3]; }

  // Where row `row` lies in `bytes`: rows 2i and 2i + 1 of a head of d rows are the rows i and d/2 + i of the file's.
  std::int64_t row_in_file(std::int64_t row) const {
    if (half_heads == 0) return row;
    const std::int64_t d = rows() / half_heads, in_head = row % d;
    return row - in_head + in_head / 2 + in_head % 2 * (d / 2);
  }

  std::int64_t row_bytes() const {
    return source ? source->row_bytes() : static_cast<std::int64_t>(bytes.size()) / rows();
  }
  // This tensor in the fewest bytes, with columns as `ordered` has them.
  TensorInfo kept() const {
    TensorInfo t = *this;
    if (ordered) t.quant = ordered->quant, t.source = ordered->source;
    return t;
  }
  // One row, GGUF's order. `room` holds it where it has to be made.
  const std::byte* row(std::int64_t row, std::vector<std::byte>& room) const {
    const std::int64_t at = row_in_file(row);
    if (!source) return bytes.data() + at * row_bytes();
    room.resize(static_cast<std::size_t>(source->row_bytes()));
    source->read({&at, 1}, room.data());
    return room.data();
  }
};

// An open model. Everything it returns stays valid while it lives.
class ModelFile {
 public:
  virtual ~ModelFile() = default;
  virtual const Metadata& metadata() const = 0;
  virtual std::span<const TensorInfo> tensors() const = 0;  // in file order
  virtual const TensorInfo* find(std::string_view name) const = 0;
  virtual std::span<const MappedFile> files() const { return {}; }  // what it was read from
  // The bytes of `tensor` were copied elsewhere and may leave resident memory.
  virtual void drop(std::span<const std::byte> bytes) const = 0;
};

// A model in any number of mapped files.
class MappedModel final : public ModelFile {
 public:
  // REQUIRES: the tensors' bytes lie in `files` or `floats`, their names differ.
  MappedModel(std::vector<MappedFile> files, Metadata metadata, std::vector<TensorInfo> tensors,
              std::vector<std::vector<float>> floats = {});

  const Metadata& metadata() const override { return metadata_; }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  std::span<const MappedFile> files() const override { return files_; }
  void drop(std::span<const std::byte> bytes) const override;

 private:
  std::vector<MappedFile> files_;
  std::vector<std::vector<float>> floats_;  // what a format had to compute: norms, factors
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, const TensorInfo*> index_;  // keys view tensors_
};

// Opens a file or a folder in whichever registered format (hub/formats) recognises it. Throws Error naming the
// path, the field and the expectation.
std::unique_ptr<ModelFile> open_model_file(const std::string& path);

}  // namespace kvasir::weights
