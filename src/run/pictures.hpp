// Pictures in prompts: an encoder beside the model makes rows of them, which stand in the text as the encoder's file
// says, between its special tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/rows.hpp"
#include "run/engine.hpp"
#include "vision/encoder.hpp"

namespace kvasir::run {

struct PicturePrompt {
  std::vector<std::int32_t> ids;
  std::vector<model::RowRun> runs;
};

class Pictures {
 public:
  // mmproj: the encoder's file. Throws Error naming it, kBadInput for one of another model.
  Pictures(Engine& engine, const std::string& mmproj);

  static constexpr std::string_view kMark = "<image>";
  // Files of pictures in `text`, each where it says kMark, or all in front of it where it says that nowhere. Rows are
  // computed when they are asked for, with the engine's threads; this must still be there then. Throws Error naming the
  // picture, "image" for another number of marks than pictures, and kUnsupported for encoders whose rows have positions
  // of three parts where the model's have one, or the other way round. add_bos, special: as text::EncodeOptions has
  // them; special is about `text` alone.
  PicturePrompt place(const std::string& text, const std::vector<std::string>& files, bool add_bos, bool special);

 private:
  Engine& engine_;
  const std::string mmproj_;
  std::unique_ptr<vision::Encoder> encoder_;
};

}  // namespace kvasir::run
