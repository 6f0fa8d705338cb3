#include "model/model.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/check.hpp"
#include "base/error.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {

// Loading in three passes over the architecture's table: check all tensors, lay out the arenas, fill them.
class Loader {
 public:
  Loader(Model& model, Team& team, const LoadOptions& options) : m_(model), team_(team), options_(options) {}

  void run() {
    resolve();
    lay_out();
    fill();
    m_.layers_.resize(static_cast<std::size_t>(m_.config_.layers));
    for (const Item& item : items_) bind(item);
  }

 private:
  struct Item {
    const TensorRule* rule;
    int layer;  // -1: not a layer's
    const weights::TensorInfo* info;
    const weights::Quant* quant;
    bool matrix;  // packed; otherwise a vector of floats (or the untied embedding, which stays in the file)
    bool in_file = false;
    const kernel::PanelFormat* format = nullptr;
    std::int64_t offset = 0;  // in its arena
  };

  const std::string& path() const { return m_.file_->metadata().path(); }

  static std::string shape_text(std::int64_t rows, std::int64_t columns) {
    return rows == 1 ? std::to_string(columns) : std::to_string(rows) + "x" + std::to_string(columns);
  }

  void resolve() {
    const Config& c = m_.config_;
    std::string faults;
    int count = 0;
    const auto fault = [&](const std::string& text) {
      if (++count <= 20) faults += (faults.empty() ? "" : "; ") + text;
    };
    std::set<std::string_view> known;
    for (const TensorRule& rule : c.arch->tensors) {
      for (int layer = rule.per_layer ? 0 : -1; layer < (rule.per_layer ? c.layers : 0); ++layer) {
        const std::string name = layer < 0 ? rule.name : "blk." + std::to_string(layer) + "." + rule.name;
        const weights::TensorInfo* info = m_.file_->find(name);
        if (!info) {
          if (rule.presence == Presence::kRequired) fault(name + " is missing");
          continue;
        }
        known.insert(info->name);
        const std::int64_t rows = c.size(rule.rows), columns = c.size(rule.columns);
        if (info->columns() != columns || info->rows() != rows)
          fault(name + " is " + shape_text(info->rows(), info->columns()) + ", expected " + shape_text(rows, columns));
        add(rule, layer, *info, fault);
      }
    }
    for (const weights::TensorInfo& t : m_.file_->tensors())
      if (!known.count(t.name)) fault(t.name + " is not a tensor of " + c.arch_name);
    if (count > 20) faults += "; and " + std::to_string(count - 20) + " more";
    if (count) throw Error(Code::kBadInput, faults, path());
  }

  template <class Fault>
  void add(const TensorRule& rule, int layer, const weights::TensorInfo& info, const Fault& fault) {
    Item item{&rule, layer, &info, find(weights::quants(), info.quant), rule.rows != Dim::kOne};
    KVASIR_CHECK(item.quant != nullptr);
    if (rule.role == Role::kTokenEmbd) {
      item.in_file = m_.file_->find("output.weight") != nullptr;
      item.matrix = !item.in_file;
    }
    if (item.matrix) {
      item.format = options_.exact           ? &kernel::dense_panels().f32
                    : options_.bf16_products ? &item.quant->format()
                                             : item.quant->panel;
      if (info.columns() % item.format->k_multiple != 0)
        fault(info.name + " has " + std::to_string(info.columns()) + " columns, expected a multiple of " +
              std::to_string(item.format->k_multiple));
    }
    items_.push_back(item);
  }

