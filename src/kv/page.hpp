#pragma once

namespace kvasir::kv {

inline constexpr int kPageTokens = 128;  // consecutive tokens per page
inline constexpr int kGroupPages = 8;    // pages that are folded into one partial softmax state, by absolute page index
inline constexpr int kPanel = 64;        // columns of a tile's panel
inline constexpr int kFetchAhead = 2;    // blocks between the one that is read and the one that is fetched

}  // namespace kvasir::kv
