#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"
#include "model/adapters.hpp"
#include "model/bundles.hpp"
#include "model/factors.hpp"
#include "model/hparams.hpp"
#include "model/kept_weights.hpp"
#include "model/model.hpp"
#include "model/orders.hpp"
#include "model/packed_name.hpp"
#include "model/spec_fields.hpp"
#include "model/unused.hpp"
#include "weights/pieces.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

// Rows x columns, and before them the number of matrices if there are more.
std::string shape_text(std::span<const std::int64_t> columns_first) {
  std::size_t rank = columns_first.size();
  while (rank > 1 && columns_first[rank - 1] == 1) --rank;
  std::string text;
  for (std::size_t d = rank; d-- > 0;) text += std::to_string(columns_first[d]) + (d > 0 ? "x" : "");
  return text;
}

// How quantised weights and those of 16 bits are multiplied; floats of 32 bits always are as they are.
enum class How { kExact, kPlain, kPairs, kRounded };
How how_of(const ModelSpec& spec, const LoadOptions& options) {
  return options.exact ? How::kExact : spec.in_bf16 ? How::kRounded : options.bf16_products ? How::kPairs : How::kPlain;
}

const kernel::PanelFormat& format_of(const weights::TensorInfo& t, How how) {
  if (how == How::kExact) return kernel::dense_panels().f32;
  const weights::Quant* quant = find(weights::quants(), t.quant);
  KVASIR_CHECK(quant != nullptr);
  if (how == How::kRounded && quant->rounded) return *quant->rounded;
  return how == How::kPairs ? quant->format() : *quant->panel;
}

// rows x columns, not yet anywhere.
cpu::Matrix matrix_of(std::int64_t rows, std::int64_t columns, const kernel::PanelFormat& format) {
  return {&format, nullptr, rows, columns, format.panel_bytes(columns)};
}

// What rows of a matrix are read from: with columns in an order of their own, where it is multiplied so.
weights::TensorInfo form_of(const weights::TensorInfo& t, bool in_floats) { return in_floats ? t : t.kept(); }

// Which rows of a tensor a matrix has.
struct RowsTaken {
  Cut cut;
  const std::int32_t* order = nullptr;  // of the matrix's rows

  std::int64_t at(std::int64_t i) const { return cut.at(order ? order[i] : i); }
};

constexpr std::int64_t kMadePanels = 8, kMadeRows = kMadePanels * kernel::kPanelRows;  // made by a thread at a time

// What packing takes beside the weights: rows that are made, and rows as floats.
struct LoadScratch {
  std::int64_t made = 0, floats = 0;  // bytes of all threads
  std::int64_t inside = 0;            // of who makes rows, by himself

  void add(const weights::TensorInfo& t, bool in_floats, int threads) {
    if (in_floats) floats = std::max(floats, threads * kernel::kPanelRows * t.columns() * 4);
    if (!t.source) return;
    made = std::max(made, threads * kMadeRows * t.row_bytes());
    inside = std::max(inside, threads * t.source->scratch(kMadeRows));
  }
};

// Calls f for every stack and, of experts, with how many of it a token reads; of others all are read: 0.
template <class S, class F>
void for_each_stack(S& spec, F&& f) {
  for_each<Experts>(spec, [&](auto& e) { for_each<Stack>(e, [&](auto& s) { f(s, e.routing.used); }); });
  for_each<Latent>(spec, [&](auto& l) { for_each<Stack>(l, [&](auto& s) { f(s, 0); }); });
}

