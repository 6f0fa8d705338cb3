#include "run/model_card.hpp"

#include <map>

#include "model/adapters.hpp"
#include "run/pooling.hpp"

namespace kvasir::run {

ModelCard card_of(const model::ModelSpec& spec, const weights::ModelFile& file, std::string name) {
  const weights::Metadata& metadata = file.metadata();
  ModelCard card;
  card.name = std::move(name);
  card.architecture = spec.arch;
  card.trained_context = spec.context;
  card.vocabulary = static_cast<std::int32_t>(spec.vocab);
  card.chat_template = metadata.get_string("tokenizer.chat_template").value_or("");
  card.response_template = metadata.get_string("tokenizer.response_template").value_or("");
  if (const auto* names = metadata.get_strings("tokenizer.chat_templates"))
    for (const std::string& n : *names)
      if (auto text = metadata.get_string("tokenizer.chat_template." + n))
        card.named_templates.emplace_back(n, std::move(*text));
  card.sampling = read_model_sampling(metadata);
  std::map<std::string, std::uint64_t> bytes_of;
  for (const weights::TensorInfo& t : file.tensors()) {
    card.parameters += static_cast<std::uint64_t>(t.columns() * t.rows());
    const auto bytes = static_cast<std::uint64_t>(t.row_bytes() * t.rows());
    card.bytes += bytes;
    bytes_of[t.quant] += bytes;
  }
  std::uint64_t most = 0;
  for (const auto& [quant, bytes] : bytes_of)
    if (bytes > most) most = bytes, card.quantization = quant;
  card.width = static_cast<std::int32_t>(spec.vector_width());
  card.pooling = default_pooling(spec);
  card.labels = static_cast<std::int32_t>(spec.rank.output.rows);
  card.rank_template = metadata.get_string("tokenizer.chat_template.rerank").value_or("");
  // Texts of a pair: [CLS] a [SEP] b [SEP] of BERT and ModernBERT, <s> a </s></s> b </s> of RoBERTa and XLM-R.
  card.two_separators =
      !spec.causal && metadata.get_string("tokenizer.ggml.model") != "bert" && spec.arch != "modern-bert";
  if (spec.adapters)
    for (std::size_t i = 0; i < spec.adapters->names().size(); ++i)
      card.adapters.push_back({spec.adapters->names()[i], spec.adapters->scales()[i]});
  return card;
}

}  // namespace kvasir::run
