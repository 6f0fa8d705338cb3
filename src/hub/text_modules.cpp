#include "hub/text_modules.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/safetensors/fields.hpp"
#include "weights/safetensors/json_text.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

constexpr std::uint64_t kMostModule = std::uint64_t{16} << 20;  // bytes of a file

std::int64_t pooling_type(const ConfigFields& fields) {
  constexpr std::pair<const char*, std::int64_t> kFlags[] = {
      {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};
  std::int64_t found = 0;
  for (const auto& [name, type] : kFlags) {
    if (!fields.flag_if(name).value_or(false)) continue;
    if (found != 0) fields.unsupported(name, "is one of several, whose vectors would stand behind each other");
    found = type;
  }
  for (const char* other :
       {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"})
    if (fields.flag_if(other).value_or(false)) fields.unsupported(other, "is not computed");
  if (found != 0) return found;
  const std::string name = fields.text_if("pooling_mode").value_or("");
  for (const auto& [mode, type] : {std::pair<const char*, std::int64_t>{"mean", 1}, {"cls", 2}, {"lasttoken", 3}})
    if (name == mode) return type;
  fields.unsupported("pooling_mode", fmt::format("is '{}', expected mean, cls or lasttoken", name.substr(0, 40)));
}

bool is_tanh(const ConfigFields& fields) {
  const std::string name = fields.text_if("activation_function").value_or("torch.nn.modules.activation.Tanh");
  if (name.ends_with(".Tanh")) return true;
  if (name.ends_with(".Identity")) return false;
  fields.unsupported("activation_function", fmt::format("is '{}', expected Identity or Tanh", name.substr(0, 80)));
}

}  // namespace

TextModules read_text_modules(const std::string& path) {
  const std::string list = path + "/modules.json";
  TextModules out;
  std::error_code none;
  if (!std::filesystem::exists(list, none)) return out;
  const MappedFile file(list);
  if (file.bytes().size() > kMostModule)
    throw Error(Code::kBadInput, fmt::format("has {} bytes, expected at most {}", file.bytes().size(), kMostModule),
                list);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const FolderJson modules = parse_folder_json(fmt::format("{{\"modules\": {}}}", text), list)["modules"];  // a list
  if (!modules.is_array()) throw Error(Code::kBadInput, "expected a list of modules", list);
  for (const FolderJson& module : modules) {
    if (!module.is_object()) throw Error(Code::kBadInput, "expected a list of objects", list);
    const ConfigFields fields(module, list);
    const std::string type = fields.text_if("type").value_or(""), place = fields.text_if("path").value_or("");
    const std::string kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" || kind == "Normalize") continue;
    if (kind != "Pooling" && kind != "Dense")
      fields.unsupported("type",
                         fmt::format("is '{}', expected Transformer, Pooling, Dense or Normalize", type.substr(0, 80)));
    if (place.empty() || place.starts_with('.') || place.find_first_of(std::string("/\\\0", 3)) != place.npos)
      fields.bad("path", fmt::format("is '{}', expected the name of a folder", place.substr(0, 80)));
    const std::string own = fmt::format("{}/{}/config.json", path, place);
    const FolderJson json = read_folder_json(own, kMostModule);
    const ConfigFields of(json, own);
    if (kind == "Pooling") {
      out.pooling = pooling_type(of);
      continue;
    }
    const bool tanh = is_tanh(of);
    if (!out.dense.empty() && tanh != out.tanh)
      of.unsupported("activation_function", "is not the one of the module before");
    out.tanh = tanh;
    out.dense.push_back(place);
  }
  return out;
}

}  // namespace kvasir::hub
