#include "weights/requantise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/fit.hpp"
#include "weights/gguf_writer.hpp"
#include "weights/pieces.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{1} << 20;  // of a tensor's floats, at a time

const Quant& entry(std::string_view name) {
  const Quant* q = find(quants(), name);
  KVASIR_CHECK(q != nullptr);
  return *q;
}

// Of the rows of a tensor that one importance is for.
std::int64_t matrices_of(const TensorInfo& t) { return t.shape[2] * t.shape[3]; }

struct Sums {
  double error = 0, square = 0, weighted_error = 0, weighted_square = 0;

  void add(const float* wanted, const float* got, const float* importance, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(wanted[i]), off = static_cast<double>(got[i]) - x;
      const double w = importance ? static_cast<double>(importance[i]) : 1.0;
      error += off * off;
      square += x * x;
      weighted_error += w * off * off;
      weighted_square += w * x * x;
    }
  }
  void add(const Sums& s) {
    error += s.error;
    square += s.square;
    weighted_error += s.weighted_error;
    weighted_square += s.weighted_square;
  }
  static double root(double error, double square) { return square > 0 ? std::sqrt(error / square) : 0; }
};

class Converter {
 public:
  Converter(GgufWriter& out, const RequantiseOptions& options, Team& team)
      : out_(out), options_(options), team_(team) {}

  void convert(const TensorInfo& t, Change& c) {
    if (c.from == c.to) return copy(t);
    from_ = &entry(c.from);
    to_ = &entry(c.to);
    fitters_.clear();
    for (int i = 0; i < team_.size(); ++i) fitters_.emplace_back(*to_);
    const std::int64_t matrices = matrices_of(t), rows = t.rows() / matrices, columns = t.columns();
    const std::int64_t most = std::max<std::int64_t>(1, kChunkBytes / (4 * columns));
    Sums total;
    for (std::int64_t m = 0; m < matrices; ++m) {
      const auto importance = options_.importance ? options_.importance->of(t, m, matrices) : std::span<const float>{};
      c.weighted = c.weighted || !importance.empty();
      for (std::int64_t first = 0; first < rows; first += most) {
        if (options_.poll) options_.poll();
        total.add(
            piece(t, m * rows + first, std::min(most, rows - first), importance.empty() ? nullptr : importance.data()));
      }
    }
    c.error = Sums::root(total.error, total.square);
    c.weighted_error = Sums::root(total.weighted_error, total.weighted_square);
  }

 private:
  void copy(const TensorInfo& t) {
    if (t.half_heads == 0 && !t.source) return out_.write(t.bytes);
    for (std::int64_t r = 0; r < t.rows(); ++r)
      out_.write(std::span(t.row(r, bytes_), static_cast<std::size_t>(t.row_bytes())));
  }

  // Rows [first, first + n).
  Sums piece(const TensorInfo& t, std::int64_t first, std::int64_t n, const float* importance) {
    const std::int64_t columns = t.columns();
    const std::int64_t made = columns / to_->block * to_->block_bytes;
    bytes_.resize(static_cast<std::size_t>(n * made));
    sums_.assign(static_cast<std::size_t>(n), {});
    floats_.resize(static_cast<std::size_t>(team_.size() * 2 * columns));
    bool finite = true;
    team_.parallel_for(n, 4, [&](std::int64_t begin, std::int64_t end, int worker) {
      std::vector<std::byte> room;
      float* const x = floats_.data() + worker * 2 * columns;
      for (std::int64_t r = begin; r < end; ++r) {
        from_->dequantise(t.row(first + r, room), x, columns);
        std::byte* const to = bytes_.data() + r * made;
        fitters_[static_cast<std::size_t>(worker)].round(x, importance, to, columns);
        to_->dequantise(to, x + columns, columns);
        sums_[static_cast<std::size_t>(r)].add(x, x + columns, importance, columns);
      }
    });
    Sums total;
    for (const Sums& s : sums_) {
      total.add(s);
      finite = finite && std::isfinite(s.error);
    }
    if (!finite)
      throw Error(Code::kBadInput, fmt::format("{} holds something that is not a finite number, or too large for {}",
                                               t.name, mix_name()));
    out_.write(bytes_);
    return total;
  }
  std::string_view mix_name() const { return options_.mix->name; }

