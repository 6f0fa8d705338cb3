// How one vector of a text is made of the states of its tokens. The numbers are those of the files (ARCH.pooling_type).
#pragma once

#include <string_view>

namespace kvasir::model {

enum class Pooling {
  kNone = 0,
  kMean = 1,
  kCls = 2,   // the first token's
  kLast = 3,  // the last token's
  kRank = 4,  // scores of a head that reads the first token's, or of a model that writes the last one's
};
inline constexpr std::string_view kPoolingNames[] = {"none", "mean", "cls", "last", "rank"};
constexpr std::string_view name(Pooling pooling) { return kPoolingNames[static_cast<int>(pooling)]; }

}  // namespace kvasir::model
