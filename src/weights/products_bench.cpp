// How fast products with packed weights are, each weight type alone: one column against read bandwidth over the same
// memory, many columns against the peaks of the active instruction set.
//   products_bench [types [threads [k [columns [MiB]]]]], types separated by commas
// Every figure is the best of several rounds in which it takes turns with its measure.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/team.hpp"
#include "kernel/peak.hpp"
#include "tensor/buffer.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

constexpr int kRounds = 9;

struct Product {
  const kernel::PanelFormat* format;
  std::int64_t k, rows, columns;
  tensor::Buffer panels, activations;
  std::vector<float> out;
  kernel::Activations x;

  Product(const Quant& quant, std::int64_t k_, std::int64_t rows_, std::int64_t columns_)
      : format(&quant.format()),
        k(k_),
        rows(rows_),
        columns(columns_),
        panels(tensor::Tag::kWeights,
               static_cast<std::size_t>(rows / kernel::kPanelRows * format->panel_bytes(k)) + 4096),
        activations(tensor::Tag::kScratch,
                    static_cast<std::size_t>(columns * kernel::activation_bytes(format->activation, k))),
        out(static_cast<std::size_t>(rows * columns)) {
    std::vector<float> row(static_cast<std::size_t>(k));
    std::vector<std::byte> file(static_cast<std::size_t>(k / quant.block * quant.block_bytes));
    std::vector<std::vector<std::byte>> rows_of_panel;
    std::uint32_t random = 1;
    const auto fill = [&] {
      for (float& v : row) v = static_cast<float>((random = random * 1664525 + 1013904223) >> 8) * 0x1p-23f - 1.0f;
    };
    const std::byte* pointers[kernel::kPanelRows];
    for (int r = 0; r < kernel::kPanelRows; ++r) {
      fill();
      quant.quantise(row.data(), file.data(), k);
      rows_of_panel.push_back(file);
    }
    for (int r = 0; r < kernel::kPanelRows; ++r) pointers[r] = rows_of_panel[static_cast<std::size_t>(r)].data();
    const auto bytes = static_cast<std::size_t>(format->panel_bytes(k));
    format->pack(pointers, k, panels.data());
    for (std::int64_t p = 1; p < rows / kernel::kPanelRows; ++p)
      std::memcpy(panels.data() + static_cast<std::size_t>(p) * bytes, panels.data(), bytes);
    x = {format->activation, activations.data(), columns, k};
    for (std::int64_t c = 0; c < columns; ++c) {
      fill();
      kernel::activation().prepare(x, c, c + 1, row.data(), k, {0, k});
    }
  }

  std::int64_t panel_count() const { return rows / kernel::kPanelRows; }
  std::int64_t bytes() const { return panel_count() * format->panel_bytes(k); }

  double seconds(Team& team, std::int64_t grain) {
    const double start = steady_seconds();
    team.parallel_for(panel_count(), grain, [&](std::int64_t begin, std::int64_t end, int) {
      format->matmul({panels.data(), k, rows, begin, end, &x, out.data(), rows});
    });
    return steady_seconds() - start;
  }
};

double read_seconds(Team& team, const Product& p, std::uint64_t (*reader)(const std::byte*, std::size_t)) {
  constexpr std::int64_t kUnit = 4096, kPiece = 1024;
  const std::int64_t units = p.bytes() / kUnit;
  const double start = steady_seconds();
  team.parallel_for(units, kPiece, [&](std::int64_t begin, std::int64_t end, int) {
    const std::uint64_t sum = reader(p.panels.data() + begin * kUnit, static_cast<std::size_t>((end - begin) * kUnit));
    asm volatile("" ::"r"(sum));
  });
  return (steady_seconds() - start) * static_cast<double>(p.bytes()) / static_cast<double>(units * kUnit);
}

double peak_rate(Team& team, std::int64_t (*loop)(std::int64_t, float*)) {
  double operations = 0;
  const double start = steady_seconds();
  team.run([&](int worker) {
    float sink;
    const auto n = static_cast<double>(loop(4096, &sink));
    asm volatile("" ::"m"(sink));
    if (worker == 0) operations = n * team.size();
  });
  return operations / (steady_seconds() - start);
}

void measure(const char* name, const Quant& quant, Team& team, std::int64_t k, std::int64_t columns,
             std::int64_t streamed) {
  {
    Product one(quant, k, streamed / quant.format().panel_bytes(k) * kernel::kPanelRows, 1);
    double product = 1e9, read = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      for (const auto reader : kernel::peak().read) read = std::min(read, read_seconds(team, one, reader));
      product = std::min(product, one.seconds(team, 32));
    }
    const auto gb = static_cast<double>(one.bytes()) * 1e-9;
    std::printf("%-6s 1 column: %5.1f GB/s of %5.1f read (%3.0f %%);", name, gb / product, gb / read,
                100 * read / product);
  }
  Product many(quant, k, 2048, columns);
  const bool int8 = quant.format().activation == kernel::ActivationKind::kInt8;
  const bool bf16 = quant.format().activation == kernel::ActivationKind::kBf16;
  const kernel::PeakKernels& peaks = kernel::peak();
  double product = 1e9, peak = 0;
  for (int round = 0; round < kRounds; ++round) {
    peak = std::max(peak, peak_rate(team, int8 ? peaks.int8_dot : bf16 ? peaks.bf16_dot : peaks.f32_fma));
    product = std::min(product, many.seconds(team, 24));
  }
  const double rate = 2.0 * static_cast<double>(k) * 2048.0 * static_cast<double>(columns) / product;
  std::printf(" %lld columns: %5.0f GOP/s of %5.0f %s (%3.0f %%)\n", static_cast<long long>(columns), rate * 1e-9,
              peak * 1e-9,
              int8   ? "int8"
              : bf16 ? "bf16"
                     : "f32",
              100 * rate / peak);
}

}  // namespace
}  // namespace kvasir::weights

int main(int argc, char** argv) {
  using namespace kvasir;
  std::stringstream types(argc > 1 ? argv[1] : "q4_0,q8_0,q4_k,f16");
  Team team(argc > 2 ? std::atoi(argv[2]) : 2);
  const std::int64_t k = argc > 3 ? std::atoll(argv[3]) : 2048, columns = argc > 4 ? std::atoll(argv[4]) : 512;
  const std::int64_t streamed = (argc > 5 ? std::atoll(argv[5]) : 256) << 20;  // by default far beyond the last cache
  for (std::string type; std::getline(types, type, ',');)
    for (const auto& entry : weights::quants())
      if (entry.name == type) weights::measure(type.c_str(), *entry.value, team, k, columns, streamed);
}
