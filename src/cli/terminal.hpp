// What people see: progress bars on a terminal, sizes and rates in words.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace kvasir::cli {

bool is_terminal(std::FILE* stream);

// Text of a model, written at once. A terminal gets no control characters but line breaks and tabs: what a model writes
// could move the cursor, or make the terminal answer.
void show_text(std::string_view text, std::FILE* out = stdout);
std::string printable(std::string_view text);  // without them

std::string human_bytes(std::uint64_t bytes);                 // "512 B", "1.5 KiB", "12.3 GiB"
std::string human_rate(double per_second, const char* what);  // ("tokens") "41.2 tokens/s", "1.24 k tokens/s"
std::string human_bandwidth(double bytes_per_second);         // "34.1 GB/s" (powers of ten, as memory is sold)
std::string human_seconds(double seconds);                    // "850 us", "12.3 ms", "4.21 s", "2 min 5 s"

// "label [=====     ]  42 %, 12 s left", at most `width` columns; `left` is what stands behind the per cent. A total of
// 0 counts as done.
std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, int width,
                          const std::string& left = "");

// What is left of a work of which `done` of `total` took `seconds`: ", 12 s left", ", 3 min 20 s left"; empty during
// the first two seconds, and while nothing is done.
std::string time_left(std::uint64_t done, std::uint64_t total, double seconds);

// A line on stderr that is redrawn at most 20 times a second and erased at the end. Prints nothing when `out` is no
// terminal, so that logs and pipes stay clean.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label, std::FILE* out = stderr);
  ProgressBar(std::string label, std::FILE* out, bool enabled);  // for tests
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done, std::uint64_t total);
  void erase();   // until the next update, so that something else can be printed
  void finish();  // erases the line; further updates are ignored

 private:
  std::string label_;
  std::FILE* out_;
  bool enabled_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point first_{}, last_{};
};

}  // namespace kvasir::cli
