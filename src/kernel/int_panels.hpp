// Products of panels of quantised weights (kernel/int_planes.hpp) with int8 activations, written once for all formats.
// Included by the files of weights/quants, which are compiled per instruction set.
#pragma once

#include "kernel/int_gemm.hpp"
#include "kernel/int_gemv.hpp"
#include "simd/shapes.hpp"

namespace kvasir::kernel::KVASIR_TARGET {

template <class F>
struct IntPanels : IntLayout<F> {
  using Layout = IntLayout<F>;

  static void matmul(const MatmulArgs& args) {
    const std::int64_t few = args.x->many() ? 0 : args.x->n;
    if constexpr (!simd::KVASIR_TARGET::kOneShape) {
      if (few == 1) return IntGemv<F>::template gemv<1>(args);
    }
    if constexpr (kGemvColumns > 1) {
      if (few == 2) return IntGemv<F>::template gemv<2>(args);
      if (few == 3) return IntGemv<F>::template gemv<3>(args);
      if (few == 4) return IntGemv<F>::template gemv<4>(args);
    }
    // Tile by tile, so that its activations stay in the L2 cache for all panels of the call. Two panels share registers
    // where there are many, or the widening of activations.
    constexpr int kPanels =
        !simd::KVASIR_TARGET::kFewShapes && (KVASIR_VECTOR_REGISTERS >= 32 || IntGemm<F>::kWide) ? 2 : 1;
    for (std::int64_t first = 0; first < args.x->n; first += kTileColumns) {
      std::int64_t p = args.panel_begin;
      for (; p + kPanels <= args.panel_end; p += kPanels) IntGemm<F>::template gemm<kPanels>(args, p, first);
      for (; p < args.panel_end; ++p) IntGemm<F>::template gemm<1>(args, p, first);
    }
  }

  static constexpr PanelFormat format() {
    return {ActivationKind::kInt8,
            F::kBlock,
            Layout::panel_bytes,
            Layout::pack,
            Layout::unpack_row,
            matmul,
            HasFactor<F> ? Layout::set_factor : nullptr,
            Layout::unpack};
  }
};

}  // namespace kvasir::kernel::KVASIR_TARGET
