// The encoder of pictures in a folder as Hugging Face publishes models, in the words of the file beside the text model
// that llama.cpp's converter would make of it (GGUF's architecture "clip"), and what its preprocessor_config.json says
// of pictures:
//
//   clip.vision.image_min_pixels, image_max_pixels       Qwen; floats
//   clip.vision.image_{min,max}_tokens, image_{min,max}_tiles, image_tile, image_tolerance, image_splits       LFM2-VL
//   clip.vision.image_max_tokens                         Gemma 4
//   clip.audio.sampling_rate                             Gemma 4 Unified, of sounds
//   clip.vision.image_tile, image_splits                 Idefics 3 and SmolVLM
#pragma once

#include <memory>
#include <string>

#include "weights/model_file.hpp"

namespace kvasir::hub {

// Whether the folder has an encoder of pictures of a kind that is known here, and says what is done to pictures. Any
// path; false for what is no folder.
bool folder_has_vision(const std::string& path);

// Throws Error naming the file, and field or tensor: kBadInput for what is missing or wrong, kUnsupported for settings
// that no encoder here follows.
std::unique_ptr<weights::ModelFile> open_vision_folder(const std::string& path);

}  // namespace kvasir::hub
