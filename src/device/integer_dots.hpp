// Sums of four products of bytes by cl_khr_integer_dot_product, where a device reports it.
#pragma once

#include <string>

#include "device/driver.hpp"

namespace kvasir::device {

// The device without Limits::integer_dots if its compiler does not build them, or if one of some thousand sums is not
// what it should be. Whatever is folded and multiplied with them is checked besides.
Found with_checked_dots(Found found, const std::string& options = "");

}  // namespace kvasir::device
