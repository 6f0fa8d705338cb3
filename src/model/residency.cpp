#include "model/residency.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.hpp"
#include "base/error.hpp"
#include "weights/packed_file.hpp"
#include "weights/ring.hpp"

namespace kvasir::model {
namespace {

std::int64_t bytes_of(const Bundle& b) { return b.count() * weights::padded(b.part_bytes()); }

// Of the bundles that are streamed: the least room, and room for one more layer, so that the disk goes on while a layer
// is computed.
struct Rooms {
  std::int64_t least = 0, good = 0;
};

Rooms rooms_for(const std::vector<Bundle>& bundles, const std::vector<Place>& places) {
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < bundles.size(); ++i)
    if (places[i] == Place::kStreamed) bytes.push_back(bytes_of(bundles[i]));
  if (bytes.empty()) return {};
  const std::int64_t least = weights::Ring::least_room(bytes);
  std::int64_t pair = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) pair = std::max(pair, bytes[i] + bytes[(i + 1) % bytes.size()]);
  return {least, least + pair};
}

// With further passes where the first ones are.
std::vector<Place> of_passes(const std::vector<Bundle>& bundles, std::vector<Place> places) {
  for (std::size_t i = 0; i < bundles.size(); ++i)
    if (bundles[i].same_as >= 0) places[i] = places[static_cast<std::size_t>(bundles[i].same_as)];
  return places;
}

// Streams every bundle that streams(b) says; experts of these are cached.
// A layer of several passes stays in memory if one of them does.
template <class F>
std::vector<Place> choose(const std::vector<Bundle>& bundles, F streams) {
  std::vector<Place> places;
  for (const Bundle& b : bundles)
    places.push_back(b.kind == BundleKind::kOther || !streams(b) ? Place::kResident
                     : b.kind == BundleKind::kExperts            ? Place::kCached
                                                                 : Place::kStreamed);
  for (std::size_t i = 0; i < bundles.size(); ++i)
    if (bundles[i].same_as >= 0 && places[i] == Place::kResident)
      places[static_cast<std::size_t>(bundles[i].same_as)] = Place::kResident;
  return of_passes(bundles, std::move(places));
}

// Of the layers whose experts are cached: bytes of one place in each, the most experts of any, and how many a token
// uses.
struct ExpertSizes {
  std::int64_t place_bytes = 0;
  std::int64_t most = 0, used = 0;
};
ExpertSizes expert_sizes(const std::vector<Bundle>& bundles, const std::vector<Place>& places) {
  ExpertSizes e;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (places[i] != Place::kCached || bundles[i].same_as >= 0) continue;
    e.place_bytes += weights::padded(bundles[i].part_bytes());
    e.most = std::max(e.most, bundles[i].count());
    e.used = std::max<std::int64_t>(e.used, bundles[i].used);
  }
  return e;
}

Residency sums(const std::vector<Bundle>& bundles, std::int64_t vector_bytes, std::vector<Place> places) {
  Residency r;
  r.vector_bytes = vector_bytes;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    const std::int64_t bytes = bytes_of(bundles[i]);
    if (bundles[i].same_as >= 0 && places[i] != Place::kStreamed) continue;  // what is streamed is read every time
    (places[i] == Place::kResident   ? r.resident_bytes
     : places[i] == Place::kStreamed ? r.streamed_bytes
     : places[i] == Place::kCached   ? r.expert_bytes
                                     : r.mapped_bytes) += bytes;
  }
  r.places = std::move(places);
  return r;
}

std::string mb(std::int64_t bytes) { return fmt::format("{} MB", (bytes + 999999) / 1000000); }

[[noreturn]] void too_little(std::int64_t memory, std::int64_t needed, const std::string& of) {
  throw Error(Code::kMemory, fmt::format("is {}, expected at least {} for {}", mb(memory), mb(needed), of),
              "--weights-memory");
}

// What stays in memory is spread evenly over the pass: so the disk goes on while it is computed.
std::vector<Place> spread(const std::vector<Bundle>& bundles, std::vector<Place> places, std::int64_t room) {
  std::int64_t all = 0, left = room;
  for (std::size_t i = 0; i < bundles.size(); ++i)
    if (places[i] == Place::kStreamed && bundles[i].same_as < 0) all += bytes_of(bundles[i]);
  double due = 0;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (places[i] != Place::kStreamed || bundles[i].same_as >= 0) continue;
    const std::int64_t bytes = bytes_of(bundles[i]);
    due += static_cast<double>(bytes) * static_cast<double>(room) / static_cast<double>(all);
    if (due < static_cast<double>(bytes) || bytes > left) continue;
    places[i] = Place::kResident;
    due -= static_cast<double>(bytes);
    left -= bytes;
  }
  for (std::size_t i = 0; i < bundles.size(); ++i) {  // what sizes left over
    if (places[i] != Place::kStreamed || bundles[i].same_as >= 0 || bytes_of(bundles[i]) > left) continue;
    places[i] = Place::kResident;
    left -= bytes_of(bundles[i]);
  }
  return of_passes(bundles, std::move(places));
}

}  // namespace

