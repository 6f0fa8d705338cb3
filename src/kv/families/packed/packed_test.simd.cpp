#include "kv/families/packed/codes.hpp"
#include "kv/families/packed/int8_row.hpp"
#include "kv/families/packed/pack.hpp"
#include "kv/families/packed/packed_fixture.hpp"
#include "kv/families/row_blocks.hpp"

namespace kvasir::kv::KVASIR_TARGET {
namespace {

using namespace entries::codecs::KVASIR_TARGET;
using namespace simd::KVASIR_TARGET;

// f.template operator()<B>() for a width that is only known at run time.
template <class F>
void with_bits(int bits, F f) {
  switch (bits) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    default:
      return f.template operator()<8>();
  }
}

template <int B, class F>
void with_map(int map, const std::uint8_t* table, F f) {
  if constexpr (B <= 5) {
    if (map == 1) return f(Table<B, 31>::load(table));
    if (map == 2) return f(Table<B, 63>::load(table));
    if (map == 3) return f(Table<B, 127>::load(table));
  }
  f(Codes{});
}

void pack(int bits, bool transposed, const std::uint8_t* codes, int lanes, int depth, std::byte* to) {
  with_bits(bits, [&]<int B>() {
    if (transposed) {
      pack_matrix_transposed<B>(codes, lanes, depth, to);
    } else {
      pack_matrix<B>(codes, lanes, depth, to);
    }
  });
}

template <int B, class Map, int G>
void dots_rows(const Map& map, const std::byte* panel, int begin, int end, const std::int8_t* x, std::ptrdiff_t stride,
               const std::int32_t* x_sums, std::int32_t* out) {
  I32 acc[G];
  for (int g = 0; g < G; ++g) acc[g] = dots_start<B, Map>(x_sums[g]);
  panel_dots<B, Map, G>(panel, begin, end, map, x, stride, panel, acc);
  for (int g = 0; g < G; ++g) store_i32(out + 16 * g, acc[g]);
}

void dots(int bits, int map, const std::uint8_t* table, const std::byte* panel, int begin, int end,
          const std::int8_t* x, std::ptrdiff_t stride, const std::int32_t* x_sums, int g, std::int32_t* out) {
  with_bits(bits, [&]<int B>() {
    with_map<B>(map, table, [&]<class Map>(const Map& m) {
      for_row_blocks(g, [&]<int G>(int row) {
        dots_rows<B, Map, G>(m, panel, begin, end, x + row * stride, stride, x_sums + row, out + 16 * row);
      });
    });
  });
}

void floats(int bits, int map, const std::uint8_t* table, const std::byte* panel, int begin, int end, float* out) {
  with_bits(bits, [&]<int B>() {
    with_map<B>(map, table, [&]<class Map>(const Map& m) {
      panel_floats<B>(panel, begin, end, m, [&](int k, F32 row) { store(out + 16 * (k - begin), row); });
    });
  });
}

TestRow quantize(const float* x, int n, std::int8_t* out) {
  const Int8Row row = quantize_row(x, n, out);
  return {row.scale, row.sum};
}

}  // namespace

extern const PackedTestKernels packed_test_table;
const PackedTestKernels packed_test_table = {kRowBlock, pack, dots, floats, quantize, sum_row};

}  // namespace kvasir::kv::KVASIR_TARGET
