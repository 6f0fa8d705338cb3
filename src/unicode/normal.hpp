// Canonical normalisation (the Unicode standard's annex 15).
#pragma once

#include <string>
#include <string_view>

namespace kvasir::unicode {

// Whether nfc(text) is `text`, as far as single characters tell: a false "no" costs time only. Bytes that are not UTF-8
// count as characters that nothing combines with.
bool is_nfc(std::string_view text);

// Normalisation form C: "e" and U+0301 become "é". Linear in the text but for runs of marks, which are sorted.
std::string nfc(std::string_view text);

// Normalisation form D: "é" becomes "e" and U+0301.
std::string nfd(std::string_view text);

// Normalisation forms KC and KD: also characters that only look otherwise, such as "ﬁ" and "①", become plain ones.
std::string nfkc(std::string_view text);
std::string nfkd(std::string_view text);

}  // namespace kvasir::unicode
