#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"
#include "model/hparams.hpp"
#include "model/model.hpp"
#include "model/spec_fields.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return rows == 1 ? std::to_string(columns) : std::to_string(rows) + "x" + std::to_string(columns);
}

std::int64_t lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

const kernel::PanelFormat& format_of(const weights::TensorInfo& t, bool exact, bool bf16_products) {
  if (exact) return kernel::dense_panels().f32;
  const weights::Quant* quant = find(weights::quants(), t.quant);
  KVASIR_CHECK(quant != nullptr);
  return bf16_products ? quant->format() : *quant->panel;
}

std::int64_t packed_bytes(const Linear& l, const kernel::PanelFormat& format) {
  return (l.rows + kernel::kPanelRows - 1) / kernel::kPanelRows * format.panel_bytes(l.columns);
}

class Faults {
 public:
  void add(const std::string& text) {
    if (++count_ <= kMost) text_ += (text_.empty() ? "" : "; ") + text;
  }
  void report(const std::string& path) const {
    if (count_ == 0) return;
    throw Error(Code::kBadInput, count_ > kMost ? text_ + "; and " + std::to_string(count_ - kMost) + " more" : text_,
                path);
  }

 private:
  static constexpr int kMost = 20;
  std::string text_;
  int count_ = 0;
};

}  // namespace

void check_tensors(const ModelSpec& spec, const weights::ModelFile& file, bool exact) {
  Faults faults;
  std::set<std::string_view> known;
  for (const TensorSpec& t : tensors_of(spec)) {
    const weights::TensorInfo* info = file.find(t.name);
    if (!info) {
      faults.add(t.name + " is missing");
      continue;
    }
    known.insert(info->name);
    if (info->columns() != t.columns || info->rows() != t.rows)
      faults.add(t.name + " is " + shape_text(info->rows(), info->columns()) + ", expected " +
                 shape_text(t.rows, t.columns));
    // What is packed and what is read row by row holds whole groups of elements.
    const int multiple = t.use == TensorSpec::Use::kMatrix ? format_of(*info, exact, true).k_multiple
                                                           : find(weights::quants(), info->quant)->block;
    if (info->columns() % multiple != 0)
      faults.add(t.name + " has " + std::to_string(info->columns()) + " columns, expected a multiple of " +
                 std::to_string(multiple));
  }
  for (const weights::TensorInfo& t : file.tensors())
    if (!known.count(t.name)) faults.add(t.name + " is not a tensor of " + spec.arch);
  faults.report(file.metadata().path());
}

// Lays the arenas out, fills them and binds the specification to them.
class Loader {
 public:
  Loader(Model& model, Team& team, const LoadOptions& options) : m_(model), team_(team), options_(options) {}

  void run() {
    check_tensors(m_.spec_, *m_.file_, options_.exact);
    for (const TensorSpec& t : tensors_of(m_.spec_)) m_.parameters_ += t.rows * t.columns;
    bind_matrices();
    bind_vectors();
    for_each<Table>(m_.spec_, [&](Table& t) { bind(t); });
  }

 private:
  const weights::TensorInfo& info(const std::string& name) const { return *m_.file_->find(name); }

