// The name that somebody who typed `wanted` probably meant, for "did you mean" in messages.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir {

// The candidate with the smallest edit distance (insert, delete, replace, swap of neighbours: 1 each) when that is at
// most a third of the longer name, else an empty string. Ties go to the earlier candidate. Linear in the candidates and
// bounded in their lengths: anything longer than 64 bytes is never near.
std::string nearest(std::string_view wanted, std::span<const std::string> candidates);

// " (did you mean 'x'?)" or nothing.
std::string did_you_mean(std::string_view wanted, std::span<const std::string> candidates);

}  // namespace kvasir
