// That what is one new file also works (tests/registry_test.sh): products with the skeleton of a weight type on every
// instruction set of this machine beside sums in double, and a model in the skeleton's format.
//   registry_weights FOLDER   an empty folder to write to
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/gaussian.hpp"
#include "simd/every_isa.hpp"
#include "weights/gguf.hpp"
#include "weights/mixes.hpp"
#include "weights/model_file.hpp"
#include "weights/quant.hpp"

namespace kvasir {
namespace {

constexpr std::int64_t kRows = 33, kColumns = 70, kK = 224, kPanels = (kRows + 15) / 16;
// Relative L2 error that 8-bit activations leave (kernel/matmul_test.cpp).
constexpr double kRounding = 0.012;

struct Products {
  std::vector<float> weights;  // (kRows, kK), as the type holds them
  std::vector<std::byte> panels;
  std::vector<float> x = gaussian(kColumns * kK, 2);
  const weights::Quant& quant;

  explicit Products(const weights::Quant& q) : weights(gaussian(kRows * kK, 1)), quant(q) {
    const auto row_bytes = static_cast<std::size_t>(kK / q.block * q.block_bytes);
    std::vector<std::byte> file(kRows * row_bytes);
    for (std::size_t r = 0; r < kRows; ++r) {
      q.quantise(&weights[r * kK], &file[r * row_bytes], kK);
      q.dequantise(&file[r * row_bytes], &weights[r * kK], kK);
    }
    const auto bytes = static_cast<std::size_t>(q.format().panel_bytes(kK));
    panels.resize(kPanels * bytes);
    for (std::size_t p = 0; p < kPanels; ++p) {
      const std::byte* rows[kernel::kPanelRows];
      for (std::size_t r = 0; r < kernel::kPanelRows; ++r)
        rows[r] = 16 * p + r < kRows ? &file[(16 * p + r) * row_bytes] : nullptr;
      q.format().pack(rows, kK, &panels[p * bytes]);
    }
  }

  std::vector<float> of(std::int64_t columns) const {
    const kernel::ActivationKind kind = quant.format().activation;
    std::vector<std::byte> prepared(static_cast<std::size_t>(columns * kernel::activation_bytes(kind, kK)));
    const kernel::Activations a{kind, prepared.data(), columns, kK};
    kernel::activation().prepare(a, 0, columns, x.data(), kK, {0, kK});
    std::vector<float> out(static_cast<std::size_t>(columns * kRows));
    quant.format().matmul({panels.data(), kK, kRows, 0, kPanels, &a, out.data(), kRows});
    return out;
  }

  double error(const std::vector<float>& out) const {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float* w = &weights[i % kRows * kK];
      const float* column = &x[i / kRows * kK];
      double want = 0, ww = 0, xx = 0;
      for (std::size_t k = 0; k < kK; ++k) {
        want += double{w[k]} * double{column[k]};
        ww += double{w[k]} * double{w[k]};
        xx += double{column[k]} * double{column[k]};
      }
      error += (double{out[i]} - want) * (double{out[i]} - want);
      norm += ww * xx;
    }
    return std::sqrt(error / norm);
  }
};

bool products() {
  bool good = true;
  simd::each_isa([&] {
    const Products products(*find(weights::quants(), "skeleton"));
    const std::vector<float> all = products.of(kColumns);
    for (const std::int64_t columns : {std::int64_t{1}, std::int64_t{3}, std::int64_t{9}, kColumns}) {
      const std::vector<float> out = products.of(columns);
      const double error = products.error(out);
      const bool same = std::equal(out.begin(), out.end(), all.begin());  // a column alone and among others
      if (error < kRounding && same) continue;
      std::printf("FAILED: products, %s, %d columns: error %.3g%s\n", std::string(simd::name(simd::active())).c_str(),
                  static_cast<int>(columns), error, same ? "" : ", other bits than among others");
      good = false;
    }
  });
  return good;
}

// The type is one that `kvasir quantize` writes and GGUF files hold.
bool written() {
  const weights::Mix& mix = weights::find_mix("skeleton");
  const auto type = weights::find_block_type("skeleton");
  if (mix.quant == "skeleton" && mix.file_type == 1000 && type && weights::find_block_type(type->ggml_type))
    return true;
  std::printf("FAILED: no GGUF file can hold the skeleton's type\n");
  return false;
}

void write(const std::string& path, std::span<const std::byte> bytes) { write_file(path, bytes); }

bool model(const std::string& folder) {
  const std::string header = "general.architecture = llama\na.weight 2 3 a.raw\nb.weight 1 2 b.raw\n";
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {-7.5f, 8};
  write(folder + "/model.skeleton", std::as_bytes(std::span(header)));
  write(folder + "/a.raw", std::as_bytes(std::span(a)));
  write(folder + "/b.raw", std::as_bytes(std::span(b)));
  const auto file = weights::open_model_file(folder);
  const auto holds = [&](const char* name, std::int64_t rows, std::int64_t columns, std::span<const float> values) {
    const weights::TensorInfo* t = file->find(name);
    if (!t || t->quant != "f32" || t->rows() != rows || t->columns() != columns) return false;
    const auto bytes = std::as_bytes(values);
    const bool same = std::equal(bytes.begin(), bytes.end(), t->bytes.begin(), t->bytes.end());
    file->drop(t->bytes);  // of any of the files
    return same && std::equal(bytes.begin(), bytes.end(), t->bytes.begin());
  };
  const bool good = file->tensors().size() == 2 && holds("a.weight", 2, 3, a) && holds("b.weight", 1, 2, b) &&
                    file->metadata().require_string("general.architecture") == "llama";
  if (!good) std::printf("FAILED: the model of the skeleton's format has other values\n");
  return good;
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const bool right = kvasir::products() && kvasir::written();
    return kvasir::model(argv[1]) && right ? 0 : 1;
  } catch (const std::exception& e) {
    std::printf("FAILED: %s\n", e.what());
    return 1;
  }
}
