#include "run/weights_stats.hpp"

#include <fmt/format.h>

namespace kvasir::run {

std::string weights_line(const weights::StreamStats& f) {
  return fmt::format(
             "read {:.2f} GB at {:.2f} GB/s; waited {:.2f} s for {} of {} blocks, {:.0f} % of the reading was hidden",
             static_cast<double>(f.bytes_read) * 1e-9, f.bandwidth() * 1e-9, f.stall_seconds, f.late, f.blocks,
             100 * f.overlap()) +
         (f.experts > 0 ? fmt::format("; {} experts, {} read when chosen and {} before", f.experts, f.experts_read,
                                      f.experts_ahead)
                        : "") +
         (f.retries > 0 ? fmt::format("; {} reads were repeated", f.retries) : "");
}

nlohmann::ordered_json weights_json(const weights::StreamStats& f) {
  return {{"bytes_read", f.bytes_read},
          {"blocks", f.blocks},
          {"late", f.late},
          {"restarts", f.restarts},
          {"retries", f.retries},
          {"stall_seconds", f.stall_seconds},
          {"busy_seconds", f.busy_seconds},
          {"overlap", f.overlap()},
          {"bytes_per_second", f.bandwidth()},
          {"experts", f.experts},
          {"experts_read", f.experts_read},
          {"experts_expected", f.experts_expected},
          {"experts_ahead", f.experts_ahead}};
}

}  // namespace kvasir::run
