#include "run/pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "text/pictures.hpp"
#include "text/tokenizer.hpp"
#include "vision/encoder.hpp"
#include "weights/mixes.hpp"

namespace kvasir::run {
namespace {

// What a picture's rows say depends on nothing but its key: its name among rows, and which of its runs it is.
store::Key content_of(const vision::PictureKey& picture, std::size_t run) {
  store::Key secret;
  std::memcpy(secret.bytes.data(), picture.bytes.data(), secret.bytes.size());
  store::KeyStream stream(secret, "kvasir.e");
  const std::uint64_t which = run;
  stream.add(std::as_bytes(std::span(&which, 1)));
  return stream.key();
}

// With --weights, but for one that rounds to 16 bits, the encoder's weights have eight.
vision::EncoderOptions encoder_options(const EngineOptions& options) {
  const bool rounded =
      !options.weights.empty() && weights::mix_of(options.weights).quant.find("16") == std::string_view::npos;
  return {.exact = options.exact, .eight_bits = rounded};
}

model::Sight sight_of(vision::Sight sight) {
  return sight == vision::Sight::kBothWays            ? model::Sight::kAll
         : sight == vision::Sight::kBothWaysInWindows ? model::Sight::kAllInWindows
                                                      : model::Sight::kEarlier;
}

}  // namespace

// What a picture's runs share until all of them have their rows.
struct Pictures::Source {
  vision::Prepared prepared;
  std::unique_ptr<const vision::Encoding> encoding;
  std::size_t left = 0;  // runs without rows
};

std::unique_ptr<vision::Encoder> open_encoder_for(const model::ModelSpec& spec, const EngineOptions& options,
                                                  const std::string& path, Team& team) {
  std::unique_ptr<vision::Encoder> encoder = vision::open_encoder(path, encoder_options(options), team);
  if (encoder->width() != spec.dim)
    throw Error(Code::kBadInput,
                fmt::format("gives rows of {} numbers, expected the model's {}: it belongs to another model",
                            encoder->width(), spec.dim),
                path);
  if (encoder->deep() != spec.deep)
    throw Error(Code::kBadInput,
                fmt::format("gives rows for {} layers besides (deepstack), expected the model's {}: it belongs to "
                            "another model",
                            encoder->deep(), spec.deep),
                path);
  return encoder;
}

Pictures::Pictures(Engine& engine, const PictureOptions& options)
    : engine_(engine),
      options_(options),
      encoder_(open_encoder_for(engine.model().spec(), engine.options(), options.mmproj, engine.team())),
      team_(engine.team().most()) {}

Pictures::~Pictures() = default;

std::shared_ptr<const PromptPicture> Pictures::made_of(const vision::Picture& picture, std::uint64_t* bytes) {
  const auto source = std::make_shared<Source>();
  source->prepared = encoder_->prepare(picture);
  for (const vision::Picture& part : source->prepared.parts) *bytes += part.rgb.size();
  const vision::PictureKey key = vision::key_of(source->prepared, *encoder_);
  if (auto known = find_alive(vision::to_hex(key))) return known;
  const std::vector<vision::Run> runs = encoder_->runs(source->prepared);
  source->left = runs.size();
  const auto out = std::make_shared<PromptPicture>();
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const vision::Run& run = runs[r];
    if (run.places != engine_.model().spec().has_places())
      throw Error(
          Code::kUnsupported,
          fmt::format("is of a kind ({}) whose rows have positions of {}, and the model's have {}", encoder_->kind(),
                      run.places ? "three parts" : "one part", run.places ? "one part" : "three parts (M-RoPE)"),
          options_.mmproj);
    // Computed when the first of its rows is asked for: never where the cache knows all of them.
    const auto make = [this, source, first = run.first, count = run.grid.count()](model::RowWatch& watch) {
      return rows_of(*source, first, count, watch);
    };
    *bytes += static_cast<std::uint64_t>((1 + encoder_->deep()) * run.grid.count() * encoder_->width()) * sizeof(float);
    const model::Grid grid = run.places ? model::Grid{run.grid.h, run.grid.w} : model::Grid{};
    out->runs.push_back(
        {run.before, run.after,
         std::make_shared<const model::RowBlock>(content_of(key, r),
                                                 model::RowShape{run.grid.count(), static_cast<int>(encoder_->width()),
                                                                 sight_of(run.sight), grid, encoder_->deep()},
                                                 make)});
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(alive_, [](const auto& entry) { return entry.second.expired(); });
  alive_[vision::to_hex(key)] = out;
  return out;
}

void Pictures::encode(Source& source, model::RowWatch& watch) {
  const double start = steady_seconds();
  const auto between = [&](std::int64_t done, std::int64_t all) {
    if (!watch.go_on(done, all)) throw Error(Code::kCancelled, "nobody wants the picture any more", "picture");
    team_.use(watch.beside_steps() ? std::max(1, team_.most() / 2) : team_.most());
  };
  source.encoding = std::make_unique<const vision::Encoding>(encoder_->encode(source.prepared, team_, between));
  const std::lock_guard lock(mutex_);
  ++stats_.encoded;
  stats_.rows += source.encoding->count();
  for (const vision::Picture& part : source.prepared.parts)
    stats_.pixels += std::int64_t{part.size.width} * part.size.height;
  stats_.seconds += steady_seconds() - start;
}

std::vector<float> Pictures::rows_of(Source& source, std::int64_t first, std::int64_t count, model::RowWatch& watch) {
  const std::lock_guard one(encoding_);
  if (!source.encoding) encode(source, watch);
  const vision::Encoding& e = *source.encoding;
  std::vector<float> all;
  const auto add = [&](const std::vector<float>& rows) {
    const auto from = rows.begin() + first * e.width;
    all.insert(all.end(), from, from + count * e.width);
  };
  add(e.rows);
  for (const std::vector<float>& rows : e.deep) add(rows);
  if (--source.left == 0) source = {};  // nobody asks again
  return all;
}

std::shared_ptr<const PromptPicture> Pictures::read(std::string_view file, const std::string& name) {
  const std::string mark = text::picture_mark(file);
  {
    const std::lock_guard lock(mutex_);
    ++stats_.read;
  }
  if (auto known = find(mark)) return known;
  const std::lock_guard one(decoding_);
  if (auto known = find(mark)) return known;  // meanwhile
  Kept kept{.mark = mark, .picture = nullptr, .bytes = sizeof(Kept)};
  const vision::Picture picture =
      vision::decode(std::as_bytes(std::span(file)), name, {.seconds = options_.image_seconds});
  {
    const std::lock_guard lock(mutex_);
    ++stats_.decoded;
  }
  kept.picture = made_of(picture, &kept.bytes);
  keep(kept);
  return kept.picture;
}

std::string Pictures::bytes_of(const std::string& path) { return vision::read_picture_bytes(path); }

std::shared_ptr<const PromptPicture> Pictures::find(const std::string& mark) {
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.mark == mark; });
  if (at == kept_.end()) return nullptr;
  ++stats_.found;
  kept_.splice(kept_.begin(), kept_, at);
  return at->picture;
}