  GgufWriter& out_;
  const RequantiseOptions& options_;
  Team& team_;
  const Quant* from_ = nullptr;
  const Quant* to_ = nullptr;
  std::vector<Fitter> fitters_;  // of the threads
  std::vector<std::byte> bytes_;
  std::vector<Sums> sums_;     // by row, so that their sum does not depend on threads
  std::vector<float> floats_;  // (threads, 2, columns)
};

// A result over any file of the model would lose it.
void check_paths(const ModelFile& in, const std::string& out) {
  std::error_code none;
  for (const MappedFile& f : in.files())
    if (std::filesystem::equivalent(f.path(), out, none)) throw Error(Code::kBadInput, "is a file that is read", out);
  check_replaceable(out);
}

// "blk.0.attn_q.scale" of "blk.0.attn_q.weight": NVFP4 files have factors of whole matrices there.
const TensorInfo* factors_of(const ModelFile& file, const TensorInfo& t) {
  constexpr std::string_view kWeight = ".weight";
  if (t.quant != "nvfp4" || !t.name.ends_with(kWeight)) return nullptr;
  return file.find(t.name.substr(0, t.name.size() - kWeight.size()) + ".scale");
}

}  // namespace

std::vector<Change> plan_requantise(const ModelFile& file, const RequantiseOptions& options) {
  const MixPlan plan(*options.mix, file, options.importance != nullptr);
  std::vector<Change> changes;
  for (const TensorInfo& t : file.tensors()) {
    Change c{.name = t.name, .from = t.quant, .to = plan.type_of(t), .elements = t.columns() * t.rows()};
    const auto refuse = [&](const std::string& why) {
      throw Error(Code::kBadInput, fmt::format("{}: {}", t.name, why), file.metadata().path());
    };
    if (c.from != c.to && !is_source(c.from) && !options.again)
      refuse(fmt::format("is {} already; rounding it once more to {} loses accuracy, expected F32, F16 or BF16", c.from,
                         c.to));
    if (const TensorInfo* factors = c.from != c.to ? factors_of(file, t) : nullptr)
      refuse("has factors in " + factors->name + ", which " + c.to + " has no place for; expected F32, F16 or BF16");
    if (!options.importance && plan.needs_importance(t, c.to))
      refuse(fmt::format("{} is too coarse without an importance matrix", c.to));
    if (options.importance) options.importance->of(t, 0, matrices_of(t));  // of the right size
    changes.push_back(std::move(c));
  }
  return changes;
}

namespace {

// Keys of a GGUF file keep their types; what another format says is written in the usual ones.
void copy_metadata(const ModelFile& file, GgufHeader& header) {
  constexpr std::string_view kReplaced[] = {"general.file_type", "general.alignment",   "split.no",
                                            "split.count",       "split.tensors.count", "general.quantization_version"};
  for (const MappedFile& part : file.files()) {
    const auto head = part.bytes().first(std::min(part.bytes().size(), kGgufMagic.size()));
    if (std::string_view(reinterpret_cast<const char*>(head.data()), head.size()) != kGgufMagic) {
      for (const auto& [key, value] : file.metadata().all()) header.set_value(key, value);
      return;
    }
    header.copy_metadata(part.bytes(), kReplaced);
  }
}

}  // namespace

void requantise(const std::string& in, const std::string& out, const RequantiseOptions& options, Team& team,
                FunctionRef<void(const Change&)> done) {
  const auto file = open_model_file(in);
  check_paths(*file, out);
  std::vector<Change> changes = plan_requantise(*file, options);
  GgufHeader header;
  copy_metadata(*file, header);
  header.set("general.file_type", options.mix->file_type);
  header.set("general.quantization_version", std::uint32_t{2});
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const TensorInfo& t = file->tensors()[i];
    changes[i].bytes =
        header.add_tensor(t.name, changes[i].to, std::span(t.shape).first(static_cast<std::size_t>(t.rank)));
  }
  GgufWriter writer(out, header);
  Converter converter(writer, options, team);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const TensorInfo& t = file->tensors()[i];
    converter.convert(t, changes[i]);
    for (const auto piece : pieces_of(t)) file->drop(piece);
    done(changes[i]);
  }
  writer.finish();
}

}  // namespace kvasir::weights