std::string Residency::text() const {
  if (mapped_bytes > 0) return mb(mapped_bytes) + " mapped, " + mb(vector_bytes) + " in memory";
  if (!streams()) return mb(resident_bytes + vector_bytes) + " in memory";
  std::string text = mb(resident_bytes + vector_bytes) + " in memory";
  if (streamed_bytes > 0) text += ", " + mb(streamed_bytes) + " read in every pass through " + mb(ring_bytes);
  if (expert_bytes > 0)
    text += fmt::format(", experts of {} in {}, {} of every layer", mb(expert_bytes), mb(cache_bytes), expert_places);
  return text;
}

Residency plan_residency(const std::vector<Bundle>& bundles, std::int64_t vector_bytes, const ResidencyOptions& o,
                         int layers) {
  const auto kept = [&](const Bundle& b, int first, int last) {
    return b.layer < (o.keep_first >= 0 ? o.keep_first : first) ||
           b.layer >= layers - (o.keep_last >= 0 ? o.keep_last : last);
  };
  const std::vector<Place> none(bundles.size(), Place::kResident);
  if (o.mode == "mapped") return sums(bundles, vector_bytes, std::vector<Place>(bundles.size(), Place::kMapped));
  const auto fits = [&](const Residency& r) { return o.memory == 0 || r.memory() <= o.memory; };
  Residency r = sums(bundles, vector_bytes, none);
  r.resident_bytes = 0;  // without a file nothing is padded
  for (const Bundle& b : bundles)
    if (b.same_as < 0) r.resident_bytes += b.count() * b.part_bytes();
  if (o.mode == "full_resident") {
    if (!fits(r)) too_little(o.memory, r.memory(), "all weights in memory");
    return r;
  }
  if (o.mode == "auto" && fits(r)) return r;

  std::vector<Place> places;
  if (o.mode == "full_stream" || o.mode == "auto") {
    places = choose(bundles, [&](const Bundle& b) { return !kept(b, 0, 0); });
  } else if (o.mode == "partial_resident") {
    places = choose(bundles, [&](const Bundle& b) { return !kept(b, 4, 4); });
  } else if (o.mode == "ffn_only_stream") {
    places = choose(bundles, [&](const Bundle& b) { return b.kind != BundleKind::kMixer && !kept(b, 0, 0); });
  } else {
    throw Error(
        Code::kBadInput,
        fmt::format("is '{}', expected auto, full_resident, mapped, partial_resident, ffn_only_stream or full_stream",
                    o.mode),
        "--weights-mode");
  }
  // What is left over for experts, if everything else takes so much.
  const ExpertSizes experts = expert_sizes(bundles, places);
  const std::int64_t least_places = std::min(experts.most, 2 * experts.used);  // one token's, and those expected next
  const auto expert_places = [&](std::int64_t others) {
    if (o.memory == 0) return std::max(least_places, experts.most / 4);
    return std::min(experts.most, (o.memory - others) / std::max<std::int64_t>(1, experts.place_bytes));
  };
  const auto with_experts = [&](Residency plan, std::int64_t count) {
    if (experts.most == 0) return plan;
    plan.expert_places = static_cast<int>(std::max(count, least_places));
    plan.cache_bytes = experts.place_bytes * plan.expert_places;
    return plan;
  };
  if (o.mode == "auto" && experts.most > 0) {  // everything but experts in memory, if that is possible
    auto cached = places;
    std::replace(cached.begin(), cached.end(), Place::kStreamed, Place::kResident);
    const Residency others = sums(bundles, vector_bytes, cached);
    const std::int64_t count = expert_places(others.memory());
    if (count >= least_places) return with_experts(others, count);
  }
  r = with_experts(sums(bundles, vector_bytes, places), 0);
  if (!r.streams()) {  // no layer is left to be streamed
    if (!fits(r)) too_little(o.memory, r.memory(), "the layers that are kept in memory");
    return r;
  }
  Rooms rooms = rooms_for(bundles, places);
  if (o.memory > 0 && r.memory() + rooms.least > o.memory)
    too_little(o.memory, r.memory() + rooms.least, "what stays in memory and the buffers that layers go through");
  const std::int64_t good = o.memory > 0 ? std::min(rooms.good, o.memory - r.memory()) : rooms.good;
  if (o.mode == "auto") {
    r = with_experts(sums(bundles, vector_bytes, spread(bundles, places, o.memory - r.memory() - good)), 0);
    rooms = rooms_for(bundles, r.places);
  } else if (experts.most > 0) {
    r = with_experts(r, expert_places(r.memory() - r.cache_bytes + good));
  }
  r.ring_bytes = std::max(rooms.least, std::min(good, r.streamed_bytes));
  return r;
}

}  // namespace kvasir::model
