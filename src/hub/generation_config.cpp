// generation_config.json as llama.cpp's converter writes it, numbers whatever their range: who samples looks at that.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "hub/tokenizer_config.hpp"

namespace kvasir::hub {

using namespace weights;

void set_generation(const FolderJson& generation, Metadata& out) {
  if (!generation.is_object()) return;
  constexpr std::pair<const char*, const char*> kKeys[] = {{"temperature", "temp"},
                                                           {"top_k", "top_k"},
                                                           {"top_p", "top_p"},
                                                           {"min_p", "min_p"},
                                                           {"repetition_penalty", "penalty_repeat"}};
  for (const auto& [field, key] : kKeys)
    if (const auto value = generation.find(field); value != generation.end() && value->is_number())
      out.set(fmt::format("general.sampling.{}", key),
              value->is_number_integer() ? Value(value->get<std::int64_t>()) : Value(value->get<double>()));
  const auto ids = generation.find("suppress_tokens");
  if (ids == generation.end() || !ids->is_array()) return;
  std::vector<std::int64_t> all;
  for (const FolderJson& id : *ids)
    if (id.is_number_integer()) all.push_back(id.get<std::int64_t>());
  if (!all.empty()) out.set("tokenizer.ggml.suppress_tokens", std::move(all));
}

}  // namespace kvasir::hub
