// Codecs, packing and reading back; attention is in api/attend.cpp.
#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "api/packed.hpp"
#include "kernel/attention.hpp"
#include "kv/layout.hpp"

namespace kvasir {
namespace api {

void bad(const std::string& what) { throw std::invalid_argument(what); }

void require(bool fine, const char* function, const std::string& expectation) {
  if (!fine) bad(std::string(function) + ": " + expectation);
}

int threads_of(const KvWorkers* workers) { return workers ? workers->size() : 1; }

void for_items(KvWorkers* workers, int begin, int end, FunctionRef<void(int, int)> f) {
  if (!workers) {
    for (int i = begin; i < end; ++i) f(i, 0);
    return;
  }
  workers->impl().team.parallel_for(end - begin, 1, [&](std::int64_t first, std::int64_t last, int worker) {
    for (auto i = first; i < last; ++i) f(begin + static_cast<int>(i), worker);
  });
}

namespace {

// The caller's mistakes leave the library as std::invalid_argument.
template <class F>
auto translated(F f) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.code() == Code::kBadInput) throw std::invalid_argument(e.what());
    throw;
  }
}

const kv::Codec* raw_codec(kv::RawType type) {
  return find(kv::codecs(), type == kv::RawType::kF32 ? "f32" : type == kv::RawType::kF16 ? "f16" : "bf16");
}

kv::CodecSpec parse(std::string_view text, int d, KvSide side) {
  return translated(
      [&] { return kv::parse_codec(text, d, side == KvSide::kKeys ? kv::Side::kKeys : kv::Side::kValues, "KvCodec"); });
}

std::size_t tile_floats(int d) {
  return static_cast<std::size_t>(kv::kPageTokens) *
         static_cast<std::size_t>((d + kv::kPanel - 1) / kv::kPanel * kv::kPanel);
}

// Rows [0, n) of a tile as (n, d).
void tile_rows(const float* tile, kv::Side side, int n, int d, float* out) {
  for (int t = 0; t < n; ++t)
    for (int c = 0; c < d; ++c)
      out[static_cast<std::ptrdiff_t>(t) * d + c] =
          side == kv::Side::kKeys ? tile[(t / kv::kPanel * d + c) * kv::kPanel + t % kv::kPanel]
                                  : tile[(c / kv::kPanel * kv::kPageTokens + t) * kv::kPanel + c % kv::kPanel];
}

}  // namespace
}  // namespace api

std::vector<KvCodecInfo> kv_codecs() {
  std::vector<KvCodecInfo> list;
  for (const auto& e : kv::codecs()) list.push_back({std::string(e.name), e.value->summary, e.value->lossless});
  return list;
}

// Element formats take bytes() of a page for every 128 tokens.
std::size_t KvCodec::Impl::raw_bytes(int capacity) const {
  return of(*raw).bytes(d, {}) / kv::kPageTokens * static_cast<std::size_t>(capacity);
}

KvCodec::KvCodec(std::string_view spec, int head_dim, KvSide side) {
  api::require(side == KvSide::kKeys || side == KvSide::kValues, "KvCodec", "side is neither kKeys nor kValues");
  auto impl = std::make_shared<Impl>();
  impl->text = spec;
  impl->spec = api::parse(spec, head_dim, side);
  impl->d = head_dim;
  impl->side = side == KvSide::kKeys ? kv::Side::kKeys : kv::Side::kValues;
  impl->raw = api::raw_codec(impl->spec.codec->raw_type);
  impl_ = std::move(impl);
}

const std::string& KvCodec::spec() const { return impl_->text; }
int KvCodec::head_dim() const { return impl_->d; }
KvSide KvCodec::side() const { return impl_->side == kv::Side::kKeys ? KvSide::kKeys : KvSide::kValues; }
bool KvCodec::lossless() const { return impl_->spec.codec->lossless; }

std::size_t KvCodec::bytes(std::int64_t tokens) const {
  api::require(tokens >= 0, "KvCodec::bytes", "tokens is " + std::to_string(tokens) + ", expected 0 or more");
  return impl_->head_bytes(tokens);
}

double KvCodec::bits_per_element() const {
  return 8.0 * static_cast<double>(impl_->page_bytes()) / (static_cast<double>(kv::kPageTokens) * impl_->d);
}

KvWorkers::KvWorkers(int threads) : impl_(api::translated([&] { return std::make_unique<Impl>(threads); })) {}
KvWorkers::~KvWorkers() = default;
int KvWorkers::size() const { return impl_->team.size(); }

namespace {

void check_counts(const float* x, int batch, int heads, std::int64_t tokens, int layer, std::size_t token_bytes) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    api::require(
        value >= least, "PackedKv",
        std::string(name) + " is " + std::to_string(value) + ", expected " + std::to_string(least) + " or more");
  };
  at_least("batch", batch, 1);
  at_least("heads", heads, 1);
  at_least("tokens", tokens, 0);
  at_least("layer", layer, 0);
  api::require(x || tokens == 0, "PackedKv", "x is null, expected [batch][heads][tokens][head_dim] floats");
  // So that neither sizes nor the index of a head overflow.
  const std::int64_t items = static_cast<std::int64_t>(batch) * heads;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 4;
  api::require(items <= std::numeric_limits<int>::max() &&
                   (tokens == 0 || items <= kMost / tokens / static_cast<std::int64_t>(token_bytes)),
               "PackedKv", "batch * heads * tokens is too large");
}

