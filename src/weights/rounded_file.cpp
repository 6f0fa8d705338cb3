#include "weights/rounded_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/error.hpp"
#include "weights/mixes.hpp"
#include "weights/pieces.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

bool takes_no_more(const Quant& to, std::string_view than) {
  const Quant& from = *find(quants(), than);
  return to.block_bytes * from.block <= from.block_bytes * to.block;
}

class RoundedRows final : public PiecedRows {
 public:
  RoundedRows(TensorInfo from, const Quant& to) : from_(std::move(from)), to_(to) {}
  std::int64_t row_bytes() const override { return from_.columns() / to_.block * to_.block_bytes; }
  std::vector<std::span<const std::byte>> pieces() const override { return pieces_of(from_); }
  std::int64_t scratch(std::int64_t rows) const override {
    const std::int64_t floats = 4 * from_.columns();
    return from_.source ? rows * from_.row_bytes() + floats + from_.source->scratch(rows) : floats;
  }

  void read(std::span<const std::int64_t> rows, std::byte* out) const override {
    const Quant& quant = *find(quants(), from_.quant);
    const std::int64_t columns = from_.columns(), bytes = from_.row_bytes();
    std::vector<float> x(static_cast<std::size_t>(columns));
    std::vector<std::byte> made(from_.source ? rows.size() * static_cast<std::size_t>(bytes) : 0);
    if (from_.source) from_.source->read(rows, made.data());  // together: those of turned matrices cost as much as one
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::byte* const row =
          from_.source ? made.data() + static_cast<std::int64_t>(i) * bytes : from_.bytes.data() + rows[i] * bytes;
      quant.dequantise(row, x.data(), columns);
      to_.quantise(x.data(), out, columns);
      out += row_bytes();
    }
  }

 private:
  const TensorInfo from_;
  const Quant& to_;
};

class RoundedFile final : public ModelFile {
 public:
  RoundedFile(std::unique_ptr<ModelFile> file, const Mix& mix) : file_(std::move(file)) {
    const MixPlan plan(mix, *file_, false);
    for (const TensorInfo& t : file_->tensors()) {
      tensors_.push_back(t);
      if (!is_source(t.quant) || t.ordered || t.rank < 2 || looked_up(t.name)) continue;
      const std::string type = plan.type_of(t);
      if (type == t.quant || type == "f32") continue;
      if (plan.needs_importance(t, type))
        throw Error(Code::kBadInput,
                    fmt::format("{} needs an importance matrix for {}: kvasir quantize takes one", mix.name, t.name),
                    file_->metadata().path());
      const Quant* to = kvasir::find(quants(), type);
      KVASIR_CHECK(to != nullptr);
      if (!takes_no_more(*to, t.quant)) continue;
      tensors_.back().quant = type;
      tensors_.back().source = std::make_shared<RoundedRows>(t, *to);
    }
    for (const TensorInfo& t : tensors_) index_[t.name] = &t;
  }

  const Metadata& metadata() const override { return file_->metadata(); }
  std::span<const TensorInfo> tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : it->second;
  }
  std::span<const MappedFile> files() const override { return file_->files(); }
  void drop(std::span<const std::byte> bytes) const override { file_->drop(bytes); }

 private:
  // Tables that no product reads, and what is bound in pieces of its own.
  bool looked_up(std::string_view name) const {
    if (name == "token_embd.weight") return file_->find("output.weight") != nullptr;
    return name == "position_embd.weight" || name == "token_types.weight" || name == "per_layer_token_embd.weight" ||
           name.ends_with(".attn_kv_b.weight");
  }

  const std::unique_ptr<ModelFile> file_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, const TensorInfo*> index_;  // keys view tensors_
};

}  // namespace

std::unique_ptr<ModelFile> rounded(std::unique_ptr<ModelFile> file, std::string_view mix) {
  return std::make_unique<RoundedFile>(std::move(file), mix_of(mix));
}

}  // namespace kvasir::weights
