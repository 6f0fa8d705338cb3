#include "cli/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvasir::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(50);
constexpr int kWidestBar = 80;

int columns(std::FILE* stream) {
  winsize size{};
  const bool known = ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return std::min(known ? size.ws_col - 1 : kWidestBar, kWidestBar);
}

// Three significant digits below 1000, whole numbers above.
std::string three_digits(double v) { return v < 999.5 ? fmt::format("{:.3g}", v) : fmt::format("{:.0f}", v); }

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == '\n' || c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)) out += c;
  return out;
}

void show_text(std::string_view text, std::FILE* out) {
  const std::string shown = is_terminal(out) ? printable(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), out);
  std::fflush(out);
}

std::string human_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would print as 1024.0.
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_rate(double per_second, const char* what) {
  if (per_second < 9999.5) return fmt::format("{} {}/s", three_digits(per_second), what);
  if (per_second < 9999500) return fmt::format("{} k {}/s", three_digits(per_second / 1e3), what);
  return fmt::format("{} M {}/s", three_digits(per_second / 1e6), what);
}

std::string human_bandwidth(double bytes_per_second) {
  return fmt::format("{} GB/s", three_digits(bytes_per_second / 1e9));
}

std::string human_seconds(double seconds) {
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 99.95) return fmt::format("{:.3g} s", seconds);
  const auto whole = std::llround(seconds);
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string time_left(std::uint64_t done, std::uint64_t total, double seconds) {
  if (seconds < 2 || done == 0 || done >= total) return "";
  const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
  return ", " + human_seconds(std::max(1.0, std::round(left))) + " left";
}

std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, int width,
                          const std::string& left) {
  done = std::min(done, total);
  const double part = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  const std::string percent = fmt::format("{:3} %{}", static_cast<int>(part * 100), left);
  const int bar = width - static_cast<int>(label.size() + percent.size()) - 4;
  if (bar < 4) return percent.substr(0, static_cast<std::size_t>(std::max(width, 0)));
  const int filled = static_cast<int>(part * bar);
  return fmt::format("{} [{}{}] {}", label, std::string(static_cast<std::size_t>(filled), '='),
                     std::string(static_cast<std::size_t>(bar - filled), ' '), percent);
}

ProgressBar::ProgressBar(std::string label, std::FILE* out) : ProgressBar(std::move(label), out, is_terminal(out)) {}

ProgressBar::ProgressBar(std::string label, std::FILE* out, bool enabled)
    : label_(std::move(label)), out_(out), enabled_(enabled) {}

ProgressBar::~ProgressBar() { finish(); }

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < kRedraw) return;
  if (!drawn_) first_ = now;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - first_).count();
  fmt::print(out_, "\r\x1b[K{}", progress_line(label_, done, total, columns(out_), time_left(done, total, seconds)));
  std::fflush(out_);
}

void ProgressBar::erase() {
  if (!enabled_ || !drawn_) return;
  fmt::print(out_, "\r\x1b[K");  // back to the first column, erase to the end
  std::fflush(out_);
}

void ProgressBar::finish() {
  erase();
  enabled_ = false;
}

}  // namespace kvasir::cli
