#include "weights/safetensors/made.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "simd/half.hpp"
#include "weights/pieces.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

bool is_plain(const TensorInfo& t) { return find(quants(), t.quant)->block == 1; }

// Rows of one tensor, as it has them.
void read_rows(const TensorInfo& t, std::span<const std::int64_t> rows, std::byte* out) {
  if (t.source) return t.source->read(rows, out);
  const auto bytes = static_cast<std::size_t>(t.row_bytes());
  for (const std::int64_t row : rows) {
    std::memcpy(out, t.bytes.data() + static_cast<std::size_t>(row) * bytes, bytes);
    out += bytes;
  }
}

class OfOne : public PiecedRows {
 public:
  explicit OfOne(TensorInfo from) : from_(std::move(from)) {}
  std::int64_t row_bytes() const override { return from_.row_bytes(); }
  std::vector<std::span<const std::byte>> pieces() const override { return pieces_of(from_); }
  std::int64_t scratch(std::int64_t rows) const override {  // most have a row of the other's beside it, as floats too
    return from_.row_bytes() + 4 * from_.columns() + (from_.source ? from_.source->scratch(rows) : 0);
  }

 protected:
  const TensorInfo from_;
};

class Stacked final : public PiecedRows {
 public:
  explicit Stacked(std::vector<TensorInfo> matrices) : matrices_(std::move(matrices)) {}
  std::int64_t row_bytes() const override { return matrices_.front().row_bytes(); }
  std::vector<std::span<const std::byte>> pieces() const override {
    std::vector<std::span<const std::byte>> all;
    for (const TensorInfo& t : matrices_)
      for (const auto piece : pieces_of(t)) all.push_back(piece);
    return all;
  }
  std::int64_t scratch(std::int64_t rows) const override {
    const auto& one = matrices_.front().source;
    return one ? one->scratch(rows) : 0;
  }
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    const std::int64_t each = matrices_.front().rows();
    std::vector<std::int64_t> inside;
    for (std::size_t i = 0; i < rows.size();) {
      const std::int64_t matrix = rows[i] / each;
      inside.clear();
      for (; i < rows.size() && rows[i] / each == matrix; ++i) inside.push_back(rows[i] % each);
      read_rows(matrices_[static_cast<std::size_t>(matrix)], inside, out);
      out += static_cast<std::int64_t>(inside.size()) * row_bytes();
    }
  }

 private:
  const std::vector<TensorInfo> matrices_;
};

class Joined final : public PiecedRows {
 public:
  explicit Joined(std::vector<TensorInfo> parts) : parts_(std::move(parts)) {}
  std::int64_t row_bytes() const override { return parts_.front().row_bytes(); }
  std::vector<std::span<const std::byte>> pieces() const override {
    std::vector<std::span<const std::byte>> all;
    for (const TensorInfo& t : parts_)
      for (const auto piece : pieces_of(t)) all.push_back(piece);
    return all;
  }
  std::int64_t scratch(std::int64_t rows) const override {
    std::int64_t most = 0;
    for (const TensorInfo& t : parts_) most = std::max(most, t.source ? t.source->scratch(rows) : 0);
    return most;
  }
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    for (std::int64_t row : rows) {
      auto part = parts_.begin();
      for (; row >= part->rows(); ++part) row -= part->rows();
      read_rows(*part, {&row, 1}, out);
      out += row_bytes();
    }
  }

 private:
  const std::vector<TensorInfo> parts_;
};

class Picked final : public OfOne {
 public:
  Picked(TensorInfo from, std::vector<std::int64_t> rows) : OfOne(std::move(from)), rows_(std::move(rows)) {}
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    std::vector<std::int64_t> there;
    for (const std::int64_t row : rows) there.push_back(rows_[static_cast<std::size_t>(row)]);
    read_rows(from_, there, out);
  }

 private:
  const std::vector<std::int64_t> rows_;
};

class WithColumns final : public OfOne {
 public:
  WithColumns(TensorInfo from, std::vector<std::int64_t> columns)
      : OfOne(std::move(from)),
        columns_(std::move(columns)),
        unit_bytes_(static_cast<std::size_t>(row_bytes()) / columns_.size()) {}
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    std::vector<std::byte> row(static_cast<std::size_t>(row_bytes()));
    for (const std::int64_t r : rows) {
      read_rows(from_, {&r, 1}, row.data());
      for (const std::int64_t c : columns_) {
        std::memcpy(out, row.data() + static_cast<std::size_t>(c) * unit_bytes_, unit_bytes_);
        out += unit_bytes_;
      }
    }
  }

 private:
  const std::vector<std::int64_t> columns_;
  const std::size_t unit_bytes_;
};

