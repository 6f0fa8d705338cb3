// A model format: copy to src/hub/formats/NAME.cpp and rename `skeleton` to NAME. Contract: weights/format.hpp.
//
// This one is a folder with a text file, model.skeleton, of lines
//   key = value             metadata, text
//   NAME ROWS COLUMNS FILE  a tensor: FILE in the same folder holds its float32, row by row
#include <sstream>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/format.hpp"

namespace kvasir::weights::formats_skeleton {
namespace {

constexpr const char* kHeader = "model.skeleton";

bool recognises(const Sight& sight) { return sight.holds(kHeader); }

TensorInfo tensor(const std::string& line, const std::string& folder, std::vector<MappedFile>& files) {
  TensorInfo info{.quant = "f32", .rank = 2};
  std::string file;
  std::istringstream words(line);
  constexpr std::int64_t kMost = 1 << 30;
  if (!(words >> info.name >> info.shape[1] >> info.shape[0] >> file) || info.shape[0] < 1 || info.shape[0] > kMost ||
      info.shape[1] < 1 || info.shape[1] > kMost || file.find('/') != std::string::npos)
    throw Error(Code::kBadInput, "'" + line + "'; expected NAME ROWS COLUMNS FILE", folder + "/" + kHeader);
  info.bytes = files.emplace_back(folder + "/" + file).bytes();
  if (info.bytes.size() != static_cast<std::size_t>(info.shape[0] * info.shape[1]) * 4)
    throw Error(Code::kBadInput, "not the size of " + info.name, folder + "/" + file);
  return info;
}

std::unique_ptr<ModelFile> open(const std::string& path) {
  std::vector<MappedFile> files;
  Metadata metadata(path);
  std::vector<TensorInfo> tensors;
  std::istringstream header(read_text_file(path + "/" + kHeader));
  for (std::string line; std::getline(header, line);) {
    const auto is = line.find(" = ");
    if (is == std::string::npos)
      tensors.push_back(tensor(line, path, files));
    else
      metadata.set(line.substr(0, is), line.substr(is + 3));
  }
  return std::make_unique<MappedModel>(std::move(files), std::move(metadata), std::move(tensors));
}

}  // namespace

const Format entry{.summary = "a format that no file has", .recognises = recognises, .open = open};

}  // namespace kvasir::weights::formats_skeleton
