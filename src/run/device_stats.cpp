#include "run/device_stats.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvasir::run {

std::string device_line(const kv::DeviceStats& s) {
  if (!s.lost.empty()) return fmt::format("{} was lost, the processor went on: {}", s.name, s.lost);
  return fmt::format("{}: {} pages ({:.0f} MB copied), {} groups folded, waited {:.2f} s", s.name, s.held_pages,
                     static_cast<double>(s.uploaded_bytes) * 1e-6, s.folded_groups, s.wait_seconds);
}

Json device_json(const kv::DeviceStats& s) {
  return {{"name", s.name},
          {"lost", s.lost.empty() ? Json(nullptr) : Json(s.lost)},
          {"pages", s.held_pages},
          {"most_pages", s.most_pages},
          {"uploaded_bytes", s.uploaded_bytes},
          {"folded_groups", s.folded_groups},
          {"refused_folds", s.refused_folds},
          {"wait_seconds", s.wait_seconds}};
}

}  // namespace kvasir::run
