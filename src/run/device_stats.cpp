#include "run/device_stats.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace kvasir::run {

namespace {

std::string lost_line(const std::string& name, const std::string& why) {
  return fmt::format("{} was lost, the processor went on: {}", name, why);
}

bool is_never(std::int64_t tokens) { return tokens >= kv::DeviceStats::kNever; }
Json depth(std::int64_t tokens) { return is_never(tokens) ? Json(nullptr) : Json(tokens); }

std::string pages_line(const kv::DeviceStats& s) {
  if (!s.lost.empty()) return lost_line(s.name, s.lost);
  std::string line =
      fmt::format("{}: {} pages ({:.0f} MB copied), {} groups folded, waited {:.2f} s", s.name, s.held_pages,
                  static_cast<double>(s.uploaded_bytes) * 1e-6, s.folded_groups, s.wait_seconds);
  if (is_never(s.from_tokens) && is_never(s.from_prompts)) return line + "; not used, " + s.note;
  const auto from = [](std::int64_t tokens) {
    return is_never(tokens) ? std::string("never") : fmt::format("from {} tokens on", tokens);
  };
  if (s.from_tokens == s.from_prompts) return s.from_tokens > 0 ? line + "; " + from(s.from_tokens) : line;
  return line + fmt::format("; {}, prompts {}", from(s.from_tokens), from(s.from_prompts));
}

Json products_json(const cpu::ProductDeviceStats& s) {
  return {{"lost", s.lost.empty() ? Json(nullptr) : Json(s.lost)},
          {"from_rows", s.from_rows > 0 ? Json(s.from_rows) : Json(nullptr)},
          {"note", s.note},
          {"weights", s.held_weights},
          {"most_weights", s.most_weights},
          {"uploaded_bytes", s.uploaded_bytes},
          {"ahead_bytes", s.ahead_bytes},
          {"products", s.products},
          {"refused", s.refused},
          {"wait_seconds", s.seconds}};
}

}  // namespace

std::string device_line(const kv::DeviceStats& pages, const cpu::ProductDeviceStats& products) {
  std::string line = pages_line(pages);
  if (!products.lost.empty() && products.lost != pages.lost) return line + "; prompts: " + products.lost;
  if (products.products > 0)
    line += fmt::format("; {} products ({:.0f} MB copied), waited {:.2f} s", products.products,
                        static_cast<double>(products.uploaded_bytes) * 1e-6, products.seconds);
  return line;
}

Json device_json(const kv::DeviceStats& s, const cpu::ProductDeviceStats& products) {
  Json out = {{"name", s.name},
              {"lost", s.lost.empty() ? Json(nullptr) : Json(s.lost)},
              {"from_tokens", depth(s.from_tokens)},
              {"from_prompts", depth(s.from_prompts)},
              {"note", s.note},
              {"pages", s.held_pages},
              {"most_pages", s.most_pages},
              {"uploaded_bytes", s.uploaded_bytes},
              {"folded_groups", s.folded_groups},
              {"refused_folds", s.refused_folds},
              {"wait_seconds", s.wait_seconds}};
  if (!products.name.empty()) out["products"] = products_json(products);
  return out;
}

}  // namespace kvasir::run