// Floats as rows of a type without blocks.
void write_floats(std::string_view quant, const float* x, std::byte* out, std::int64_t n) {
  find(quants(), quant)->quantise(x, out, n);
}

// Of a type of blocks.
class AsPlain final : public OfOne {
 public:
  AsPlain(TensorInfo from, std::string_view quant) : OfOne(std::move(from)), quant_(quant) {}
  std::int64_t row_bytes() const override { return find(quants(), quant_)->block_bytes * from_.columns(); }
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    std::vector<std::byte> row(static_cast<std::size_t>(from_.row_bytes()));
    std::vector<float> x(static_cast<std::size_t>(from_.columns()));
    for (const std::int64_t r : rows) {
      read_rows(from_, {&r, 1}, row.data());
      find(quants(), from_.quant)->dequantise(row.data(), x.data(), from_.columns());
      write_floats(quant_, x.data(), out, from_.columns());
      out += row_bytes();
    }
  }

 private:
  const std::string_view quant_;
};

class Turned final : public OfOne {
 public:
  explicit Turned(TensorInfo from) : OfOne(std::move(from)), element_(from_.row_bytes() / from_.columns()) {}
  std::int64_t row_bytes() const override { return element_ * from_.shape[1]; }
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    const std::int64_t columns = from_.columns(), each = from_.shape[1];
    std::vector<std::byte> room(static_cast<std::size_t>(from_.row_bytes()));
    const auto element = static_cast<std::size_t>(element_);
    for (std::size_t first = 0; first < rows.size();) {
      std::size_t last = first + 1;  // of one matrix
      while (last < rows.size() && rows[last] / columns == rows[first] / columns) ++last;
      for (std::int64_t j = 0; j < each; ++j) {
        const std::byte* const row = from_.row(rows[first] / columns * each + j, room);
        for (std::size_t i = first; i < last; ++i)
          std::memcpy(out + static_cast<std::int64_t>(i) * row_bytes() + j * element_,
                      row + static_cast<std::size_t>(rows[i] % columns) * element, element);
      }
      first = last;
    }
  }

 private:
  const std::int64_t element_;  // bytes
};

class Multiplied final : public OfOne {
 public:
  Multiplied(TensorInfo from, std::vector<float> by_row) : OfOne(std::move(from)), by_row_(std::move(by_row)) {}
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    std::vector<float> x(static_cast<std::size_t>(from_.columns()));
    read_rows(from_, rows, out);
    for (const std::int64_t r : rows) {
      find(quants(), from_.quant)->dequantise(out, x.data(), from_.columns());
      for (float& v : x) v *= by_row_[static_cast<std::size_t>(r)];
      write_floats(from_.quant, x.data(), out, from_.columns());
      out += row_bytes();
    }
  }

 private:
  const std::vector<float> by_row_;
};

class Mxfp4 final : public PiecedRows {
 public:
  Mxfp4(const ShardTensor& blocks, const ShardTensor& scales, std::int64_t groups)
      : blocks_(blocks.bytes), scales_(scales.bytes), groups_(groups) {}
  std::int64_t row_bytes() const override { return 17 * groups_; }
  std::vector<std::span<const std::byte>> pieces() const override { return {blocks_, scales_}; }
  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    const auto code = [](const std::byte* from, int i) {
      return std::to_integer<int>(from[i / 2]) >> 4 * (i % 2) & 15;
    };
    for (const std::int64_t row : rows)
      for (std::int64_t g = row * groups_; g < (row + 1) * groups_; ++g) {
        const std::byte* const from = blocks_.data() + 16 * g;
        *out++ = scales_[static_cast<std::size_t>(g)];
        for (int i = 0; i < 16; ++i) *out++ = static_cast<std::byte>(code(from, i) | code(from, i + 16) << 4);
      }
  }

 private:
  const std::span<const std::byte> blocks_, scales_;
  const std::int64_t groups_;
};

// With rows from elsewhere, in GGUF's order alone.
TensorInfo with_source(TensorInfo like, std::shared_ptr<const RowSource> source) {
  like.source = std::move(source);
  like.ordered.reset();
  return like;
}

