#include "run/fingerprint.hpp"

#include <fmt/format.h>

#include "base/hash.hpp"
#include "kv/spec.hpp"
#include "model/adapters.hpp"
#include "model/relocation.hpp"
#include "model/spec_fields.hpp"
#include "select/spec.hpp"
#include "simd/isa.hpp"
#include "weights/tensor_text.hpp"

namespace kvasir::run {
namespace {

// Of chunks and tails: goes up when the bytes of any page or tail come to mean something else.
constexpr int kCacheFormat = 7;  // 7: tails have states of recurrent layers

}  // namespace

std::string describe_cache(const Engine& engine) {
  const EngineOptions& o = engine.options();
  std::string text = fmt::format("kvasir cache {}\n", kCacheFormat) + model::to_text(engine.model().spec());
  text += fmt::format("kv {} {} sinks {}\n", kv::codecs_text(engine.codecs()),
                      o.residual < 0 ? fmt::format("window {}", o.window) : fmt::format("residual {}", o.residual),
                      o.sinks);
  // Chunks have pages of all layers then. Models without windows have the same bytes either way.
  if (o.whole_windows && model::has_windows(engine.model().spec())) text += "whole windows\n";
  std::uint64_t factors = 0;
  for (const std::vector<float>& layer : engine.cache_options().key_factors)
    factors = hash_bytes(std::as_bytes(std::span(layer)), factors + 1);
  text += fmt::format("key factors {:016x}\n", factors);
  if (!engine.cache_options().key_metrics.empty()) {
    std::uint64_t metrics = 0;
    for (const std::vector<float>& layer : engine.cache_options().key_metrics)
      metrics = hash_bytes(std::as_bytes(std::span(layer)), metrics + 1);
    text += fmt::format("key metrics {:016x}\n", metrics);
  }
  // What tokens read leaves no trace in what is stored; summaries lie beside the pages. Without any the line is that of
  // caches before there were other selectors, which stay readable.
  const std::string summaries = engine.cache_options().selector->summaries();
  text += summaries == "none" ? "select all 0\n" : fmt::format("summaries {} f16\n", summaries);
  const bool in_bf16 = engine.model().spec().in_bf16;
  text += fmt::format("arithmetic {}{}{}\n", simd::name(simd::active()), o.computes_exactly() ? " exact" : "",
                      in_bf16 ? " bf16" : "");
  if (const auto& adapters = engine.model().spec().adapters)
    text += fmt::format("adapters {:016x}\n", adapters->hash());
  text += weights::tensor_text(engine.model().file());
  return text;
}

}  // namespace kvasir::run
