// Contract of an entry in weights/formats: recognise and open one kind of model file.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/registry.hpp"
#include "weights/model_file.hpp"

namespace kvasir::weights {

struct Format {
  const char* summary;
  // Whether the first bytes of a file (up to 64) look like this format.
  bool (*recognises)(std::span<const std::byte> head);
  std::unique_ptr<ModelFile> (*open)(const std::string& path);
};

std::span<const Entry<Format>> formats();  // src/weights/formats, by the build

}  // namespace kvasir::weights
