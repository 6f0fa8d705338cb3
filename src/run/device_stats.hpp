// What a device did with pages of the cache and with prompts, in words and as JSON.
#pragma once

#include <string>

#include "base/json.hpp"
#include "cpu/product_device.hpp"
#include "kv/options.hpp"

namespace kvasir::run {

// "NVIDIA H200: 240 pages (31 MB copied), 1920 groups folded, waited 0.02 s; 224 products, waited 0.10 s".
std::string device_line(const kv::DeviceStats& pages, const cpu::ProductDeviceStats& products);
// The object of receipts and /v1/stats.
Json device_json(const kv::DeviceStats& pages, const cpu::ProductDeviceStats& products);

}  // namespace kvasir::run