std::shared_ptr<const PromptPicture> Pictures::find_alive(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = alive_.find(key);
  auto picture = at == alive_.end() ? nullptr : at->second.lock();
  if (picture) ++stats_.found;
  return picture;
}

// What is larger than all of the memory is not kept.
void Pictures::keep(Kept kept) {
  const auto most = static_cast<std::uint64_t>(options_.image_memory);
  if (kept.bytes > most) return;
  const std::lock_guard lock(mutex_);
  kept_bytes_ += kept.bytes;
  kept_.push_front(std::move(kept));
  while (kept_bytes_ > most) {
    kept_bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
}

Pictures::Stats Pictures::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats = stats_;
  stats.bytes = kept_bytes_;
  return stats;
}

PicturePrompt Pictures::place(const std::string& text,
                              const std::vector<std::shared_ptr<const PromptPicture>>& pictures, bool add_bos,
                              bool special) const {
  std::vector<PicturePlace> places;
  for (std::size_t at = 0; (at = text.find(kMark, at)) != text.npos; at += kMark.size())
    places.push_back({at, at + kMark.size(), {}, nullptr});
  if (places.empty()) places.assign(pictures.size(), {0, 0, {}, nullptr});  // all in front
  if (places.size() != pictures.size())
    throw Error(Code::kBadInput,
                fmt::format("{} pictures, and the prompt says {} at {} places, expected as many or none",
                            pictures.size(), kMark, places.size()),
                "image");
  for (std::size_t i = 0; i < places.size(); ++i) places[i].picture = pictures[i];
  std::vector<std::size_t> plain;  // where special tokens are not read
  for (std::size_t i = 0; i < text.size() && !special; ++i) plain.push_back(i);
  PicturePrompt out;
  out.add(*engine_.tokenizer(), text, 0, places, {.add_bos = add_bos, .parse_special = true, .plain = plain});
  return out;
}

}  // namespace kvasir::run
