#include "model/packed_name.hpp"

#include <fmt/format.h>

#include "model/spec_fields.hpp"
#include "simd/isa.hpp"
#include "weights/tensor_text.hpp"

namespace kvasir::model {
namespace {

// Goes up when packed bytes come to mean something else.
constexpr int kPacking = 1;

}  // namespace

PackedName packed_name(const ModelSpec& spec, const weights::ModelFile& file, bool exact, bool bf16_products,
                       const std::string& path) {
  std::string text = fmt::format("kvasir packed weights {} {}{}{}\n", kPacking, simd::name(simd::active()),
                                 exact ? " exact" : "", bf16_products ? "" : " without bf16 products");
  text += to_text(spec);
  text += weights::tensor_text(file);
  const weights::PackedFingerprint fingerprint = weights::packed_fingerprint(text);
  if (!path.empty()) return {path, fingerprint};
  std::string beside = file.metadata().path();
  while (beside.size() > 1 && beside.back() == '/') beside.pop_back();
  return {beside + ".packed-" + weights::hex_of(fingerprint).substr(0, 12), fingerprint};
}

}  // namespace kvasir::model
