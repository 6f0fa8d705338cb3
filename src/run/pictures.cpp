#include "run/pictures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "sound/encoder.hpp"
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

// A tier that takes longer to give rows is not waited for: most are encoded in a few seconds.
constexpr auto kLoadTime = std::chrono::seconds(2);

std::string name_of(const store::Key& content) {
  vision::PictureKey key;
  key.bytes = content.bytes;
  return vision::to_hex(key);
}

// With --weights, but for one that rounds to 16 bits, the encoder's weights have eight.
vision::EncoderOptions encoder_options(const EngineOptions& options) {
  const bool rounded =
      !options.weights.empty() && weights::mix_of(options.weights).quant.find("16") == std::string_view::npos;
  return {.exact = options.computes_exactly(), .eight_bits = rounded};
}

model::Sight sight_of(vision::Sight sight) {
  return sight == vision::Sight::kBothWays            ? model::Sight::kAll
         : sight == vision::Sight::kBothWaysInWindows ? model::Sight::kAllInWindows
                                                      : model::Sight::kEarlier;
}

}  // namespace

// What a picture's runs, or a sound's, share until all of them have their rows.
struct Pictures::Source {
  struct Run {
    store::Key content;
    std::int64_t first, count;  // of Encoding::rows
  };
  vision::Prepared prepared;
  std::vector<Run> runs;
  std::vector<float> samples;  // of a sound
  std::unique_ptr<const vision::Encoding> encoding;
  double seconds = 0;    // that it took
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

std::unique_ptr<sound::SoundEncoder> open_sounds_for(const model::ModelSpec& spec, const EngineOptions& options,
                                                     const std::string& path, Team& team) {
  if (path.empty()) return nullptr;
  std::unique_ptr<sound::SoundEncoder> encoder = sound::open_encoder(path, encoder_options(options), team);
  if (!encoder) return nullptr;
  if (encoder->width() != spec.dim)
    throw Error(Code::kBadInput,
                fmt::format("gives rows of {} numbers for sounds, expected the model's {}: it belongs to another model",
                            encoder->width(), spec.dim),
                path);
  if (spec.deep != 0 || spec.has_places())
    throw Error(Code::kUnsupported,
                "has an encoder of sounds, whose rows do not fit the model's, which have places (M-RoPE) or rows for "
                "several layers",
                path);
  return encoder;
}

Pictures::Pictures(Engine& engine, const PictureOptions& options, std::vector<std::shared_ptr<store::Tier>> tiers)
    : engine_(engine),
      options_(options),
      encoder_(open_encoder_for(engine.model().spec(), engine.options(), options.mmproj, engine.team())),
      sounds_(open_sounds_for(engine.model().spec(), engine.options(), options.mmproj, engine.team())),
      kept_rows_(store::fingerprint_of("rows of pictures, float32"), std::move(tiers)),  // content names the encoder
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
    const auto make = [this, source, r](model::RowWatch& watch) { return rows_of(*source, r, watch); };
    source->runs.push_back({content_of(key, r), run.first, run.grid.count()});
    *bytes += static_cast<std::uint64_t>((1 + encoder_->deep()) * run.grid.count() * encoder_->width()) * sizeof(float);
    const model::Grid grid = run.places ? model::Grid{run.grid.h, run.grid.w} : model::Grid{};
    out->runs.push_back(
        {run.before, run.after,
         std::make_shared<const model::RowBlock>(source->runs[r].content,
                                                 model::RowShape{run.grid.count(), static_cast<int>(encoder_->width()),
                                                                 sight_of(run.sight), grid, encoder_->deep()},
                                                 make)});
  }
  return share(vision::to_hex(key), out);
}

std::shared_ptr<const PromptPicture> Pictures::share(const std::string& key,
                                                     std::shared_ptr<const PromptPicture> made) {
  const std::lock_guard lock(mutex_);
  std::erase_if(alive_, [](const auto& entry) { return entry.second.expired(); });
  alive_[key] = made;
  return made;
}

std::shared_ptr<const PromptPicture> Pictures::made_of_samples(std::vector<float> samples, std::uint64_t* bytes) {
  const vision::PictureKey key = sound::key_of(samples, *sounds_);
  if (auto known = find_alive(vision::to_hex(key))) return known;
  const std::int64_t count = sounds_->rows_of(std::ssize(samples)), width = sounds_->width();
  *bytes += samples.size() * sizeof(float) + static_cast<std::uint64_t>(count * width) * sizeof(float);
  const auto source = std::make_shared<Source>();
  source->samples = std::move(samples);
  source->left = 1;
  source->runs.push_back({content_of(key, 0), 0, count});
  const auto make = [this, source](model::RowWatch& watch) { return rows_of(*source, 0, watch); };
  const auto out = std::make_shared<PromptPicture>();
  out->runs.push_back(
      {std::string(sounds_->before()), std::string(sounds_->after()),
       std::make_shared<const model::RowBlock>(
           source->runs[0].content, model::RowShape{.count = count, .width = static_cast<int>(width)}, make)});
  return share(vision::to_hex(key), out);
}