// Matrix `i` of a tensor that has `count` of them: its part of the tensor's bytes.
std::span<const std::byte> rows_in(const weights::TensorInfo& t, std::int64_t count, std::int64_t i, const Cut& cut,
                                   std::int64_t rows) {
  const std::int64_t first = i * (t.rows() / count) + cut.first;
  const std::size_t row = t.bytes.size() / static_cast<std::size_t>(t.rows());
  return t.bytes.subspan(static_cast<std::size_t>(first) * row,
                         static_cast<std::size_t>(cut.at(rows - 1) - cut.first + 1) * row);
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
  for (const TensorSpec& t : tensors_of(spec)) {
    const weights::TensorInfo* info = file.find(t.name);
    if (!info) {
      faults.add(t.name + " is missing");
      continue;
    }
    if (info->columns() != t.columns || info->rows() != t.rows || (t.count > 1 && info->shape[2] != t.count))
      faults.add(t.name + " is " + shape_text(info->shape) + ", expected " + shape_text(t.shape()));
    if (const weights::TensorInfo* factors = t.use == TensorSpec::Use::kMatrix ? factors_of(file, *info) : nullptr) {
      if (factors->columns() * factors->rows() != t.count || factors->quant != "f32")
        faults.add(factors->name + " is " + shape_text(factors->shape) + " of " + factors->quant + ", expected " +
                   std::to_string(t.count) + " of f32");
    }
    // What is packed and what is read row by row holds whole groups of elements.
    const int multiple = t.use == TensorSpec::Use::kMatrix
                             ? format_of(*info, exact ? How::kExact : How::kPlain).k_multiple
                             : find(weights::quants(), info->quant)->block;
    if (info->columns() % multiple != 0)
      faults.add(t.name + " has " + std::to_string(info->columns()) + " columns, expected a multiple of " +
                 std::to_string(multiple));
  }
  for (const UnusedTensor& t : unused_tensors(spec, file))
    if (!t.reason && !spec.embedding.join) faults.add(t.tensor->name + " is not a tensor of " + spec.arch);
  faults.report(file.metadata().path());
}

namespace {

std::int64_t elements(const weights::TensorInfo& t) { return t.rows() * t.columns(); }

// Where vectors lie as floats: every tensor once, whole, and behind `bytes` a row of ones for norms without weights.
struct VectorPlaces {
  std::map<std::string, std::int64_t> offset;
  std::int64_t bytes = 0, ones = 0;
};
VectorPlaces place_vectors(const ModelSpec& spec, const weights::ModelFile& file) {
  VectorPlaces p;
  for_each<Vector>(spec, [&](const Vector& v) {
    if (p.offset.emplace(v.name, p.bytes).second) p.bytes += whole_lines(4 * elements(*file.find(v.name)));
  });
  for_each<Norm>(spec, [&](const Norm& n) { p.ones = std::max(p.ones, n.weight ? std::int64_t{0} : n.width); });
  return p;
}

// Gives every matrix its shape and format.
void shape(ModelSpec& spec, const weights::ModelFile& file, How how) {
  for_each<Linear>(spec, [&](Linear& l) {
    const bool in_floats = how == How::kExact || l.in_floats;
    l.bound =
        matrix_of(l.rows, l.columns, format_of(form_of(*file.find(l.name), in_floats), in_floats ? How::kExact : how));
    l.bound.addend = l.addend;
  });
  for_each<Stack>(spec, [&](Stack& s) {
    s.bound = {};
    s.bound.first = matrix_of(s.rows, s.columns, format_of(*file.find(s.name), s.transposed ? How::kExact : how));
  });
}

// With what else is always in memory: orders of columns.
std::int64_t bytes_of_vectors(const ModelSpec& spec, const weights::ModelFile& file) {
  const VectorPlaces vectors = place_vectors(spec, file);
  return vectors.bytes + whole_lines(4 * vectors.ones) + order_bytes(file) +
         (spec.adapters ? spec.adapters->bytes() : 0);
}

Residency plan_of(const std::vector<Bundle>& bundles, const ModelSpec& spec, const weights::ModelFile& file,
                  const ResidencyOptions& options) {
  return plan_residency(bundles, bytes_of_vectors(spec, file), options, spec.layer_count());
}

LoadScratch load_scratch(const ModelSpec& spec, const weights::ModelFile& file, bool exact, int threads) {
  LoadScratch s;
  for_each<Linear>(spec, [&](const Linear& l) {
    s.add(form_of(*file.find(l.name), exact || l.in_floats), exact || l.in_floats, threads);
  });
  for_each<Stack>(spec, [&](const Stack& stack) {
    const weights::TensorInfo& t = *file.find(stack.name);
    s.add(t, exact, threads);
    if (stack.transposed && !t.source) s.floats = std::max(s.floats, 4 * stack.rows * (stack.columns + 1));
  });
  s.made = whole_lines(s.made);
  return s;
}

}  // namespace