  void lay_out() {
    std::int64_t matrices = 0, vectors = 0;
    std::map<std::string, std::int64_t> bytes_of;
    for (Item& item : items_) {
      m_.parameters_ += item.info->rows() * item.info->columns();
      if (item.matrix) {
        item.offset = matrices;
        const std::int64_t panels = (item.info->rows() + kernel::kPanelRows - 1) / kernel::kPanelRows;
        const std::int64_t bytes = panels * item.format->panel_bytes(item.info->columns());
        matrices += (bytes + 63) / 64 * 64;
        m_.matrix_bytes_ += bytes;
        m_.matrix_weights_ += item.info->rows() * item.info->columns();
        bytes_of[item.info->quant] += static_cast<std::int64_t>(item.info->bytes.size());
      } else if (!item.in_file) {
        item.offset = vectors;
        vectors += (item.info->columns() * 4 + 63) / 64 * 64;
      }
    }
    for (const auto& [name, bytes] : bytes_of)
      if (m_.quant_.empty() || bytes > bytes_of[m_.quant_]) m_.quant_ = name;
    m_.arena_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(matrices));
    m_.vectors_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(vectors));
  }

  void fill() {
    std::int64_t total = 0, done = 0;
    for (const Item& item : items_) total += item.matrix ? static_cast<std::int64_t>(item.info->bytes.size()) : 0;
    for (const Item& item : items_) {
      if (item.matrix) {
        pack(item);
        done += static_cast<std::int64_t>(item.info->bytes.size());
        if (options_.progress) options_.progress(done, total);
      } else if (!item.in_file) {
        read_vector(item);
      }
    }
  }

  void pack(const Item& item) {
    const std::int64_t k = item.info->columns(), rows = item.info->rows();
    const std::int64_t row_bytes = static_cast<std::int64_t>(item.info->bytes.size()) / rows;
    const std::int64_t panel_bytes = item.format->panel_bytes(k);
    const std::byte* source = item.info->bytes.data();
    std::byte* out = m_.arena_.data() + item.offset;
    std::vector<std::vector<float>> floats;  // one block of rows per thread, for the exact path
    if (options_.exact)
      floats.assign(static_cast<std::size_t>(team_.size()),
                    std::vector<float>(static_cast<std::size_t>(kernel::kPanelRows * k)));
    const std::int64_t panels = (rows + kernel::kPanelRows - 1) / kernel::kPanelRows;
    team_.parallel_for(panels, 8, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t p = begin; p < end; ++p) {
        const std::byte* row[kernel::kPanelRows];
        for (int r = 0; r < kernel::kPanelRows; ++r) {
          const std::int64_t i = p * kernel::kPanelRows + r;
          row[r] = i < rows ? source + i * row_bytes : nullptr;
          if (!options_.exact || !row[r]) continue;
          float* f = floats[static_cast<std::size_t>(worker)].data() + r * k;
          item.quant->dequantise(row[r], f, k);
          row[r] = reinterpret_cast<const std::byte*>(f);
        }
        item.format->pack(row, k, out + p * panel_bytes);
      }
    });
    m_.file_->drop(item.info->bytes);  // the packed copy is the only one kept
  }

  void read_vector(const Item& item) {
    auto* out = reinterpret_cast<float*>(m_.vectors_.data() + item.offset);
    if (item.info->columns() % item.quant->block != 0)
      throw Error(Code::kBadInput,
                  item.info->name + " has " + std::to_string(item.info->columns()) + " elements, no whole blocks of " +
                      item.info->quant,
                  path());
    item.quant->dequantise(item.info->bytes.data(), out, item.info->columns());
    for (std::int64_t i = 0; i < item.info->columns(); ++i)
      if (!std::isfinite(out[i]))
        throw Error(Code::kBadInput, item.info->name + "[" + std::to_string(i) + "] is not a finite number", path());
  }

  Matrix matrix(const Item& item) const {
    const std::int64_t k = item.info->columns();
    return {item.format, m_.arena_.data() + item.offset, item.info->rows(), k, item.format->panel_bytes(k)};
  }

  void bind(const Item& item) {
    if (item.in_file) {
      m_.embd_ = item.info;
      m_.embd_dequantise_ = item.quant->dequantise;
      m_.embd_row_bytes_ = static_cast<std::int64_t>(item.info->bytes.size()) / item.info->rows();
      return;
    }
    Layer none;
    Layer& layer = item.layer < 0 ? none : m_.layers_[static_cast<std::size_t>(item.layer)];
    const auto* vector = reinterpret_cast<const float*>(m_.vectors_.data() + item.offset);
    switch (item.rule->role) {
      case Role::kTokenEmbd:  // tied: the output matrix serves both
      case Role::kOutput:
        m_.output_ = matrix(item);
        break;
      case Role::kOutputNorm:
        m_.output_norm_ = vector;
        break;
      case Role::kAttnNorm:
        layer.attn_norm = vector;
        break;
      case Role::kAttnQ:
        layer.q = matrix(item);
        break;
      case Role::kAttnK:
        layer.k = matrix(item);
        break;
      case Role::kAttnV:
        layer.v = matrix(item);
        break;
      case Role::kAttnQBias:
        layer.q_bias = vector;
        break;
      case Role::kAttnKBias:
        layer.k_bias = vector;
        break;
      case Role::kAttnVBias:
        layer.v_bias = vector;
        break;
      case Role::kAttnQNorm:
        layer.q_norm = vector;
        break;
      case Role::kAttnKNorm:
        layer.k_norm = vector;
        break;
      case Role::kAttnOutput:
        layer.o = matrix(item);
        break;
      case Role::kFfnNorm:
        layer.ffn_norm = vector;
        break;
      case Role::kFfnGate:
        layer.gate = matrix(item);
        break;
      case Role::kFfnUp:
        layer.up = matrix(item);
        break;
      case Role::kFfnDown:
        layer.down = matrix(item);
        break;
      case Role::kRopeFreqs:  // read into the configuration
      case Role::kCount:
        break;
    }
  }

  Model& m_;
  Team& team_;
  const LoadOptions& options_;
  std::vector<Item> items_;
};

std::unique_ptr<Model> Model::load(std::unique_ptr<weights::ModelFile> file, Team& team, const LoadOptions& options) {
  auto model = std::make_unique<Model>();
  model->file_ = std::move(file);
  model->config_ = read_config(*model->file_);
  Loader(*model, team, options).run();
  return model;
}

std::int64_t Model::planned_bytes(const weights::ModelFile& file, bool exact) {
  const bool untied = file.find("output.weight") != nullptr;
  std::int64_t total = 0;
  for (const weights::TensorInfo& t : file.tensors()) {
    if (t.rows() == 1 || (untied && t.name == "token_embd.weight")) continue;
    const kernel::PanelFormat& format = exact ? kernel::dense_panels().f32 : find(weights::quants(), t.quant)->format();
    total +=
        ((t.rows() + kernel::kPanelRows - 1) / kernel::kPanelRows * format.panel_bytes(t.columns()) + 63) / 64 * 64;
  }
  return total;
}

void Model::embed(std::int32_t id, float* out) const {
  if (embd_) return embd_dequantise_(embd_->bytes.data() + id * embd_row_bytes_, out, config_.dim);
  output_.format->unpack_row(output_.panels + id / kernel::kPanelRows * output_.panel_bytes, id % kernel::kPanelRows,
                             output_.k, out);
}

}  // namespace kvasir::model