  void bind_matrices() {
    std::int64_t bytes = 0;
    std::map<std::string, std::int64_t> bytes_of;
    for_each<Linear>(m_.spec_, [&](Linear& l) {
      const weights::TensorInfo& t = info(l.name);
      const kernel::PanelFormat& format = format_of(t, options_.exact, options_.bf16_products);
      l.bound = {&format, nullptr, l.rows, l.columns, format.panel_bytes(l.columns)};
      bytes += lines(l.bound.bytes());
      m_.matrix_bytes_ += l.bound.bytes();
      m_.matrix_weights_ += l.bound.weights();
      bytes_of[t.quant] += source(l).size();
      total_ += source(l).size();
    });
    for (const auto& [name, n] : bytes_of)
      if (m_.quant_.empty() || n > bytes_of[m_.quant_]) m_.quant_ = name;
    m_.arena_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(bytes));
    std::byte* at = m_.arena_.data();
    for_each<Linear>(m_.spec_, [&](Linear& l) {
      l.bound.panels = at;
      pack(l, at);
      at += lines(l.bound.bytes());
    });
  }

  // The part of its tensor that a matrix is.
  std::span<const std::byte> source(const Linear& l) const {
    const weights::TensorInfo& t = info(l.name);
    const std::size_t row = t.bytes.size() / static_cast<std::size_t>(t.rows());
    return t.bytes.subspan(static_cast<std::size_t>(l.cut.first) * row, static_cast<std::size_t>(l.rows) * row);
  }

  void pack(const Linear& l, std::byte* out) {
    const std::int64_t k = l.columns;
    const std::span<const std::byte> from = source(l);
    const std::int64_t row_bytes = static_cast<std::int64_t>(from.size()) / l.rows;
    const weights::Quant& quant = *find(weights::quants(), info(l.name).quant);
    std::vector<std::vector<float>> floats;  // one block of rows per thread, for the exact path
    if (options_.exact)
      floats.assign(static_cast<std::size_t>(team_.size()),
                    std::vector<float>(static_cast<std::size_t>(kernel::kPanelRows * k)));
    team_.parallel_for(l.bound.panel_count(), 8, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::byte* row[kernel::kPanelRows];
        for (int r = 0; r < kernel::kPanelRows; ++r) {
          const std::int64_t i = p * kernel::kPanelRows + r;
          row[r] = i < l.rows ? from.data() + i * row_bytes : nullptr;
          if (!options_.exact || !row[r]) continue;
          float* f = floats[static_cast<std::size_t>(worker)].data() + r * k;
          quant.dequantise(row[r], f, k);
          row[r] = reinterpret_cast<const std::byte*>(f);
        }
        l.bound.format->pack(row, k, out + p * l.bound.panel_bytes);
      }
    });
    m_.file_->drop(from);  // the packed copy is the only one kept
    done_ += from.size();
    if (options_.progress) options_.progress(static_cast<std::int64_t>(done_), static_cast<std::int64_t>(total_));
  }

  // Every tensor once, whole, and a row of ones for norms without weights.
  void bind_vectors() {
    std::map<std::string, std::int64_t> offset;
    std::int64_t bytes = 0, ones = 0;
    for_each<Vector>(m_.spec_, [&](const Vector& v) {
      const weights::TensorInfo& t = info(v.name);
      if (offset.emplace(v.name, bytes).second) bytes += lines(4 * t.rows() * t.columns());
    });
    for_each<Norm>(m_.spec_, [&](const Norm& n) { ones = std::max(ones, n.weight ? 0 : n.width); });
    m_.vectors_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(bytes + lines(4 * ones)));
    const auto at = [&](std::int64_t from) { return reinterpret_cast<float*>(m_.vectors_.data() + from); };
    std::fill_n(at(bytes), ones, 1.0f);
    for (const auto& [name, from] : offset) read(info(name), at(from));
    for_each<Vector>(m_.spec_, [&](Vector& v) { v.bound = at(offset.at(v.name)) + v.cut.first; });
    for_each<Norm>(m_.spec_, [&](Norm& n) {
      if (!n.weight) n.weight.bound = at(bytes);
    });
  }

  void read(const weights::TensorInfo& t, float* out) const {
    const std::int64_t n = t.rows() * t.columns();  // rows are whole blocks, one behind the other
    find(weights::quants(), t.quant)->dequantise(t.bytes.data(), out, n);
    for (std::int64_t i = 0; i < n; ++i)
      if (!std::isfinite(out[i]))
        throw Error(Code::kBadInput, t.name + "[" + std::to_string(i) + "] is not a finite number",
                    m_.file_->metadata().path());
  }

  void bind(Table& table) {
    for_each<Linear>(std::as_const(m_.spec_), [&](const Linear& l) {
      if (l.name == table.name) table.bound.packed = &l.bound;
    });
    if (table.bound.packed) return;
    const weights::TensorInfo& t = info(table.name);
    table.bound.bytes = t.bytes.data();
    table.bound.row_bytes = static_cast<std::int64_t>(t.bytes.size()) / t.rows();
    table.bound.dequantise = find(weights::quants(), t.quant)->dequantise;
  }

  Model& m_;
  Team& team_;
  const LoadOptions& options_;
  std::size_t total_ = 0, done_ = 0;  // bytes of matrices in the file
};

std::unique_ptr<Model> Model::load(std::unique_ptr<weights::ModelFile> file, Team& team, const LoadOptions& options) {
  ModelSpec spec = read_spec(*file);
  return load(std::move(spec), std::move(file), team, options);
}

std::unique_ptr<Model> Model::load(ModelSpec spec, std::unique_ptr<weights::ModelFile> file, Team& team,
                                   const LoadOptions& options) {
  auto model = std::make_unique<Model>();
  model->file_ = std::move(file);
  model->spec_ = std::move(spec);
  Loader(*model, team, options).run();
  return model;
}

std::int64_t Model::planned_bytes(const ModelSpec& spec, const weights::ModelFile& file, bool exact) {
  check_tensors(spec, file, exact);
  std::int64_t total = 0;
  for_each<Linear>(
      spec, [&](const Linear& l) { total += lines(packed_bytes(l, format_of(*file.find(l.name), exact, true))); });
  return total;
}

}  // namespace kvasir::model
