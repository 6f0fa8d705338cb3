// What the readers of config.json share: its fields, and the metadata that they fill. A reader is a function for the
// model types that have what it reads.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hub/config.hpp"
#include "weights/safetensors/fields.hpp"

namespace kvasir::hub {

class ConfigReader {
 public:
  static constexpr std::int64_t kMost = 1 << 24;  // no width, head count or layer count comes near it
  static constexpr std::int64_t kMostContext = std::int64_t{1} << 30;

  // All must outlive this.
  ConfigReader(const weights::ConfigFields& of, weights::Metadata& into, Configuration& beside)
      : fields(of), metadata(into), out(beside) {}

  const weights::ConfigFields& fields;
  weights::Metadata& metadata;
  Configuration& out;
  std::int64_t layers = 0, width = 0, head = 0, context = 0;

  void read();  // the usual, and what the family has besides

  // Under "ARCH.".
  void set(std::string_view key, weights::Value value);
  // The first of `names` that is there.
  std::optional<std::int64_t> integer_of(std::initializer_list<const char*> names, std::int64_t low) const;
  std::int64_t need(std::initializer_list<const char*> names, std::int64_t low) const;  // throws naming the first
  void take_number(const char* from, const char* to);                                   // if it is there
  // An array with one entry for every layer; null where it isn't there. Throws Error where it has more or fewer.
  const weights::FolderJson* by_layer(const char* name) const;
  // A field that must have the value which it has in all such models. Throws Error(kUnsupported).
  void expect(const char* name, const weights::FolderJson& value) const;

 private:
  void read_usual();
  void check_activation() const;
  std::int64_t read_window();
  std::vector<bool> stated_layers(std::int64_t window) const;
  void read_layer_types();
  void read_letters(const std::string& letters);
  void read_scales();
  void check_layers_without_positions() const;
};

// Kinds of layers by "layer_types" and what came before it: attention is "full_attention".
std::vector<std::string> layer_kinds(const ConfigReader& reader);

void read_experts(ConfigReader& r);
void read_afmoe(ConfigReader& r);
void read_ernie(ConfigReader& r);
void read_mellum(ConfigReader& r);
void read_laguna(ConfigReader& r);
void read_phimoe(ConfigReader& r);
void read_hyperclova(ConfigReader& r);
void read_iquest(ConfigReader& r);
void read_minicpm(ConfigReader& r);
void read_nanbeige(ConfigReader& r);
void read_hrm_text(ConfigReader& r);
void read_inkling2(ConfigReader& r);
void read_qwen(ConfigReader& r);
void read_olmo_hybrid(ConfigReader& r);
void read_granite_swa(ConfigReader& r);
void read_olmo(ConfigReader& r);
void read_gpt_oss(ConfigReader& r);
void read_llama4(ConfigReader& r);
void read_gemma4(ConfigReader& r);
void read_gemma_embedding2(ConfigReader& r);
// Of Gemma 4's assistants, behind the rest: what their configuration has around that of their layers.
void read_assistant(ConfigReader& r, const weights::ConfigFields& around);
void read_latent(ConfigReader& r);
void read_indexed(ConfigReader& r);
void read_minicpm3(ConfigReader& r);
void read_cohere2_moe(ConfigReader& r);
void read_delta(ConfigReader& r);
void read_qwen4exp(ConfigReader& r);
void read_lfm2(ConfigReader& r);
void read_lfm3(ConfigReader& r);
void read_falcon_h1(ConfigReader& r);
void read_granite_hybrid(ConfigReader& r);
void read_bamba(ConfigReader& r);
void read_nemotron_h(ConfigReader& r);
void read_mamba1(ConfigReader& r);
void read_mamba2(ConfigReader& r);
void read_jamba(ConfigReader& r);
void read_kimi_linear(ConfigReader& r);
void read_bailing_hybrid(ConfigReader& r);
void read_opt(ConfigReader& r);
void read_gptj(ConfigReader& r);
void read_gpt2(ConfigReader& r);
void read_gpt_neox(ConfigReader& r);
void read_falcon(ConfigReader& r);
void read_bloom(ConfigReader& r);
void read_mpt(ConfigReader& r);
void read_nemotron(ConfigReader& r);
void read_cohere(ConfigReader& r);
void read_ministral(ConfigReader& r);
void read_bert(ConfigReader& r);
void read_nomic_bert(ConfigReader& r);
void read_gte(ConfigReader& r);
void read_jina_v3(ConfigReader& r);
void read_modern_bert(ConfigReader& r);
void read_eurobert(ConfigReader& r);
void read_neobert(ConfigReader& r);

}  // namespace kvasir::hub
