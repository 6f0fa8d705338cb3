// Pictures and sounds in prompts: encoders beside the model make rows of them, which stand in the text as the encoders'
// file says, between its special tokens.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/function_ref.hpp"
#include "base/options.hpp"
#include "base/team.hpp"
#include "run/engine.hpp"
#include "run/picture_prompt.hpp"
#include "store/library.hpp"

namespace kvasir::sound {
class SoundEncoder;
}

namespace kvasir::vision {
class Encoder;
struct Picture;
}  // namespace kvasir::vision

namespace kvasir::run {

struct PictureOptions {
  std::string mmproj;                      // "": the model's own folder, if it has an encoder; "none": no pictures
  std::int64_t image_memory = 64LL << 20;  // bytes for pictures that were read, with their rows; 0: none is kept
  double image_seconds = 30;               // that a picture may take to be decoded; 0: as long as it takes
};
const OptionTable<PictureOptions>& picture_table();  // run/picture_options.cpp
// The file or folder of the encoder for a model, by the option; "": there is none. Throws Error for a config.json that
// cannot be read.
std::string encoder_beside(const std::string& model, const std::string& mmproj);

// The encoder in file or folder `path`, which is the model's. Throws Error naming it, kBadInput for one of another
// model.
std::unique_ptr<vision::Encoder> open_encoder_for(const model::ModelSpec& spec, const EngineOptions& options,
                                                  const std::string& path, Team& team);

// Those of a library, if there is one.
inline std::vector<std::shared_ptr<store::Tier>> tiers_of(const std::optional<store::Library>& library) {
  if (!library) return {};
  return {library->tiers().begin(), library->tiers().end()};
}
// The same of what file or folder `path` has for sounds; null when it has nothing, and for "".
std::unique_ptr<sound::SoundEncoder> open_sounds_for(const model::ModelSpec& spec, const EngineOptions& options,
                                                     const std::string& path, Team& team);

class Pictures {
 public:
  // tiers: where rows are kept besides, the fastest first. Throws Error naming the encoder's file, kBadInput for one of
  // another model.
  Pictures(Engine& engine, const PictureOptions& options, std::vector<std::shared_ptr<store::Tier>> tiers);
  ~Pictures();

  static constexpr std::string_view kMark = "<image>", kSoundMark = "<audio>";

  // The picture in a file's bytes. Rows are computed when they are asked for, on the thread that asks and others of its
  // own, as many as the engine has or half of them (model::RowWatch); this must still be there then. Pictures with the
  // same bytes are decoded and encoded once while they are kept (image_memory), and those with the same pixels are
  // encoded once while tiers keep their rows. Any thread; one picture is decoded at a time, which bounds what that
  // takes. Throws Error naming the picture, kUnsupported for encoders whose rows have positions of three parts where
  // the model's have one, or the other way round.
  std::shared_ptr<const PromptPicture> read(std::string_view file, const std::string& name);
  // The same of a sound. Throws Error besides, kUnsupported naming the sound, where the model hears none.
  std::shared_ptr<const PromptPicture> read_sound(std::string_view file, const std::string& name);
  bool hears() const { return sounds_ != nullptr; }
  // The bytes of a file, for read() and read_sound(). Throws Error(kIo).
  static std::string bytes_of(const std::string& path);

  // Each picture where `text` says kMark, or all in front of it where it says that nowhere; sounds and kSoundMark in
  // the same way, behind pictures that are in front. Throws Error naming "image" or "audio" for another number of marks
  // than pictures or sounds. add_bos, special: as text::EncodeOptions has them; special is about `text` alone.
  PicturePrompt place(const std::string& text, const std::vector<std::shared_ptr<const PromptPicture>>& pictures,
                      const std::vector<std::shared_ptr<const PromptPicture>>& sounds, bool add_bos,
                      bool special) const;

  struct Stats {
    std::int64_t read = 0;     // pictures and sounds that were asked for
    std::int64_t found = 0;    // of them: the same bytes, or the same pixels or samples, were there
    std::int64_t decoded = 0;  // files
    std::int64_t encoded = 0;
    // Of what was encoded: as it was resized or resampled, and what came of it.
    std::int64_t pixels = 0, samples = 0, rows = 0;
    std::int64_t loaded_rows = 0;  // that tiers had, so that they were not encoded
    double seconds = 0;            // of encoding
    std::uint64_t bytes = 0;       // kept
  };
  Stats stats() const;

 private:
  struct Kept {
    std::string mark;
    std::shared_ptr<const PromptPicture> picture;
    std::uint64_t bytes;
  };
  struct Source;
  std::shared_ptr<const PromptPicture> made_of(const vision::Picture& picture, std::uint64_t* bytes);
  std::vector<float> rows_of(Source& source, std::size_t run, model::RowWatch& watch);
  std::vector<float> load(const store::Key& content, std::size_t floats);
  std::shared_ptr<const PromptPicture> made_of_samples(std::vector<float> samples, std::uint64_t* bytes);
  std::shared_ptr<const PromptPicture> share(const std::string& key, std::shared_ptr<const PromptPicture> made);
  using Make = FunctionRef<std::shared_ptr<const PromptPicture>(std::uint64_t* bytes)>;
  std::shared_ptr<const PromptPicture> read_with(const std::string& mark, Make make);
  void encode(Source& source, model::RowWatch& watch);
  std::shared_ptr<const PromptPicture> find(const std::string& mark);
  std::shared_ptr<const PromptPicture> find_alive(const std::string& key);
  void keep(Kept kept);

  Engine& engine_;
  const PictureOptions options_;
  std::unique_ptr<vision::Encoder> encoder_;
  std::unique_ptr<sound::SoundEncoder> sounds_;  // null: the model hears none
  const store::Notes kept_rows_;                 // by their content
  std::mutex decoding_;
  std::mutex encoding_;       // of the encoders, their threads and what runs share
  Team team_;                 // of as many threads as the engine has
  mutable std::mutex mutex_;  // of what follows
  Stats stats_;
  // Those that somebody has, by their key: whoever comes with the same pixels waits for the same rows.
  std::map<std::string, std::weak_ptr<const PromptPicture>> alive_;
  std::list<Kept> kept_;  // the last used one first
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace kvasir::run
