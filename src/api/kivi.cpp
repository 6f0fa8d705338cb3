#include "kvasir/kivi.hpp"

#include "api/guard.hpp"
#include "device/open.hpp"
#include "kv/kivi_arrays.hpp"

namespace kvasir {
namespace {

std::unique_ptr<kv::KiviMaker> kivi_maker(const std::string& device) {
  if (device.empty() || device == "cpu") return std::make_unique<kv::HostKivi>();
  return device::open_kivi(device);
}

kv::KiviArrays arrays_of(const KiviArrays& a) {
  return {.values = a.values,
          .wide = a.float32_scales,
          .bits = a.bits,
          .group = a.group,
          .heads = a.heads,
          .tokens = a.tokens,
          .head_dim = a.head_dim,
          .codes = static_cast<std::byte*>(a.codes),
          .scales = static_cast<std::byte*>(a.scales),
          .minima = static_cast<std::byte*>(a.minima)};
}

}  // namespace

struct Kivi::Impl {
  std::unique_ptr<kv::KiviMaker> maker;
};

Kivi::Kivi(const std::string& device)
    : impl_(api::guarded([&] { return std::make_unique<Impl>(Impl{kivi_maker(device)}); })) {}
Kivi::~Kivi() = default;
Kivi::Kivi(Kivi&&) noexcept = default;
Kivi& Kivi::operator=(Kivi&&) noexcept = default;

std::string Kivi::device() const { return impl_->maker->name(); }

void Kivi::quantize(const float* x, const KiviArrays& to) {
  api::guarded([&] { impl_->maker->quantize(x, arrays_of(to)); });
}
void Kivi::dequantize(const KiviArrays& from, float* x) {
  api::guarded([&] { impl_->maker->dequantize(arrays_of(from), x); });
}
void Kivi::multiply(const float* a, std::int64_t rows, const KiviArrays& by, float* out) {
  api::guarded([&] { impl_->maker->multiply(a, rows, arrays_of(by), out); });
}

}  // namespace kvasir