// One head: x (tokens, d). raw: a page of the raw codec; scratch: seal_floats.
void pack_head(const PackedKv::Impl& p, int item, const float* x, std::byte* raw, float* scratch) {
  const KvCodec::Impl& f = p.format();
  const auto write = f.side == kv::Side::kKeys ? f.raw->write_k : f.raw->write_v;
  const std::int64_t page_floats = static_cast<std::int64_t>(kv::kPageTokens) * f.d;
  const kv::Head head = p.head(item);
  for (std::int64_t i = 0; i < p.pages(); ++i) {
    write(raw, kv::kPageTokens, 0, kv::kPageTokens, x + i * page_floats, f.d, f.d);
    f.of(*f.spec.codec).seal(head, raw, 0, scratch, p.page(item, i));
  }
  if (p.tail() > 0)
    write(p.page(item, p.pages()), KvCodec::Impl::tail_capacity(p.tokens), 0, p.tail(), x + p.pages() * page_floats,
          f.d, f.d);
}

}  // namespace

PackedKv::PackedKv(const KvCodec& codec, const float* x, int batch, int heads, std::int64_t tokens, int layer,
                   KvWorkers* workers) {
  const KvCodec::Impl& f = codec.impl();
  check_counts(x, batch, heads, tokens, layer, static_cast<std::size_t>(f.d) * sizeof(float));
  const int items = batch * heads;
  impl_.reset(new Impl{codec, batch, heads, tokens, f.head_bytes(tokens), {}, {}});
  impl_->blocks =
      tensor::Buffer(tensor::Tag::kCache, static_cast<std::size_t>(items) * impl_->head_bytes + kv::kReadSlack);
  if (f.state_bytes() > 0) {
    impl_->states = tensor::Buffer(tensor::Tag::kCache, static_cast<std::size_t>(heads) * impl_->state_stride());
    for (int h = 0; h < heads; ++h)
      f.spec.codec->init_state(impl_->states.data() + static_cast<std::size_t>(h) * impl_->state_stride(), f.d, f.side,
                               layer, h);
  }
  const std::size_t raw_bytes = (f.raw_bytes(kv::kPageTokens) + kv::kReadSlack + 63) / 64 * 64;
  const std::size_t each = raw_bytes + (kv::seal_floats(f.d) * sizeof(float) + 63) / 64 * 64;
  const tensor::Buffer scratch(tensor::Tag::kScratch, static_cast<std::size_t>(api::threads_of(workers)) * each);
  api::for_items(workers, 0, items, [&](int item, int worker) {
    std::byte* own = scratch.data() + static_cast<std::size_t>(worker) * each;
    pack_head(*impl_, item, x + item * tokens * f.d, own, reinterpret_cast<float*>(own + raw_bytes));
  });
}

PackedKv::~PackedKv() = default;
PackedKv::PackedKv(PackedKv&& other) noexcept = default;
PackedKv& PackedKv::operator=(PackedKv&& other) noexcept = default;

const KvCodec& PackedKv::codec() const { return impl_->codec; }
int PackedKv::batch() const { return impl_->batch; }
int PackedKv::heads() const { return impl_->heads; }
std::int64_t PackedKv::tokens() const { return impl_->tokens; }
std::int64_t PackedKv::sealed_tokens() const { return impl_->pages() * kv::kPageTokens; }
std::size_t PackedKv::bytes() const { return impl_->blocks.size() - kv::kReadSlack + impl_->states.size(); }

void PackedKv::dequantize(float* out, KvWorkers* workers) const {
  const Impl& p = *impl_;
  const KvCodec::Impl& f = p.format();
  api::require(out || p.tokens == 0, "PackedKv::dequantize",
               "out is null, expected [batch][heads][tokens][head_dim] floats");
  const std::size_t each = api::tile_floats(f.d);
  const tensor::Buffer tiles(tensor::Tag::kScratch,
                             static_cast<std::size_t>(api::threads_of(workers)) * each * sizeof(float));
  api::for_items(workers, 0, p.batch * p.heads, [&](int item, int worker) {
    float* tile = tiles.as<float>() + static_cast<std::size_t>(worker) * each;
    float* rows = out + item * p.tokens * f.d;
    const kv::CodecSide& side = f.of(*f.spec.codec);
    for (std::int64_t i = 0; i < p.pages(); ++i, rows += static_cast<std::ptrdiff_t>(kv::kPageTokens) * f.d) {
      side.unseal(p.head(item), {p.page(item, i), 0, kv::kPageTokens, kv::kPageTokens}, tile);
      api::tile_rows(tile, f.side, kv::kPageTokens, f.d, rows);
      if (side.from_basis) side.from_basis(p.head(item), kv::kPageTokens, rows, f.d);
    }
    if (p.tail() == 0) return;
    f.of(*f.raw).unseal(p.raw_head(), p.tail_ref(item), tile);
    api::tile_rows(tile, f.side, p.tail(), f.d, rows);
  });
}

}  // namespace kvasir