TensorInfo as_plain(TensorInfo from) {
  if (is_plain(from)) return from;
  constexpr std::string_view kLong[] = {"int4_zero", "affine6", "affine8", "f8_e4m3"};  // f16 has too few digits
  const bool is_long = std::find(std::begin(kLong), std::end(kLong), from.quant) != std::end(kLong);
  const std::string_view quant = is_long ? "f32" : "f16";
  TensorInfo made = with_source(from, std::make_shared<AsPlain>(from, quant));
  made.quant = quant;
  return made;
}

}  // namespace

TensorInfo stacked(std::vector<TensorInfo> matrices) {
  const TensorInfo first = matrices.front();
  const auto count = static_cast<std::int64_t>(matrices.size());
  TensorInfo made = with_source(first, std::make_shared<Stacked>(std::move(matrices)));
  made.shape[2] = count;
  made.rank = 3;
  return made;
}

TensorInfo joined(std::vector<TensorInfo> parts) {
  const TensorInfo first = parts.front();
  std::int64_t rows = 0;
  for (const TensorInfo& t : parts) rows += t.rows();
  TensorInfo made = with_source(first, std::make_shared<Joined>(std::move(parts)));
  made.shape[1] = rows;
  return made;
}

std::vector<float> all_floats(const TensorInfo& t) {
  std::vector<float> x(static_cast<std::size_t>(t.columns() * t.rows()));
  std::vector<std::byte> room;
  const Quant& quant = *find(quants(), t.quant);
  for (std::int64_t r = 0; r < t.rows(); ++r) quant.dequantise(t.row(r, room), x.data() + r * t.columns(), t.columns());
  return x;
}

std::vector<std::int64_t> counted(std::int64_t first, std::int64_t n, std::int64_t step) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = first + i * step;
  return out;
}

TensorInfo picked(TensorInfo from, std::vector<std::int64_t> rows, std::int64_t count) {
  TensorInfo made = from;
  made.shape = {from.columns(), static_cast<std::int64_t>(rows.size()) / count, count, 1};
  made.rank = count > 1 ? 3 : 2;
  if (from.ordered && count == 1)
    made.ordered = std::make_shared<OrderedRows>(
        OrderedRows{from.ordered->quant, std::make_shared<Picked>(from.kept(), rows), from.ordered->order});
  else
    made.ordered.reset();
  made.source = std::make_shared<Picked>(std::move(from), std::move(rows));
  return made;
}

TensorInfo with_columns(TensorInfo from, std::vector<std::int64_t> columns, std::int64_t unit) {
  if (unit % find(quants(), from.quant)->block != 0) from = as_plain(std::move(from));
  return with_source(from, std::make_shared<WithColumns>(from, std::move(columns)));
}

TensorInfo turned(TensorInfo from) {
  from = as_plain(std::move(from));
  TensorInfo made = with_source(from, std::make_shared<Turned>(from));
  std::swap(made.shape[0], made.shape[1]);
  return made;
}

TensorInfo multiplied(TensorInfo from, std::vector<float> by_row) {
  from = as_plain(std::move(from));
  return with_source(from, std::make_shared<Multiplied>(from, std::move(by_row)));
}

TensorInfo mxfp4_matrices(const ShardTensor& blocks, const ShardTensor& scales, const std::string& path) {
  const auto fail = [&](const ShardTensor& t, const std::string& why) {
    throw Error(Code::kBadInput, fmt::format("tensor {}: {}", t.name.substr(0, 200), why), path);
  };
  const std::size_t rank = blocks.shape.size();
  if (blocks.dtype != "U8" || rank < 3 || rank > 4 || blocks.shape.back() != 16 || blocks.bytes.empty())
    fail(blocks, fmt::format("is {} of {} dimensions, expected U8 of 3 or 4, the last of 16", blocks.dtype, rank));
  if (scales.dtype != "U8" || scales.shape != std::vector(blocks.shape.begin(), blocks.shape.end() - 1))
    fail(scales, fmt::format("is no U8 with the shape of {} without its last dimension", blocks.name.substr(0, 200)));
  const std::int64_t groups = blocks.shape[rank - 2];
  TensorInfo t;
  t.quant = "mxfp4";
  t.shape = {32 * groups, blocks.shape[rank - 3], rank == 4 ? blocks.shape[0] : 1, 1};
  t.rank = static_cast<int>(rank) - 1;
  t.bytes = blocks.bytes;
  t.source = std::make_shared<Mxfp4>(blocks, scales, groups);
  return t;
}

}  // namespace kvasir::weights
