// From where on a device is sooner than the host.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kvasir::device {

// Units of work, in whole steps. Seconds: the host's a unit; the device's in any case, and a unit. 0: nowhere.
inline std::int64_t where_it_pays(double host, double fixed, double device, std::int64_t step) {
  if (!(host > device)) return 0;
  const double steps = std::ceil(fixed / (host - device) / static_cast<double>(step));
  return steps < 1e9 ? std::max(static_cast<std::int64_t>(steps), std::int64_t{1}) * step : 0;
}

}  // namespace kvasir::device
