#include "lab/eval/capture.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "model/hparams.hpp"
#include "run/engine.hpp"

namespace kvasir::lab::eval {
namespace {

// Rows (count, heads, dim) of a step into [head][token][dim] from token `first` on.
void copy_rows(const float* rows, int count, std::int64_t first, KvArray* to) {
  for (int r = 0; r < count; ++r)
    for (int h = 0; h < to->heads; ++h)
      std::copy_n(rows + (static_cast<std::ptrdiff_t>(r) * to->heads + h) * to->dim, to->dim,
                  to->data.data() + (static_cast<std::ptrdiff_t>(h) * to->tokens + first + r) * to->dim);
}

// Everything that can be wrong with text and model, before the weights are read.
std::vector<std::int32_t> tokens_of(const CaptureOptions& o) {
  const auto file = weights::open_model_file(o.model);
  const model::ModelSpec spec = model::read_spec(*file);
  if (o.tokens > spec.context)
    throw Error(
        Code::kBadInput,
        "is " + std::to_string(o.tokens) + ", expected at most the model's context, " + std::to_string(spec.context),
        "--tokens");
  const auto tokenizer = text::make_tokenizer(file->metadata());
  if (!tokenizer) throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", o.model);
  std::vector<std::int32_t> ids = tokenizer->encode(read_text_file(o.text), {.add_bos = tokenizer->add_bos()});
  if (static_cast<std::int64_t>(ids.size()) < o.tokens)
    throw Error(Code::kBadInput,
                "has " + std::to_string(ids.size()) + " tokens, --tokens wants " + std::to_string(o.tokens), o.text);
  ids.resize(static_cast<std::size_t>(o.tokens));
  return ids;
}

}  // namespace

std::vector<KvPair> capture(const CaptureOptions& o, const std::function<void()>& poll) {
  const std::vector<std::int32_t> ids = tokens_of(o);
  run::EngineOptions options;
  options.model = o.model;
  options.threads = o.threads;
  options.ctx = static_cast<std::int32_t>(o.tokens);
  options.kv = "f32";
  run::Engine engine(options, {.progress = [&](std::int64_t, std::int64_t) { poll(); }});
  engine.check_ids(ids);
  const kv::CacheShape shape = model::cache_shape(engine.model().spec());
  std::vector<KvPair> layers;
  std::vector<std::size_t> pair_of(shape.layers.size());  // layers that read another one's have none
  for (int l = 0; l < shape.count(); ++l) {
    if (shape.at(l).kv_of >= 0 || !shape.at(l).attends()) continue;
    pair_of[static_cast<std::size_t>(l)] = layers.size();
    const auto tokens = static_cast<int>(o.tokens);
    const kv::LayerShape& s = shape.at(l);
    KvPair pair{{l, s.kv_heads, tokens, s.head_dim, {}},
                {l, s.kv_heads, tokens, s.head_dim_v, {}},
                {l, s.query_heads, tokens, s.head_dim, {}}};
    for (KvArray* a : {&pair.keys, &pair.values, &pair.queries})
      a->data.resize(static_cast<std::size_t>(a->heads) * static_cast<std::size_t>(a->tokens) *
                     static_cast<std::size_t>(a->dim));
    layers.push_back(std::move(pair));
  }
  kv::Sequence* sequence = engine.cache().create();
  engine.forward().observe(
      [&](int layer, std::span<const kv::Slice> slices, const float* q, const float* k, const float* v) {
        if (!k) return;
        const std::int64_t first = kv::Cache::length(*sequence);
        KvPair& pair = layers[pair_of[static_cast<std::size_t>(layer)]];
        copy_rows(k, slices[0].count, first, &pair.keys);
        copy_rows(v, slices[0].count, first, &pair.values);
        copy_rows(q, slices[0].count, first, &pair.queries);
      });
  engine.feed(sequence, ids, 1, [&](std::int64_t) { return poll(), true; });
  return layers;
}

void save_capture(const std::string& prefix, const std::vector<KvPair>& layers) {
  for (const KvPair& pair : layers) {
    const std::string stem = prefix + "_layer" + std::to_string(pair.keys.layer);
    write_kv_file(stem + "_keys.bin", pair.keys);
    write_kv_file(stem + "_values.bin", pair.values);
    write_kv_file(stem + "_queries.bin", pair.queries);
  }
}

}  // namespace kvasir::lab::eval