// Lays the arenas out, fills them and binds the specification to them.
class Loader {
 public:
  Loader(Model& model, Team& team, const LoadOptions& options) : m_(model), team_(team), options_(options) {}

  void run() {
    check_tensors(m_.spec_, *m_.file_, options_.exact);
    for (const TensorSpec& t : tensors_of(m_.spec_)) m_.parameters_ += t.rows * t.columns;
    m_.spec_.orders = orders_at_once(m_.spec_, *m_.file_);
    m_.order_bytes_ = order_bytes(*m_.file_);
    m_.adapter_bytes_ = m_.spec_.adapters ? m_.spec_.adapters->bytes() : 0;
    find_orders();
    const LoadScratch scratch = load_scratch(m_.spec_, *m_.file_, options_.exact, team_.size());
    scratch_ = tensor::Buffer(tensor::Tag::kScratch, static_cast<std::size_t>(scratch.made + scratch.floats));
    made_ = scratch_.data();
    floats_ = reinterpret_cast<float*>(scratch_.data() + scratch.made);
    bind_matrices();
    bind_vectors();
    for_each<Table>(m_.spec_, [&](Table& t) { bind(t); });
  }

 private:
  const weights::TensorInfo& info(const std::string& name) const { return *m_.file_->find(name); }

  // Whether weights are packed for products of pairs; for products of rounded ones they are as for neither.
  bool pairs() const { return options_.bf16_products && !m_.spec_.in_bf16; }

  // Rows that make hidden elements come in the order of the columns that read them: no step has to turn those.
  void find_orders() {
    if (options_.exact) return;
    for_each<Dense>(m_.spec_, [&](Dense& d) {
      const std::int32_t* const order = canonical(order_of(d.down, *m_.file_));
      if (!order) return;
      met_.insert(&d.down);
      row_order_[&d.up] = order;
      if (d.gate) row_order_[&d.gate] = order;
    });
  }

  // The same array for the same order.
  const std::int32_t* canonical(const std::vector<std::int32_t>* order) {
    if (!order) return nullptr;
    const auto known = std::find_if(orders_.begin(), orders_.end(), [&](const auto* o) { return *o == *order; });
    if (known != orders_.end()) return (*known)->data();
    orders_.push_back(order);
    return order->data();
  }

