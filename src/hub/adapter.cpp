#include "hub/adapter.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <utility>

#include "base/error.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b";

void check_kind(const Metadata& m, const std::string& arch) {
  if (m.get_string("general.type").value_or("model") != "adapter")
    throw Error(Code::kBadInput,
                "general.type is '" + m.get_string("general.type").value_or("") +
                    "', expected 'adapter': convert_lora_to_gguf.py writes one",
                m.path());
  const std::string type = m.get_string("adapter.type").value_or("");
  if (type != "lora") throw Error(Code::kUnsupported, "adapter.type is '" + type + "', expected 'lora'", m.path());
  if (m.has("adapter.alora.invocation_tokens"))
    throw Error(Code::kUnsupported, "is switched on by tokens of the prompt (aLoRA), which is not supported", m.path());
  const std::string& own = m.require_string("general.architecture");
  if (own != arch)
    throw Error(Code::kBadInput, "is for models of architecture '" + own + "', and this one is '" + arch + "'",
                m.path());
}

}  // namespace

Adapter open_adapter(const std::string& path, const Metadata& base) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) return open_peft(path, base);
  Adapter adapter{.path = path};
  adapter.gguf = open_model_file(path);
  const Metadata& m = adapter.gguf->metadata();
  check_kind(m, base.require_string("general.architecture"));
  const double alpha = m.get_float("adapter.lora.alpha").value_or(0);
  std::map<std::string, LowRank> pairs;
  for (const TensorInfo& t : adapter.gguf->tensors()) {
    const bool is_a = t.name.ends_with(kA);
    if (!is_a && !t.name.ends_with(kB))
      throw Error(Code::kUnsupported,
                  "has the tensor " + t.name + ", which is no part of a product: only .lora_a and .lora_b are read",
                  path);
    LowRank& pair = pairs[t.name.substr(0, t.name.size() - kA.size())];
    (is_a ? pair.a : pair.b) = t;
  }
  for (auto& [name, pair] : pairs) {
    pair.target = name;
    if (pair.a.name.empty() || pair.b.name.empty())
      throw Error(Code::kBadInput, "lacks " + name + std::string(pair.a.name.empty() ? kA : kB), path);
    if (pair.a.rank > 2 || pair.b.rank > 2)
      throw Error(Code::kUnsupported, name + " is of experts, to which adapters do not add here", path);
    if (pair.a.rows() != pair.b.columns())
      throw Error(Code::kBadInput,
                  fmt::format("{} has {} rows and its .lora_b rows of {}, expected the same rank", pair.a.name,
                              pair.a.rows(), pair.b.columns()),
                  path);
    pair.scale = alpha == 0 ? 1 : alpha / static_cast<double>(pair.rank());
    adapter.parts.push_back(std::move(pair));
  }
  if (adapter.parts.empty()) throw Error(Code::kBadInput, "has no tensors, expected .lora_a and .lora_b", path);
  return adapter;
}

}  // namespace kvasir::hub
