// A folder as Hugging Face publishes a model: config.json, weights in safetensors files, tokenizer.json. What
// lies otherwise in GGUF is translated (hub/translation.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "hub/config.hpp"
#include "hub/text_modules.hpp"
#include "hub/tokenizer_config.hpp"
#include "hub/translation.hpp"
#include "weights/format.hpp"
#include "weights/safetensors/json_text.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::weights::formats_safetensors {

using namespace hub;

namespace {

constexpr std::uint64_t kMostConfig = std::uint64_t{64} << 20;      // bytes of a configuration
constexpr std::uint64_t kMostTokenizer = std::uint64_t{512} << 20;  // of tokenizer.json
constexpr const char* kConfig = "config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTokenizer = "tokenizer.json";

class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)), metadata_(path_) {}

  std::unique_ptr<ModelFile> open() {
    const FolderJson config = read_folder_json(in(kConfig), kMostConfig);
    configuration_ = read_config(config, in(kConfig), metadata_);
    metadata_.set("general.name", std::filesystem::path(path_).lexically_normal().filename().string());
    for (const std::string& name : shards()) add_shard(name);
    if (!promised_.empty())
      throw Error(
          Code::kBadInput,
          fmt::format("lacks tensor {}, which {} says is there", promised_.begin()->first.substr(0, 200), kIndex),
          in(promised_.begin()->second));
    read_modules();
    translation_.finish();
    for (auto& [key, values] : translation_.numbers) metadata_.set(key, std::move(values));
    for (auto& [key, values] : translation_.whole_numbers) metadata_.set(key, std::move(values));
    read_texts(config);
    return std::make_unique<MappedModel>(std::move(files_), std::move(metadata_), std::move(translation_.tensors()),
                                         std::move(translation_.floats()));
  }

 private:
  std::string in(std::string_view name) const { return fmt::format("{}/{}", path_, name); }
  bool has(std::string_view name) const {
    std::error_code none;
    return std::filesystem::exists(in(name), none);
  }

  // The files with the weights: those that the index names, or else the one there is.
  std::vector<std::string> shards() {
    if (!has(kIndex)) {
      if (!has("model.safetensors"))
        throw Error(Code::kIo, fmt::format("is missing, and so is {}", kIndex), in("model.safetensors"));
      return {"model.safetensors"};
    }
    const FolderJson index = read_folder_json(in(kIndex), kMostConfig);
    const auto map = index.find("weight_map");
    if (map == index.end() || !map->is_object() || map->empty())
      throw Error(Code::kBadInput, "'weight_map' is missing, expected an object of tensors and files", in(kIndex));
    indexed_ = true;
    std::set<std::string> names;
    for (const auto& [tensor, file] : map->items()) {
      const std::string name = file.is_string() ? file.get<std::string>() : "";
      if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos)
        throw Error(Code::kBadInput,
                    fmt::format("'weight_map': tensor {} has no name of a file in this folder", tensor.substr(0, 200)),
                    in(kIndex));
      names.insert(name);
      promised_.emplace(tensor, name);
    }
    return {names.begin(), names.end()};
  }

  void add_shard(const std::string& name) {
    const std::string path = in(name);
    std::error_code none;
    if (!std::filesystem::exists(path, none))
      throw Error(Code::kIo, fmt::format("is missing, {} names it", kIndex), path);
    files_.emplace_back(path);
    for (const ShardTensor& t : parse_safetensors(files_.back().bytes(), path)) {
      if (indexed_) {
        const auto it = promised_.find(t.name);
        if (it == promised_.end() || it->second != name)
          throw Error(Code::kBadInput,
                      fmt::format("tensor {}: {} says that it is {}", t.name.substr(0, 200), kIndex,
                                  it == promised_.end() ? "nowhere" : "in " + it->second),
                      path);
        promised_.erase(it);
      }
      translation_.add(t, path);
    }
  }

  // How vectors of texts are made.
  void read_modules() {
    const TextModules modules = read_text_modules(path_);
    const std::string_view arch = configuration_.family.arch;
    if (modules.pooling) metadata_.set(fmt::format("{}.pooling_type", arch), *modules.pooling);
    if (modules.tanh) metadata_.set(fmt::format("{}.dense_tanh", arch), true);
    for (std::size_t i = 0; i < modules.dense.size(); ++i) {
      const std::string path = in(modules.dense[i] + "/model.safetensors");
      files_.emplace_back(path);
      for (const ShardTensor& t : parse_safetensors(files_.back().bytes(), path)) translation_.add_dense(i, t, path);
    }
  }

  void read_texts(const FolderJson& config) {
    const auto& tensors = translation_.tensors();
    const auto embedding =
        std::find_if(tensors.begin(), tensors.end(), [](const TensorInfo& t) { return t.name == "token_embd.weight"; });
    if (embedding == tensors.end())
      throw Error(Code::kBadInput, "no file has the tensor model.embed_tokens.weight", path_);
    if (!has(kTokenizer)) {
      if (has("tokenizer.model"))
        throw Error(Code::kUnsupported, "is missing; tokenizer.model is not read, transformers writes a tokenizer.json",
                    in(kTokenizer));
      return;  // a model of token ids
    }
    const auto read = [&](const char* name) {
      return has(name) ? read_folder_json(in(name), kMostConfig) : FolderJson();
    };
    TokenizerFiles files{.tokenizer = read_folder_json(in(kTokenizer), kMostTokenizer),
                         .config = read("tokenizer_config.json"),
                         .generation = read("generation_config.json"),
                         .model = config,
                         .chat_template = has("chat_template.jinja") ? read_text_file(in("chat_template.jinja")) : ""};
    read_tokenizer(files, embedding->rows(), path_, metadata_);
  }

  const std::string path_;
  Metadata metadata_;
  Configuration configuration_;
  Translation translation_{configuration_, path_};
  bool indexed_ = false;
  std::map<std::string, std::string> promised_;  // tensors that the index puts into files, until they are met
  std::vector<MappedFile> files_;
};

bool recognises(const Sight& sight) {
  return sight.folder && sight.holds(kConfig) &&
         std::any_of(sight.names.begin(), sight.names.end(),
                     [](const std::string& name) { return name.ends_with(".safetensors"); });
}

}  // namespace

const Format entry{.summary = "a folder as Hugging Face publishes models: config.json, safetensors, tokenizer.json",
                   .recognises = recognises,
                   .open = [](const std::string& path) { return Folder(path).open(); }};

}  // namespace kvasir::weights::formats_safetensors