  void bind_matrices() {
    shape(m_.spec_, *m_.file_, how_of(m_.spec_, options_));
    for_each<Linear>(m_.spec_, [&](Linear& l) {
      const bool in_floats = options_.exact || l.in_floats;
      if (!in_floats && !met_.contains(&l)) l.bound.order = canonical(order_of(l, *m_.file_));
    });
    for_each<Linear>(m_.spec_, [&](Linear& l) {
      if (l.lent) l.bound = lent(l);
    });
    count_matrices();
    std::vector<Bundle> bundles = bundles_of(m_.spec_);
    m_.residency_ = plan_of(bundles, m_.spec_, *m_.file_, options_.residency);
    if (m_.residency_.needs_file()) return bind_packed(std::move(bundles));
    std::int64_t bytes = 0;
    for (const Bundle& b : bundles)
      if (b.same_as < 0) bytes += b.count() * b.part_bytes();
    m_.arena_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(bytes));
    std::byte* at = m_.arena_.data();
    options_.placement.interleave({at, m_.arena_.size()});
    std::vector<std::int64_t> part_bytes;
    std::vector<std::byte*> places;
    std::vector<std::byte*> first;  // of every bundle, its first part
    for (const Bundle& b : bundles) {
      first.push_back(b.same_as < 0 ? at : first[static_cast<std::size_t>(b.same_as)]);
      b.bind(first.back(), b.part_bytes());
      if (b.same_as >= 0) continue;
      for (std::int64_t i = 0; i < b.count(); ++i, at += b.part_bytes()) {
        divide_part(b, at);
        part_bytes.push_back(b.part_bytes());
        places.push_back(at);
      }
    }
    // Floats of --exact take more than the model's file and are seldom asked for twice.
    if (options_.residency.keep && !options_.exact) {
      const PackedName name = packed_name(m_.spec_, *m_.file_, options_.exact, pairs(), "");
      m_.kept_ = std::make_unique<KeptWeights>(options_.residency.keep, name.fingerprint, part_bytes, places);
      if (m_.kept_->read(team_)) return;
    }
    std::size_t next = 0;
    for (const Bundle& b : bundles)
      for (std::int64_t i = 0; b.same_as < 0 && i < b.count(); ++i) pack_part(b, i, places[next++]);
    if (m_.kept_) m_.kept_->write();
  }

  cpu::Matrix lent(const Linear& l) const {
    KVASIR_CHECK(options_.lender);
    cpu::Matrix matrix;
    for_each<Linear>(options_.lender->spec(), [&](const Linear& theirs) {
      if (theirs.name == l.name && theirs.cut.of == 0) matrix = theirs.bound;
    });
    KVASIR_CHECK(matrix.panels && matrix.rows == l.rows && matrix.k == l.columns);
    matrix.addend = nullptr;  // what drafts does so without it: its scratch has no room
    return matrix;
  }

  // Bundles in a file beside the model, which is made if it is not there; those that stay in memory are read now.
  void bind_packed(std::vector<Bundle> bundles) {
    const PackedName name = packed_name(m_.spec_, *m_.file_, options_.exact, pairs(), options_.residency.file);
    std::vector<std::int64_t> bytes;
    std::vector<int> first;
    std::vector<std::pair<std::size_t, std::int64_t>> parts;  // of every block: bundle, part
    for (std::size_t b = 0; b < bundles.size(); ++b) {
      const int same = bundles[b].same_as;
      first.push_back(same < 0 ? static_cast<int>(bytes.size()) : first[static_cast<std::size_t>(same)]);
      if (same >= 0) continue;
      for (std::int64_t i = 0; i < bundles[b].count(); ++i) {
        bytes.push_back(bundles[b].part_bytes());
        parts.push_back({b, i});
      }
    }
    std::error_code none;
    if (!std::filesystem::exists(name.path, none))
      weights::write_packed_file(name.path, name.fingerprint, bytes, [&](int block, std::span<std::byte> to) {
        const auto& [b, i] = parts[static_cast<std::size_t>(block)];
        pack_part(bundles[b], i, to.data());
      });
    auto file = std::make_unique<weights::PackedFile>(name.path, name.fingerprint, bytes);
    if (m_.residency_.mapped_bytes > 0) return bind_mapped(*file, bundles, first);

    const auto open = [&] {
      auto reads = weights::open_reads(name.path);
      return options_.wrap_reads ? options_.wrap_reads(std::move(reads)) : std::move(reads);
    };
    const auto reads = open();
    m_.paged_ = weights::PageBuffer(tensor::Tag::kWeights, m_.residency_.resident_bytes);
    std::byte* at = m_.paged_.data();
    std::vector<std::byte*> bases(bundles.size());
    for (std::size_t b = 0; b < bundles.size(); ++b) {
      if (m_.residency_.places[b] != Place::kResident) continue;
      const std::int64_t stride = weights::padded(bundles[b].part_bytes());
      const int same = bundles[b].same_as;
      bases[b] = same < 0 ? at : bases[static_cast<std::size_t>(same)];
      bundles[b].bind(bases[b], stride);
      if (same >= 0) continue;
      for (std::int64_t i = 0; i < bundles[b].count(); ++i, at += stride)
        weights::read_block(*file, *reads, first[b] + static_cast<int>(i), at);
    }
    m_.layers_ = LayerWeights(std::move(file), std::move(bundles), m_.residency_, first, open);
  }

  void bind_mapped(const weights::PackedFile& file, const std::vector<Bundle>& bundles, const std::vector<int>& first) {
    m_.mapped_ = std::make_unique<MappedFile>(file.path());
    weights::check_blocks(file, m_.mapped_->bytes());
    for (std::size_t b = 0; b < bundles.size(); ++b)
      bundles[b].bind(m_.mapped_->bytes().data() + file.layout().at[static_cast<std::size_t>(first[b])],
                      weights::padded(bundles[b].part_bytes()));
  }

  // The matrices of a part as pack_part puts them; those of experts are left by turns, as they are short.
  void divide_part(const Bundle& b, const std::byte* at) const {
    if (!options_.placement.binds() || b.kind == BundleKind::kExperts) return;
    for (const Linear* l : b.linears) {
      options_.placement.divide({at, static_cast<std::size_t>(l->bound.bytes())});
      at += whole_lines(l->bound.bytes());
    }
  }

  // Part i of a bundle (Bundle::count) to `out`.
  void pack_part(const Bundle& b, std::int64_t i, std::byte* out) {
    for (const Linear* l : b.linears) {
      const bool in_floats = options_.exact || l->in_floats;
      const weights::TensorInfo from = form_of(info(l->name), in_floats);
      const auto turned = row_order_.find(l);
      const RowsTaken part{l->cut, turned == row_order_.end() ? nullptr : turned->second};
      if (from.source)
        pack_made(l->bound, from, part, in_floats, 0, 0, out);
      else
        pack(l->bound, from, source(*l), part, in_floats, 0, out);
      out += whole_lines(l->bound.bytes());
    }
    const bool experts = b.kind == BundleKind::kExperts;
    for (const Stack* s : b.stacks) {
      for (std::int64_t m = experts ? i : 0; m < (experts ? i + 1 : s->count); ++m) {
        pack_matrix(*s, m, out);
        out += whole_lines(s->bound.first.bytes());
      }
      if (!experts || i + 1 == s->count)
        for (const auto piece : weights::pieces_of(info(s->name))) m_.file_->drop(piece);
    }
  }

  void pack_matrix(const Stack& s, std::int64_t i, std::byte* out) {
    if (info(s.name).source)
      pack_made(s.bound.first, info(s.name), RowsTaken{s.cut}, options_.exact, i, i * (info(s.name).rows() / s.count),
                out);
    else if (s.transposed)
      pack_transposed(s.bound.first, info(s.name), source(s, i), out);
    else
      pack(s.bound.first, info(s.name), source(s, i), RowsTaken{s.cut}, options_.exact, i, out);
  }

  // Of matrices that have their shapes.
  void count_matrices() {
    std::map<std::string, std::int64_t> bytes_of;
    const auto count = [&](const std::string& quant, std::size_t one, std::int64_t times) {
      const std::int64_t n = static_cast<std::int64_t>(one) * times;
      bytes_of[quant] += n;
      total_ += static_cast<std::size_t>(n);
    };
    // A token reads the matrices of every pass of a layer; those of the first one are packed.
    const auto count_all = [&](const auto& part, bool packs) {
      for_each<Linear>(part, [&](const Linear& l) {
        m_.shared_bytes_ += l.bound.bytes();
        m_.matrix_weights_ += l.bound.weights();
        const weights::TensorInfo t = form_of(info(l.name), options_.exact || l.in_floats);
        if (packs) count(t.quant, static_cast<std::size_t>(t.row_bytes() * l.rows), 1);
      });
      for_each_stack(part, [&](const Stack& s, int used) {
        const weights::TensorInfo& t = info(s.name);
        (used > 0 ? m_.expert_bytes_ : m_.shared_bytes_) += (used > 0 ? used : s.count) * s.bound.first.bytes();
        m_.matrix_weights_ += (used > 0 ? used : s.count) * s.bound.first.weights();
        if (packs)
          count(t.quant, static_cast<std::size_t>(t.row_bytes() * (s.transposed ? s.columns : s.rows)), s.count);
      });
    };
    const ModelSpec& spec = m_.spec_;
    for (const LayerSpec& layer : spec.layers) count_all(layer, layer.weights_of < 0);
    count_all(spec.embedding, true), count_all(spec.head, true);
    count_all(spec.rank, true), count_all(spec.projections, true);
    for (const auto& [name, n] : bytes_of)
      if (m_.quant_.empty() || n > bytes_of[m_.quant_]) m_.quant_ = name;
  }

  // The part of its tensor that a matrix is.
  std::span<const std::byte> source(const Linear& l) const { return rows_in(info(l.name), 1, 0, l.cut, l.rows); }
  std::span<const std::byte> source(const Stack& s, std::int64_t i) const {
    return rows_in(info(s.name), s.count, i, s.cut, s.transposed ? s.columns : s.rows);
  }

  // The rows `from` of tensor `t` as panels of `m` to `out`; in floats they are dequantised before. `i`: which of the
  // tensor's matrices it is.
  void pack(const cpu::Matrix& m, const weights::TensorInfo& t, std::span<const std::byte> from, const RowsTaken& part,
            bool in_floats, std::int64_t i, std::byte* out) {
    const std::optional<float> factor = factor_of(t, i);
    const std::int64_t k = m.k;
    const std::int64_t row_bytes = static_cast<std::int64_t>(t.bytes.size()) / t.rows();
    const weights::Quant& quant = *find(weights::quants(), t.quant);
    team_.parallel_for(m.panel_count(), 8, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::byte* row[kernel::kPanelRows];
        for (int r = 0; r < kernel::kPanelRows; ++r) {
          const std::int64_t n = p * kernel::kPanelRows + r;
          row[r] = n < m.rows ? from.data() + t.row_in_file(part.at(n) - part.cut.first) * row_bytes : nullptr;
          if (!in_floats || !row[r]) continue;
          float* f = floats_ + (worker * kernel::kPanelRows + r) * k;
          quant.dequantise(row[r], f, k);
          if (factor) kernel::ops().scale(f, *factor, k);
          row[r] = reinterpret_cast<const std::byte*>(f);
        }
        m.format->pack(row, k, out + p * m.panel_bytes);
        if (factor && !in_floats) m.format->set_factor(out + p * m.panel_bytes, k, *factor);
      }
    });
    m_.file_->drop(from);  // the packed copy is the only one kept
    count_done(static_cast<std::size_t>(m.rows * row_bytes));
  }

  void count_done(std::size_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(static_cast<std::int64_t>(done_), static_cast<std::int64_t>(total_));
  }

  // Of rows that do not lie in the file as rows, from `from` on, matrix i of the tensor. They are made for some panels
  // at a time, so nothing is kept twice.
  void pack_made(const cpu::Matrix& m, const weights::TensorInfo& t, const RowsTaken& part, bool in_floats,
                 std::int64_t i, std::int64_t from, std::byte* out) {
    const std::optional<float> factor = factor_of(t, i);
    const weights::Quant& quant = *find(weights::quants(), t.quant);
    const std::int64_t row_bytes = t.row_bytes(), k = m.k;
    team_.parallel_for((m.panel_count() + kMadePanels - 1) / kMadePanels, 1,
                       [&](std::int64_t begin, std::int64_t end, int worker) {
                         std::byte* const rows = made_ + worker * kMadeRows * row_bytes;
                         for (std::int64_t piece = begin; piece < end; ++piece) {
                           const std::int64_t first = piece * kMadeRows, count = std::min(kMadeRows, m.rows - first);
                           std::array<std::int64_t, kMadeRows> which;
                           for (std::int64_t r = 0; r < count; ++r)
                             which[static_cast<std::size_t>(r)] = t.row_in_file(from + part.at(first + r));
                           t.source->read({which.data(), static_cast<std::size_t>(count)}, rows);
                           for (std::int64_t p = 0; p * kernel::kPanelRows < count; ++p) {
                             const std::byte* row[kernel::kPanelRows];
                             for (std::int64_t r = 0; r < kernel::kPanelRows; ++r) {
                               const std::int64_t n = p * kernel::kPanelRows + r;
                               row[r] = n < count ? rows + n * row_bytes : nullptr;
                               if (!in_floats || !row[r]) continue;
                               float* const f = floats_ + (worker * kernel::kPanelRows + r) * k;
                               quant.dequantise(row[r], f, k);
                               if (factor) kernel::ops().scale(f, *factor, k);
                               row[r] = reinterpret_cast<const std::byte*>(f);
                             }
                             std::byte* const panel = out + (first / kernel::kPanelRows + p) * m.panel_bytes;
                             m.format->pack(row, k, panel);
                             if (factor && !in_floats) m.format->set_factor(panel, k, *factor);
                           }
                         }
                       });
    if (t.shape[2] == 1)  // of one matrix, not of experts
      for (const auto piece : weights::pieces_of(t)) m_.file_->drop(piece);
    count_done(static_cast<std::size_t>(m.rows * row_bytes));
  }

  // The columns of m are rows of the tensor.
  void pack_transposed(const cpu::Matrix& m, const weights::TensorInfo& t, std::span<const std::byte> from,
                       std::byte* out) {
    const weights::Quant& quant = *find(weights::quants(), t.quant);
    const std::size_t row_bytes = from.size() / static_cast<std::size_t>(m.k);
    float *const turned = floats_, *const column = floats_ + m.weights();
    for (std::int64_t c = 0; c < m.k; ++c) {
      quant.dequantise(from.data() + static_cast<std::size_t>(c) * row_bytes, column, m.rows);
      for (std::int64_t r = 0; r < m.rows; ++r) turned[r * m.k + c] = column[r];
    }
    for (std::int64_t p = 0; p < m.panel_count(); ++p) {
      const std::byte* row[kernel::kPanelRows];
      for (int r = 0; r < kernel::kPanelRows; ++r) {
        const std::int64_t n = p * kernel::kPanelRows + r;
        row[r] = n < m.rows ? reinterpret_cast<const std::byte*>(turned + n * m.k) : nullptr;
      }
      m.format->pack(row, m.k, out + p * m.panel_bytes);
    }
    count_done(from.size());
  }

  std::optional<float> factor_of(const weights::TensorInfo& matrix, std::int64_t i) const {
    const weights::TensorInfo* factors = factors_of(*m_.file_, matrix);
    if (!factors) return std::nullopt;
    float factor;
    std::memcpy(&factor, factors->bytes.data() + 4 * i, 4);
    if (!std::isfinite(factor))
      throw Error(Code::kBadInput, factors->name + "[" + std::to_string(i) + "] is not a finite number",
                  m_.file_->metadata().path());
    return factor;
  }

  void bind_vectors() {
    const VectorPlaces places = place_vectors(m_.spec_, *m_.file_);
    const std::int64_t bytes = places.bytes, ones = places.ones;
    m_.vectors_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(bytes + whole_lines(4 * ones)));
    const auto at = [&](std::int64_t from) { return reinterpret_cast<float*>(m_.vectors_.data() + from); };
    std::fill_n(at(bytes), ones, 1.0f);
    for (const auto& [name, from] : places.offset) read(info(name), at(from));
    std::set<std::string> turned_already;  // further passes of a layer have the same vectors
    for_each<Vector>(std::as_const(m_.spec_), [&](const Vector& v) {
      if (!v.transposed || !turned_already.insert(v.name).second) return;
      float* const to = at(places.offset.at(v.name));
      const std::vector<float> rows(to, to + v.rows * v.columns);
      for (std::int64_t r = 0; r < v.rows; ++r)
        for (std::int64_t c = 0; c < v.columns; ++c)
          to[c * v.rows + r] = rows[static_cast<std::size_t>(r * v.columns + c)];
    });
    for_each<Vector>(m_.spec_, [&](Vector& v) { v.bound = at(places.offset.at(v.name)) + v.cut.first; });
    for_each<Linear>(std::as_const(m_.spec_), [&](const Linear& l) {  // biases of rows that were turned
      const auto turned = row_order_.find(&l);
      const RowsTaken part{l.bias.cut, turned == row_order_.end() ? nullptr : turned->second};
      if (!l.bias || (!part.order && part.cut.turns == 0)) return;
      if (!turned_already.insert(fmt::format("{} from {}", l.bias.name, part.cut.first)).second) return;
      float* const to = at(places.offset.at(l.bias.name)) + part.cut.first;
      const std::vector<float> rows(to, to + l.rows);
      for (std::int64_t r = 0; r < l.rows; ++r) to[r] = rows[static_cast<std::size_t>(part.at(r) - part.cut.first)];
    });
    for_each<Norm>(m_.spec_, [&](Norm& n) {
      if (!n.weight) n.weight.bound = at(bytes);
    });
  }

  void read(const weights::TensorInfo& t, float* out) const {
    const weights::Quant& quant = *find(weights::quants(), t.quant);
    const std::int64_t n = elements(t), columns = t.columns();
    std::vector<std::byte> room;
    for (std::int64_t r = 0; r < t.rows(); ++r) quant.dequantise(t.row(r, room), out + r * columns, columns);
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
    if (t.source && t.row_bytes() > Table::kMostMade)
      throw Error(Code::kUnsupported,
                  fmt::format("{} has rows of {} bytes that have to be made, expected at most {}", table.name,
                              t.row_bytes(), Table::kMostMade),
                  m_.file_->metadata().path());
    table.bound.bytes = t.source ? nullptr : t.bytes.data();
    table.bound.source = t.source.get();
    table.bound.row_bytes = t.row_bytes();
    table.bound.dequantise = find(weights::quants(), t.quant)->dequantise;
  }

  Model& m_;
  Team& team_;
  const LoadOptions& options_;
  std::size_t total_ = 0, done_ = 0;                        // bytes of matrices in the file
  std::vector<const std::vector<std::int32_t>*> orders_;    // all different
  std::map<const Linear*, const std::int32_t*> row_order_;  // of matrices whose rows are turned
  std::set<const Linear*> met_;                             // whose order is that of what they read
  tensor::Buffer scratch_;
  std::byte* made_ = nullptr;  // (threads, kMadeRows, bytes of a row): rows that do not lie in the file
  float* floats_ = nullptr;    // (threads, kPanelRows, k): rows of matrices in floats
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
  ModelSpec shaped = spec;
  shape(shaped, file, how_of(spec, {.exact = exact}));
  std::int64_t total = bytes_of_vectors(spec, file);
  for (const Bundle& b : bundles_of(shaped))
    if (b.same_as < 0) total += b.count() * b.part_bytes();
  return total;
}

Residency Model::plan(const ModelSpec& spec, const weights::ModelFile& file, bool exact,
                      const ResidencyOptions& options) {
  check_tensors(spec, file, exact);
  ModelSpec shaped = spec;
  shape(shaped, file, how_of(spec, {.exact = exact}));
  return plan_of(bundles_of(shaped), spec, file, options);
}

std::int64_t Model::planned_load_scratch(const ModelSpec& spec, const weights::ModelFile& file, bool exact,
                                         int threads) {
  const LoadScratch s = load_scratch(spec, file, exact, threads);
  return s.made + s.floats + s.inside;
}

}  // namespace kvasir::model