void Pictures::encode(Source& source, model::RowWatch& watch) {
  const double start = steady_seconds();
  const auto between = [&](std::int64_t done, std::int64_t all) {
    if (!watch.go_on(done, all)) throw Error(Code::kCancelled, "nobody wants the rows any more", "picture or sound");
    team_.use(watch.beside_steps() ? std::max(1, team_.most() / 2) : team_.most());
  };
  source.encoding = std::make_unique<const vision::Encoding>(
      source.samples.empty()
          ? encoder_->encode(source.prepared, team_, between)
          : vision::Encoding{.width = sounds_->width(), .rows = sounds_->encode(source.samples, team_, between)});
  source.seconds = steady_seconds() - start;
  const std::lock_guard lock(mutex_);
  ++stats_.encoded;
  stats_.rows += source.encoding->count();
  stats_.samples += std::ssize(source.samples);
  for (const vision::Picture& part : source.prepared.parts)
    stats_.pixels += std::int64_t{part.size.width} * part.size.height;
  stats_.seconds += source.seconds;
}

// Empty: no tier has them.
std::vector<float> Pictures::load(const store::Key& content, std::size_t floats) {
  std::vector<float> rows;
  const auto bytes = kept_rows_.read(name_of(content), store::within(kLoadTime));
  if (!bytes || bytes->size() != floats * sizeof(float)) return rows;
  rows.resize(floats);
  std::memcpy(rows.data(), bytes->data(), bytes->size());
  return rows;
}

std::vector<float> Pictures::rows_of(Source& source, std::size_t run, model::RowWatch& watch) {
  const std::lock_guard one(encoding_);
  const auto [content, first, count] = source.runs[run];
  std::vector<float> all;
  const bool dear = source.samples.empty();  // a row of a sound is one small product
  if (!source.encoding && dear) {
    all = load(content, static_cast<std::size_t>((1 + encoder_->deep()) * count * encoder_->width()));
    const std::lock_guard lock(mutex_);
    if (!all.empty()) stats_.loaded_rows += count;
  }
  if (all.empty()) {
    if (!source.encoding) encode(source, watch);
    const vision::Encoding& e = *source.encoding;
    const auto add = [&, first = first, count = count](const std::vector<float>& rows) {
      const auto from = rows.begin() + first * e.width;
      all.insert(all.end(), from, from + count * e.width);
    };
    add(e.rows);
    for (const std::vector<float>& rows : e.deep) add(rows);
    if (dear) {
      const double cost = 1e6 * source.seconds * static_cast<double>(count) / static_cast<double>(e.count());
      kept_rows_.keep(name_of(content), std::as_bytes(std::span(all)), cost);
    }
  }
  if (--source.left == 0) source = {};  // nobody asks again
  return all;
}

std::shared_ptr<const PromptPicture> Pictures::read(std::string_view file, const std::string& name) {
  return read_with(text::picture_mark(file), [&](std::uint64_t* bytes) {
    return made_of(vision::decode(std::as_bytes(std::span(file)), name, {.seconds = options_.image_seconds}), bytes);
  });
}

std::shared_ptr<const PromptPicture> Pictures::read_sound(std::string_view file, const std::string& name) {
  if (!sounds_)
    throw Error(Code::kUnsupported, fmt::format("is a sound, and {} has no encoder of sounds", options_.mmproj), name);
  return read_with(text::sound_mark(file), [&](std::uint64_t* bytes) {
    return made_of_samples(sound::decode(std::as_bytes(std::span(file)), name, sounds_->rate()).samples, bytes);
  });
}

std::shared_ptr<const PromptPicture> Pictures::read_with(const std::string& mark, Make make) {
  {
    const std::lock_guard lock(mutex_);
    ++stats_.read;
  }
  if (auto known = find(mark)) return known;
  const std::lock_guard one(decoding_);
  if (auto known = find(mark)) return known;  // meanwhile
  Kept kept{.mark = mark, .picture = nullptr, .bytes = sizeof(Kept)};
  kept.picture = make(&kept.bytes);
  {
    const std::lock_guard lock(mutex_);
    ++stats_.decoded;
  }
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

namespace {

// The places of `all` in `text`: where it says `mark`, or in front.
void add_places(const std::string& text, std::string_view mark, const char* field, const char* what,
                const std::vector<std::shared_ptr<const PromptPicture>>& all, std::vector<PicturePlace>& places) {
  std::vector<PicturePlace> own;
  for (std::size_t at = 0; (at = text.find(mark, at)) != text.npos; at += mark.size())
    own.push_back({at, at + mark.size(), {}, nullptr});
  if (own.empty()) own.assign(all.size(), {0, 0, {}, nullptr});  // all in front
  // A text may well say the mark of what the prompt has none of.
  if (all.empty()) return;
  if (own.size() != all.size())
    throw Error(Code::kBadInput,
                fmt::format("{} {}, and the prompt says {} at {} places, expected as many or none", all.size(), what,
                            mark, own.size()),
                field);
  for (std::size_t i = 0; i < own.size(); ++i) own[i].picture = all[i];
  places.insert(places.end(), own.begin(), own.end());
}

}  // namespace

PicturePrompt Pictures::place(const std::string& text,
                              const std::vector<std::shared_ptr<const PromptPicture>>& pictures,
                              const std::vector<std::shared_ptr<const PromptPicture>>& sounds, bool add_bos,
                              bool special) const {
  std::vector<PicturePlace> places;
  add_places(text, kMark, "image", "pictures", pictures, places);
  add_places(text, kSoundMark, "audio", "sounds", sounds, places);
  std::stable_sort(places.begin(), places.end(), [](const auto& a, const auto& b) { return a.end < b.end; });
  std::vector<std::size_t> plain;  // where special tokens are not read
  for (std::size_t i = 0; i < text.size() && !special; ++i) plain.push_back(i);
  PicturePrompt out;
  out.add(*engine_.tokenizer(), text, 0, places, {.add_bos = add_bos, .parse_special = true, .plain = plain});
  return out;
}

}  // namespace kvasir::run
