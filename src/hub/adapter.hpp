// Adapters of a model (LoRA, arXiv 2106.09685): for some of its matrices W two narrow ones, so that W + scale B A takes
// W's place. Read from GGUF, as llama.cpp's converter writes them, and from folders, as the library PEFT does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::hub {

struct LowRank {
  std::string target;     // the tensor W, GGUF's name
  weights::TensorInfo a;  // rank rows of W's columns
  weights::TensorInfo b;  // W's rows, each of `rank`
  double scale = 1;       // alpha / rank, or what the adapter says in its place

  std::int64_t rank() const { return b.columns(); }
};

struct Adapter {
  std::string path;
  std::vector<MappedFile> files;  // what the tensors lie in
  std::unique_ptr<weights::ModelFile> gguf;
  std::vector<LowRank> parts;  // at least one, of different targets
};

// `base`: of the model that it is for. Throws Error naming file, field and expectation: what is no adapter, or one of
// another kind of model, and whatever an adapter does besides (DoRA, biases, whole matrices), which is not computed.
Adapter open_adapter(const std::string& path, const weights::Metadata& base);
// The same of a folder with adapter_config.json.
Adapter open_peft(const std::string& path, const weights::Metadata& base);

}  // namespace kvasir::hub
