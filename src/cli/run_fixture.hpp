// For tests: a command line, and what it printed.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cli/front.hpp"

namespace kvasir::cli {

struct Result {
  int status = -1;
  std::string out, err;
};

// `more` are further arguments of run_command_line.
template <class... More>
Result run_captured(const std::vector<std::string>& arguments, More&&... more) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Result result;
  result.status = run_command_line(arguments, std::forward<More>(more)...);
  std::fflush(stdout);
  result.out = ::testing::internal::GetCapturedStdout();
  result.err = ::testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace kvasir::cli
