#include "weights/stream_stats.hpp"

namespace kvasir::weights {

StreamStats StreamStats::operator-(const StreamStats& from) const {
  return {.bytes_read = bytes_read - from.bytes_read,
          .blocks = blocks - from.blocks,
          .late = late - from.late,
          .restarts = restarts - from.restarts,
          .retries = retries - from.retries,
          .experts = experts - from.experts,
          .experts_read = experts_read - from.experts_read,
          .experts_expected = experts_expected - from.experts_expected,
          .experts_ahead = experts_ahead - from.experts_ahead,
          .stall_seconds = stall_seconds - from.stall_seconds,
          .busy_seconds = busy_seconds - from.busy_seconds};
}

StreamStats& StreamStats::operator+=(const StreamStats& o) {
  bytes_read += o.bytes_read;
  blocks += o.blocks;
  late += o.late;
  restarts += o.restarts;
  retries += o.retries;
  experts += o.experts;
  experts_read += o.experts_read;
  experts_expected += o.experts_expected;
  experts_ahead += o.experts_ahead;
  stall_seconds += o.stall_seconds;
  busy_seconds += o.busy_seconds;
  return *this;
}

}  // namespace kvasir::weights
