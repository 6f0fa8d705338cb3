// Counters of the server, and the text in which Prometheus reads them and the engine's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "run/pictures.hpp"
#include "run/service.hpp"

namespace kvasir::serve {

// Cumulative histogram of seconds. Thread-safe; a reader may see a count without its sum.
class Histogram {
 public:
  // Half-decades from 0.1 ms to 1000 s: from a cached token to the prefill of a long document.
  static constexpr std::array<double, 15> kBounds{1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3,
                                                  1,    3,    10,   30,   100,  300,  1000};

  void observe(double seconds, std::uint64_t times = 1);
  // labels: of every line, such as `model="a"`; empty: none.
  void write(std::string& out, std::string_view name, std::string_view help, std::string_view labels = {}) const;
  std::uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  // The value below which a share `q` of the observations lies, interpolated between bounds; 0 without any.
  double quantile(double q) const;

 private:
  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> buckets_{};
  std::atomic<double> sum_{0};
};

// A label's value, without the quotes around it.
std::string escaped_label(std::string_view text);

struct Metrics {
  Histogram first_token;   // from the end of the request's body to the first token
  Histogram inter_token;   // between tokens of one answer
  Histogram request_time;  // whole generation requests
  std::atomic<std::uint64_t> prompt_tokens{0}, cached_tokens{0}, completion_tokens{0};
  std::atomic<std::uint64_t> remembered_tokens{0};  // of prompts: tokens of answers as they were generated
  std::atomic<std::uint64_t> disconnects{0};        // generations cancelled because the client went away
  std::atomic<std::uint64_t> slow_readers{0};       // connections closed because the client did not read
  std::atomic<std::uint64_t> connections{0};        // accepted since the start
  std::atomic<std::uint64_t> refused{0};            // of these: over the limit

  void count_request(std::string_view route, int status);

  // Text format 0.0.4.
  std::string text(const run::ServiceStats& stats, std::int64_t open_connections, double uptime) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
};

// Of a model that reads pictures.
std::string picture_metrics_text(const run::Pictures::Stats& pictures);

}  // namespace kvasir::serve
