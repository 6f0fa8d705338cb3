// A folder as Hugging Face publishes a model: config.json, weights in safetensors files, tokenizer.json. The matrices
// stay where they are; norms and other vectors, which are small, become floats as in GGUF.
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
#include "weights/format.hpp"
#include "weights/quant.hpp"
#include "weights/safetensors/config.hpp"
#include "weights/safetensors/f8_rows.hpp"
#include "weights/safetensors/int4_rows.hpp"
#include "weights/safetensors/json_text.hpp"
#include "weights/safetensors/shard.hpp"
#include "weights/safetensors/tokenizer_config.hpp"

namespace kvasir::weights {
namespace {

constexpr std::uint64_t kMostConfig = std::uint64_t{64} << 20;      // bytes of a configuration
constexpr std::uint64_t kMostTokenizer = std::uint64_t{512} << 20;  // of tokenizer.json
constexpr const char* kConfig = "config.json";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTokenizer = "tokenizer.json";

struct Kind {
  std::string_view dtype, quant;
};
constexpr Kind kKinds[] = {{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}};

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
    for (const auto& [stem, parts] : int4_parts_) add_int4(stem, parts);
    for (const ShardTensor& t : f8_) add_f8(t);
    if (!f8_scales_.empty())
      throw Error(Code::kBadInput,
                  fmt::format("tensor {}: is a scale of no matrix of 8-bit floats",
                              f8_scales_.begin()->second.name.substr(0, 200)),
                  path_);
    for (const Extra& e : configuration_.extras) add_floats(e.name, e.values);
    read_texts(config);
    return std::make_unique<MappedModel>(std::move(files_), std::move(metadata_), std::move(tensors_),
                                         std::move(floats_));
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
      add_tensor(t, path);
    }
  }

  // A matrix of 4-bit codes, of which other files may hold parts.
  void add_int4(const std::string& stem, const std::map<std::string, ShardTensor>& parts) {
    add_made(stem, int4_matrix(*configuration_.int4, parts, stem, path_));
  }

  // A matrix of 8-bit floats, whose scales another file may hold.
  void add_f8(const ShardTensor& t) {
    const std::string stem = t.name.ends_with(".weight") ? t.name.substr(0, t.name.size() - 7) : t.name;
    const auto scale = f8_scales_.find(stem);
    add_made(stem, f8_matrix(t, scale == f8_scales_.end() ? nullptr : &scale->second, configuration_.f8, path_));
    if (scale != f8_scales_.end()) f8_scales_.erase(scale);
  }

  void add_made(const std::string& stem, TensorInfo info) {
    info.name = gguf_name(*configuration_.family, stem + ".weight", path_);
    if (info.name.empty() || (info.name == "output.weight" && configuration_.tied)) return;
    if (info.name == "token_embd.weight")
      throw Error(Code::kUnsupported, fmt::format("tensor {}: an embedding of 4 or 8 bits is not supported", stem),
                  path_);
    info.half_heads = heads_of(info.name);
    if (info.half_heads > 0 && info.rows() % (2 * info.half_heads) != 0)
      throw Error(Code::kBadInput,
                  fmt::format("tensor {}: has {} outputs, expected a multiple of {}, twice the heads", stem,
                              info.rows(), 2 * info.half_heads),
                  path_);
    add(std::move(info), path_);
  }

  void add_tensor(const ShardTensor& t, const std::string& path) {
    if (configuration_.int4)
      if (const auto part = int4_part(t.name, configuration_.int4->method)) {
        int4_parts_[part->stem][part->part] = t;
        return;
      }
    if (is_f8(t.dtype)) return f8_.push_back(t);
    if (const auto stem = f8_scale(t.name)) {
      f8_scales_[*stem] = t;
      return;
    }
    if (t.name.ends_with(".input_scale")) return;  // what activations of 8 bits would be rounded with
    const std::string name = gguf_name(*configuration_.family, t.name, path);
    if (name.empty() || (name == "output.weight" && configuration_.tied)) return;
    const auto fail = [&](Code code, const std::string& why) {
      throw Error(code, fmt::format("tensor {}: {}", t.name.substr(0, 200), why), path);
    };
    const auto kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.dtype == t.dtype; });
    if (kind == std::end(kKinds))
      fail(Code::kUnsupported, fmt::format("is {}, expected F32, F16, BF16, F8_E4M3 or F8_E5M2", t.dtype));
    if (t.shape.empty() || t.shape.size() > 2 || t.bytes.empty())
      fail(Code::kBadInput, fmt::format("has {} dimensions and {} bytes, expected a vector or a matrix", t.shape.size(),
                                        t.bytes.size()));
    TensorInfo info;
    info.name = name;
    info.quant = kind->quant;
    info.rank = static_cast<int>(t.shape.size());
    for (std::size_t d = 0; d < t.shape.size(); ++d) info.shape[d] = t.shape[t.shape.size() - 1 - d];
    info.bytes = t.bytes;
    const std::int64_t heads = heads_of(name);
    if (heads > 0 && (info.rank == 2 ? info.rows() : info.columns()) % (2 * heads) != 0)
      fail(Code::kBadInput,
           fmt::format("has {} rows, expected a multiple of {}, twice the heads", t.shape[0], 2 * heads));
    if (info.rank == 2) {
      info.half_heads = heads;
      add(std::move(info), path);
    } else {
      add_floats(name, floats_of(info, heads));
    }
  }

  // How many heads' rows have to change places.
  std::int64_t heads_of(std::string_view name) const {
    if (!configuration_.family->pairs) return 0;
    for (const char* q : {".attn_q.weight", ".attn_q.bias"})
      if (name.ends_with(q)) return configuration_.heads;
    for (const char* k : {".attn_k.weight", ".attn_k.bias"})
      if (name.ends_with(k)) return configuration_.kv_heads;
    return 0;
  }

  // A vector as GGUF has it.
  std::vector<float> floats_of(const TensorInfo& t, std::int64_t heads) const {
    std::vector<float> read(static_cast<std::size_t>(t.columns())), out(read.size());
    find(quants(), t.quant)->dequantise(t.bytes.data(), read.data(), t.columns());
    TensorInfo rows;  // one element each
    rows.shape = {1, t.columns(), 1, 1};
    rows.half_heads = heads;
    const float more = configuration_.family->one_more && t.name.ends_with("norm.weight") ? 1.0f : 0.0f;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = read[static_cast<std::size_t>(rows.row_in_file(static_cast<std::int64_t>(i)))] + more;
    return out;
  }

  void add_floats(const std::string& name, std::vector<float> values) {
    floats_.push_back(std::move(values));
    TensorInfo info;
    info.name = name;
    info.quant = "f32";
    info.rank = 1;
    info.shape[0] = static_cast<std::int64_t>(floats_.back().size());
    info.bytes = std::as_bytes(std::span(floats_.back()));
    add(std::move(info), path_);
  }

  void add(TensorInfo info, const std::string& path) {
    if (!names_.insert(info.name).second)
      throw Error(Code::kBadInput, fmt::format("tensor {} is there twice", info.name), path);
    tensors_.push_back(std::move(info));
  }

  void read_texts(const FolderJson& config) {
    const auto embedding = std::find_if(tensors_.begin(), tensors_.end(),
                                        [](const TensorInfo& t) { return t.name == "token_embd.weight"; });
    if (embedding == tensors_.end())
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
  bool indexed_ = false;
  std::map<std::string, std::string> promised_;  // tensors that the index puts into files, until they are met
  std::map<std::string, std::map<std::string, ShardTensor>> int4_parts_;  // by stem
  std::vector<ShardTensor> f8_;
  std::map<std::string, ShardTensor> f8_scales_;  // by stem
  std::set<std::string> names_;
  std::vector<MappedFile> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<float>> floats_;
};

bool recognises(const Sight& sight) {
  return sight.folder && sight.holds(kConfig) &&
         std::any_of(sight.names.begin(), sight.names.end(),
                     [](const std::string& name) { return name.ends_with(".safetensors"); });
}

}  // namespace

namespace entries::formats {
extern const Format safetensors;
const Format safetensors{
    .summary = "a folder as Hugging Face publishes models: config.json, safetensors, tokenizer.json",
    .recognises = weights::recognises,
    .open = [](const std::string& path) { return Folder(path).open(); }};
}  // namespace entries::formats

}  // namespace kvasir::weights
