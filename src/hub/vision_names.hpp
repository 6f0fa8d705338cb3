// Names of tensors of encoders of pictures: in folders, and in GGUF.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir::hub {

// How a tensor of the folder lies otherwise in GGUF.
enum class VisionLayout {
  kSame,
  kChannelsFirst,  // columns are pixels of a patch, (side, side, 3) in the folder and (3, side, side) in GGUF
  kTwoFrames,      // (rows, 3, 2, side, side): a tensor for each frame, NAME and NAME.1
  kPlusOne,        // Gemma's norms: 1 + x
  kTurnTables,     // (places, 2, dim) to (2, places, dim)
};

struct VisionName {
  std::string_view folder, gguf;  // {} is the number of a block; "*" at the end is any ending, the same on both sides
  VisionLayout layout = VisionLayout::kSame;
};

// A kind of encoder, by the model_type of config.json.
struct VisionFamily {
  std::string_view model_type, projector;
  std::string_view activation;  // that config.json must name
  int resample;                 // that preprocessor_config.json must name, as Pillow counts them
  std::span<const VisionName> names;
};
std::span<const VisionFamily> vision_families();

// GGUF's name; empty where it is not of the encoder. Without "model." in front, and with "vision_model." taken out.
std::string vision_name(const VisionFamily& family, std::string_view tensor, VisionLayout* layout);

}  // namespace kvasir::hub
