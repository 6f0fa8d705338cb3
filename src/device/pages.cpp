#include "device/pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/check.hpp"
#include "device/integer_dots.hpp"
#include "device/open.hpp"
#include "device/pays.hpp"

namespace kvasir::device {
namespace {

constexpr std::uint64_t kLeftToOthers = std::uint64_t{512} << 20;
constexpr std::uint64_t kArenaBytes = std::uint64_t{64} << 20;  // of a buffer, at least

}  // namespace

Pages::Pages(const Found& device, std::uint64_t memory, std::int64_t from_tokens, int threads)
    : context_(with_checked_dots(device)), memory_(memory), from_tokens_(from_tokens), threads_(threads) {
  const std::uint64_t all = context_.device().limits.memory;
  if (memory_ == 0) memory_ = all > 2 * kLeftToOthers ? all - kLeftToOthers : all / 2;
  stats_.name = context_.device().name;
}

Folder& Pages::folder_for(const Shape& shape) {
  for (const auto& f : folders_)
    if (f->shape() == shape) return *f;
  folders_.push_back(std::make_unique<Folder>(context_, programs_, shape));
  require(context_, *folders_.back());
  return *folders_.back();
}

void Pages::open(const kv::DevicePages& pages) {
  close();
  source_ = pages.source;
  std::vector<std::vector<float>> turns;  // by folder
  std::string refused;
  std::size_t at = 0;
  for (const kv::DeviceLayer& l : pages.layers) {
    const Shape shape{l.k, l.v_bytes > 0 ? l.v : nullptr, l.k_params, l.v_params, l.shape.head_dim, l.shape.head_dim_v};
    Layer layer;
    layer.heads = l.shape.kv_heads;
    layer.k_bytes = l.k_bytes;
    layer.v_bytes = l.v_bytes;
    const std::string why = refuse(shape);
    if (why.empty()) {
      layer.folder = &folder_for(shape);
      turns.resize(folders_.size());
      const auto of = static_cast<std::size_t>(
          std::find_if(folders_.begin(), folders_.end(), [&](const auto& f) { return f.get() == layer.folder; }) -
          folders_.begin());
      layer.at = static_cast<std::uint32_t>(at / 16);
      layer.turn_at = static_cast<std::uint32_t>(turns[of].size());
      at += static_cast<std::size_t>(layer.heads) * (layer.k_room() + layer.v_room());
      for (const kv::Head& h : l.heads_v) {
        const auto* const from = static_cast<const float*>(h.state);
        if (layer.folder->turn_floats() > 0)
          turns[of].insert(turns[of].end(), from, from + layer.folder->turn_floats());
      }
    } else if (refused.empty()) {
      refused = fmt::format("layer {}: {}", l.layer, why);
    }
    layers_.push_back(layer);
    layer_numbers_.push_back(l.layer);
  }
  if (at == 0)
    throw Error(Code::kUnsupported,
                "it can fold no layer of this cache: " +
                    (refused.empty() ? std::string("no layer keeps all its pages") : refused),
                stats_.name);
  for (std::size_t i = 0; i < folders_.size(); ++i) folders_[i]->set_turns(turns[i]);
  slot_bytes_ = at;
  const std::uint64_t arena_bytes =
      std::min(std::max(memory_ / kArenas, std::min(memory_, kArenaBytes)), context_.device().limits.allocation);
  arena_slots_ = static_cast<std::int64_t>(arena_bytes / slot_bytes_);
  if (arena_slots_ == 0)
    throw Error(Code::kMemory, fmt::format("a page takes {} bytes there, which do not fit", slot_bytes_), stats_.name);
  arena_slots_ = std::min(arena_slots_, std::max<std::int64_t>(pages.slots, 1));
  most_ = std::min({pages.slots, arena_slots_ * kArenas, static_cast<std::int64_t>(memory_ / slot_bytes_)});
  where_.assign(static_cast<std::size_t>(pages.slots), -1);
  free_.reserve(static_cast<std::size_t>(most_));  // on_free must not fail
  staged_.resize(slot_bytes_);
  stats_.most_pages = most_;
  if (from_tokens_ < 0) return measure(pages);
  stats_.from_tokens = stats_.from_prompts = from_tokens_;
  stats_.note = "as it was told to";
}

// The folds of one group and of eight by all heads of a layer, as a generated token asks for them, and the rows of a
// prompt, on both sides. Layers alike, so the first one is asked; what is measured differs from one time to the next,
// and no bit depends on it.
void Pages::measure(const kv::DevicePages& pages) {
  std::size_t i = 0;
  while (!layers_[i].folder) ++i;
  const kv::LayerShape& shape = pages.layers[i].shape;
  stats_.from_tokens = measure(*layers_[i].folder, shape, shape.group(), "measured:");
  stats_.from_prompts = measure(*layers_[i].folder, shape, kManyRows, "; prompts:");
}

// From which sealed tokens on so many rows a head are sooner there.
std::int64_t Pages::measure(Folder& folder, const kv::LayerShape& shape, int rows, const char* what) {
  constexpr int kGroups = 8;
  const Trial trial{.pages = 3 * kv::kGroupPages, .rows = rows, .start = true};
  const Case c = make_case(folder.shape(), folder.turn_floats(), trial);
  const Buffer arena = context_.make(c.arena.size());
  context_.write(arena, 0, c.arena.data(), c.arena.size());
  const std::array<const Buffer*, kArenas> arenas = {&arena};
  std::vector<PlacedPage> list;
  for (int g = 0; g < kGroups; ++g) list.insert(list.end(), c.pages.begin(), c.pages.begin() + kv::kGroupPages);
  std::vector<Case::Held> got;
  std::vector<Ask> asks(static_cast<std::size_t>(shape.kv_heads));
  for (Ask& ask : asks) {
    ask.v_at = c.v_at;
    ask.q = c.queries.data();
    ask.rows = trial.rows;
    ask.start = &c.start.states;
    ask.total = got.emplace_back(trial.rows, folder.shape().dv).states;
  }
  double seconds[2];
  for (int many = 0; many < 2; ++many)
    for (int time = 0; time < 3; ++time) {
      for (Ask& ask : asks) ask.pages = std::span(list).first(many ? list.size() : kv::kGroupPages);
      const double start = steady_seconds();
      folder.run(asks, arenas, 0, 0);
      const double took = steady_seconds() - start;
      seconds[many] = time == 0 ? took : std::min(seconds[many], took);
    }
  const double group = std::max(seconds[1] - seconds[0], 0.0) / (kGroups - 1);
  const double host = c.group_seconds * shape.kv_heads / std::clamp(threads_, 1, std::max(shape.kv_heads, 1) * kGroups);
  const std::int64_t groups = where_it_pays(host, std::max(seconds[0] - group, 0.0), group, 1);
  stats_.note += fmt::format("{} {} tokens of a layer take {:.3f} ms there and {:.3f} ms here", what,
                             kGroups * kv::kGroupPages * kv::kPageTokens, 1e3 * seconds[1], 1e3 * kGroups * host);
  return groups > 0 ? groups * kv::kGroupPages * kv::kPageTokens : kv::DeviceStats::kNever;
}

void Pages::close() noexcept {
  const std::string name = stats_.name;
  stats_ = {};
  stats_.name = name;
  for (Buffer& b : arenas_) b = Buffer();
  arena_count_ = 0;
  layers_.clear(), layer_numbers_.clear(), folders_.clear(), where_.clear(), free_.clear();
  busy_ = nullptr;
}

// Another buffer of slots. False: there is no room for one.
bool Pages::grow() {
  const std::int64_t from = arena_count_ * arena_slots_;
  const std::int64_t n = std::min(arena_slots_, most_ - from);
  if (n <= 0 || arena_count_ == kArenas) return false;
  try {
    arenas_[static_cast<std::size_t>(arena_count_)] = context_.make(static_cast<std::size_t>(n) * slot_bytes_);
  } catch (const Error& e) {
    if (e.code() != Code::kMemory) throw;
    most_ = stats_.most_pages = from;  // others use the device, too
    return false;
  }
  ++arena_count_;
  for (std::int64_t i = n; i-- > 0;) free_.push_back(static_cast<std::int32_t>(from + i));
  return true;
}

void Pages::lose(const std::string& why) noexcept {
  stats_.lost = why;
  std::fill(where_.begin(), where_.end(), -1);
  free_.clear();
  stats_.held_pages = 0;
  busy_ = nullptr;
}

void Pages::on_seal(std::int32_t slot) noexcept {
  std::int32_t& place = where_[static_cast<std::size_t>(slot)];
  if (place >= 0 || !stats_.lost.empty()) return;
  try {
    if (free_.empty() && !grow()) return;
    std::size_t piece = 0;
    std::byte* to = staged_.data();
    std::span<const std::span<const std::byte>> pieces;
    try {
      pieces = source_->fetch(slot);
    } catch (const Error&) {
      return;  // the disk's fault is the next step's
    }
    for (const Layer& l : layers_)
      for (int head = 0; head < l.heads; ++head)
        for (const auto& [bytes, room] : {std::pair{l.k_bytes, l.k_room()}, {l.v_bytes, l.v_room()}}) {
          if (bytes == 0) continue;
          if (l.folder) {
            std::memcpy(to, pieces[piece].data(), bytes);
            to += room;
          }
          ++piece;
        }
    const std::int32_t here = free_.back();
    context_.write(arenas_[static_cast<std::size_t>(arena(here))], at(here), staged_.data(), slot_bytes_);
    free_.pop_back();
    place = here;
    ++stats_.held_pages;
    stats_.uploaded_bytes += slot_bytes_;
  } catch (const std::exception& e) {
    lose(e.what());
  }
}

void Pages::on_free(std::int32_t slot) noexcept {
  std::int32_t& place = where_[static_cast<std::size_t>(slot)];
  if (place < 0) return;
  free_.push_back(place);
  place = -1;
  --stats_.held_pages;
}

bool Pages::begin(int layer, float soft_cap, std::span<const kv::DeviceFold> folds) {
  const auto found = std::lower_bound(layer_numbers_.begin(), layer_numbers_.end(), layer);
  const Layer& l = layers_[static_cast<std::size_t>(found - layer_numbers_.begin())];
  if (!l.folder || soft_cap != 0.0f) {
    ++stats_.refused_folds;
    return false;
  }
  asks_.clear();
  pages_.clear();
  std::size_t count = 0;
  for (const kv::DeviceFold& f : folds) count += f.pages.size();
  pages_.reserve(count);  // asks point into it
  const auto head_at = static_cast<std::uint32_t>((l.k_room() + l.v_room()) / 16);
  for (const kv::DeviceFold& f : folds) {
    Ask a;
    const std::size_t first = pages_.size();
    for (const kv::DevicePage& p : f.pages) {
      const std::int32_t place = where_[static_cast<std::size_t>(p.slot)];
      pages_.push_back(PlacedPage::of(at(place), arena(place), p.begin, p.end));
    }
    a.pages = std::span(pages_).subspan(first);
    a.k_at = static_cast<std::uint32_t>(f.head) * head_at;
    a.v_at = a.k_at + static_cast<std::uint32_t>(l.k_room() / 16);
    a.head = f.head;
    a.q = f.q;
    a.rows = f.rows;
    a.start = f.start;
    a.total = f.total;
    a.groups = f.start ? nullptr : f.groups.data();
    asks_.push_back(a);
    stats_.folded_groups += static_cast<std::uint64_t>(f.rows) * (f.pages.size() / kv::kGroupPages);
  }
  std::array<const Buffer*, kArenas> in{};
  for (int i = 0; i < arena_count_; ++i) in[static_cast<std::size_t>(i)] = &arenas_[static_cast<std::size_t>(i)];
  try {
    l.folder->start(asks_, in, l.at, l.turn_at);
  } catch (const std::exception& e) {
    lose(e.what());
    ++stats_.refused_folds;
    return false;
  }
  busy_ = l.folder;
  return true;
}

bool Pages::wait() noexcept {
  const auto start = std::chrono::steady_clock::now();
  try {
    busy_->finish();
  } catch (const std::exception& e) {
    lose(e.what());
  }
  busy_ = nullptr;
  stats_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return stats_.lost.empty();
}

kv::DeviceStats Pages::stats() const { return stats_; }

std::shared_ptr<kv::PageDevice> open_pages(const std::string& name, const PageOptions& options) {
  const Survey all = survey();
  const Found& found = choose(all, name);
  const std::uint64_t weights =
      options.weights < 0 ? found.limits.memory / 4 : static_cast<std::uint64_t>(options.weights);
  const std::uint64_t kept = kLeftToOthers + weights;
  std::uint64_t memory = options.memory;
  if (memory == 0 && weights > 0 && found.limits.memory > kept + kArenaBytes) memory = found.limits.memory - kept;
  return std::make_shared<Pages>(found, memory, options.from_tokens, options.threads);
}

}  // namespace kvasir::device
