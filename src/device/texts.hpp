// The kernels' text, OpenCL C 1.2 (src/device/kernels).
#pragma once

namespace kvasir::device::texts {

inline constexpr char kCommon[] =
#include "device/kernels/common.cl"
    ;
inline constexpr char kFold[] =
#include "device/kernels/fold.cl"
    ;
inline constexpr char kFoldMma[] =
#include "device/kernels/fold_mma.cl"
    ;
inline constexpr char kTotal[] =
#include "device/kernels/total.cl"
    ;
inline constexpr char kDots[] =
#include "device/kernels/dots.cl"
    ;
inline constexpr char kProductParts[] =
#include "device/kernels/product_parts.cl"
    ;
inline constexpr char kProduct[] =
#include "device/kernels/product.cl"
    ;
inline constexpr char kProductMma[] =
#include "device/kernels/product_mma.cl"
    ;
inline constexpr char kKivi[] =
#include "device/kernels/kivi.cl"
    ;
inline constexpr char kSealKivi[] =
#include "device/kernels/seal_kivi.cl"
    ;

}  // namespace kvasir::device::texts
