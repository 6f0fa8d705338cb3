// Adapters as the library PEFT saves them: adapter_config.json and adapter_model.safetensors. Names and the order of
// rows are those of the model's own folder; what they are in GGUF is what its family says.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <utility>

#include "base/error.hpp"
#include "hub/adapter.hpp"
#include "hub/family.hpp"
#include "weights/safetensors/json_text.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;  // of adapter_config.json
constexpr std::string_view kPrefix = "base_model.model.", kLoraA = ".lora_A.weight", kLoraB = ".lora_B.weight";

// Whether a setting changes what is computed; those that it is computed with are read elsewhere.
bool silent(const FolderJson& value) {
  return value.is_null() || value == false || value == "none" || value == 0 || (value.is_array() && value.empty()) ||
         (value.is_object() && value.empty());
}

// What the adapter's configuration says of a module: by name, or by patterns of names.
class Scales {
 public:
  Scales(const FolderJson& config, std::string path) : config_(config), path_(std::move(path)) {
    if (config.value("peft_type", "") != "LORA")
      throw Error(Code::kUnsupported, fmt::format("peft_type is '{}', expected 'LORA'", config.value("peft_type", "")),
                  path_);
    for (const char* key : {"use_dora", "bias", "modules_to_save", "lora_bias", "target_parameters",
                            "trainable_token_indices", "layer_replication", "alora_invocation_tokens", "use_qalora",
                            "use_bdlora", "arrow_config", "megatron_config", "velora_config", "monteclora_config"}) {
      const auto it = config.find(key);
      if (it != config.end() && !silent(*it))
        throw Error(Code::kUnsupported,
                    fmt::format("{} is {}, which is not computed here; the library peft can merge the adapter into the "
                                "model",
                                key, it->dump().substr(0, 100)),
                    path_);
    }
  }

  // alpha / rank, or alpha / sqrt(rank) where the adapter says so (rsLoRA, arXiv 2312.03732).
  double of(const std::string& module, std::int64_t rank) const {
    const double alpha = pattern("alpha_pattern", module).value_or(number("lora_alpha"));
    const double r = static_cast<double>(rank);
    const auto rs = config_.find("use_rslora");
    return alpha / (rs != config_.end() && *rs == true ? std::sqrt(r) : r);
  }

 private:
  double number(const char* key) const {
    const auto it = config_.find(key);
    if (it == config_.end() || !it->is_number())
      throw Error(Code::kBadInput, fmt::format("{} is missing, expected a number", key), path_);
    return it->get<double>();
  }

  // A key is a module's name, its end, or a regular expression of the whole name.
  std::optional<double> pattern(const char* key, const std::string& module) const {
    const auto it = config_.find(key);
    if (it == config_.end() || !it->is_object()) return std::nullopt;
    for (const auto& [name, value] : it->items()) {
      bool is = false;
      try {
        is = std::regex_match(module, std::regex("(.*\\.)?(" + name + ")"));
      } catch (const std::regex_error&) {
        throw Error(Code::kBadInput, fmt::format("{}: '{}' is no regular expression", key, name), path_);
      }
      if (!is) continue;
      if (!value.is_number()) throw Error(Code::kBadInput, fmt::format("{}: '{}' is no number", key, name), path_);
      return value.get<double>();
    }
    return std::nullopt;
  }

  const FolderJson& config_;
  const std::string path_;
};

TensorInfo info_of(const ShardTensor& t, const std::string& path) {
  constexpr std::pair<std::string_view, const char*> kTypes[] = {{"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}};
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& k) { return k.first == t.dtype; });
  if (type == std::end(kTypes) || t.shape.size() != 2 || t.bytes.empty())
    throw Error(Code::kUnsupported,
                fmt::format("tensor {}: is {} of {} dimensions, expected a matrix of F32, F16 or BF16",
                            t.name.substr(0, 200), t.dtype, t.shape.size()),
                path);
  TensorInfo info;
  info.name = t.name;
  info.quant = type->second;
  info.rank = 2;
  info.shape = {t.shape[1], t.shape[0], 1, 1};
  info.bytes = t.bytes;
  return info;
}

// Whether the rows or columns of a matrix are others in GGUF, or their numbers. A matrix that is turned is so in the
// file alone.
bool lies_otherwise(const Family& family, const Place& place) {
  if (place.make != Make::kSame && place.make != Make::kTurned) return true;
  if (family.arch == "falcon-h1") return true;  // times factors
  for (const char* name : {".ssm_", ".attn_gate.", ".attn_qkv."})
    if (place.name.find(name) != place.name.npos) return true;  // by heads
  return false;
}

struct Pair {
  TensorInfo a, b;
};

}  // namespace

Adapter open_peft(const std::string& folder, const Metadata& base) {
  const auto in = [&](const char* name) { return folder + "/" + name; };
  const FolderJson config = read_folder_json(in("adapter_config.json"), kMostBytes);
  const Scales scales(config, in("adapter_config.json"));
  const std::string path = in("adapter_model.safetensors");
  std::error_code none;
  if (!std::filesystem::exists(path, none))
    throw Error(Code::kIo, "is missing; adapter_model.bin is not read, peft writes a .safetensors file", path);

  Adapter adapter{.path = folder};
  adapter.files.emplace_back(path);
  std::map<std::string, Pair> pairs;  // by module
  for (const ShardTensor& t : parse_safetensors(adapter.files.back().bytes(), path)) {
    const std::string& name = t.name;
    const bool a = name.ends_with(kLoraA);
    if (!name.starts_with(kPrefix) || (!a && !name.ends_with(kLoraB)))
      throw Error(Code::kUnsupported,
                  fmt::format("tensor {}: expected {}…lora_A.weight or lora_B.weight", name.substr(0, 200), kPrefix),
                  path);
    Pair& pair = pairs[name.substr(kPrefix.size(), name.size() - kLoraA.size() - kPrefix.size())];
    (a ? pair.a : pair.b) = info_of(t, path);
  }
  const std::string& arch = base.require_string("general.architecture");
  const Family family = family_of_arch(arch, path);
  const auto heads = [&](const char* key) { return base.get_int(arch + key, 1, 1 << 20); };
  for (auto& [module, pair] : pairs) {
    if (pair.a.name.empty() || pair.b.name.empty())
      throw Error(Code::kBadInput, fmt::format("{} lacks lora_{}", module, pair.a.name.empty() ? 'A' : 'B'), path);
    if (pair.a.rows() != pair.b.columns())
      throw Error(Code::kBadInput,
                  fmt::format("{} has {} rows and its lora_B rows of {}, expected the same rank", pair.a.name,
                              pair.a.rows(), pair.b.columns()),
                  path);
    const Place place = place_of(family, module + ".weight", path);
    if (place.name.empty() || place.expert >= 0 || lies_otherwise(family, place))
      throw Error(
          Code::kUnsupported,
          fmt::format("{}: the matrix lies otherwise in this architecture; convert the adapter to GGUF", module), path);
    if (family.pairs && place.name.ends_with(".attn_q.weight"))
      pair.b.half_heads = heads(".attention.head_count").value_or(0);
    if (family.pairs && place.name.ends_with(".attn_k.weight"))
      pair.b.half_heads = heads(".attention.head_count_kv").value_or(heads(".attention.head_count").value_or(0));
    adapter.parts.push_back({place.name, pair.a, pair.b, scales.of(module, pair.a.rows())});
  }
  if (adapter.parts.empty()) throw Error(Code::kBadInput, "has no tensors", path);
  return adapter;
}

}  // namespace kvasir::hub
