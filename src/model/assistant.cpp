#include "model/assistant.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/hparams.hpp"
#include "model/orders.hpp"

namespace kvasir::model {
namespace {

bool same_turns(const Rope& a, const Rope& b) {
  if (a.frequencies.size() != b.frequencies.size() || a.pairs != b.pairs || a.magnitude != b.magnitude) return false;
  for (std::size_t i = 0; i < a.frequencies.size(); ++i)
    if (std::abs(a.frequencies[i] - b.frequencies[i]) > 1e-6 * std::abs(b.frequencies[i])) return false;
  return true;
}

}  // namespace

ModelSpec read_assistant(const weights::ModelFile& file, std::int64_t tokens) {
  const Hparams h(file, tokens);
  if (h.entry().drafts_for.empty())
    throw Error(Code::kBadInput,
                "general.architecture is '" + h.arch() +
                    "', expected a model that drafts for another one, such as gemma4-assistant",
                file.metadata().path());
  ModelSpec spec = h.entry().describe(h);
  spec.orders = orders_at_once(spec, file);
  return spec;
}

std::vector<kv::ReaderLayer> layers_read(const ModelSpec& assistant, const ModelSpec& model, const std::string& path) {
  const auto expect = [&](std::string_view field, auto has, auto wanted) {
    if (has != wanted)
      throw Error(Code::kBadInput,
                  fmt::format("{}.{} is {}, expected the model's {}", assistant.arch, field, has, wanted), path);
  };
  const std::string_view drafts_for = find(archs(), assistant.arch)->drafts_for;
  if (drafts_for != model.arch)
    throw Error(Code::kBadInput,
                fmt::format("general.architecture is '{}', which drafts for models of '{}'; the model's is '{}'",
                            assistant.arch, drafts_for, model.arch),
                path);
  expect("embedding_length_out", assistant.head.next.rows, std::int64_t{model.dim});
  expect("vocab_size", assistant.vocab, model.vocab);
  std::vector<kv::ReaderLayer> read;
  for (int l = 0; l < assistant.layer_count(); ++l) {
    const auto& own = std::get<Attention>(assistant.layers[static_cast<std::size_t>(l)].mixer);
    int of = -1;
    const Attention* theirs = nullptr;
    for (int i = 0; i < model.layer_count(); ++i) {
      const auto* a = std::get_if<Attention>(&model.layers[static_cast<std::size_t>(i)].mixer);
      if (a && a->kv_of < 0 && (a->window > 0) == (own.window > 0)) of = i, theirs = a;
    }
    if (!theirs)
      throw Error(
          Code::kBadInput,
          fmt::format("{}.attention.sliding_window_pattern says {} for layer {}, expected what some layer of the "
                      "model has",
                      assistant.arch, own.window > 0, l),
          path);
    const auto of_layer = [&](std::string_view field) { return fmt::format("{} of layer {}", field, l); };
    expect(of_layer("attention.head_count_kv"), own.kv_heads, theirs->kv_heads);
    expect(of_layer("attention.key_length"), own.d, theirs->d);
    expect(of_layer("attention.value_length"), own.dv, theirs->dv);
    expect(of_layer("attention.sliding_window"), own.window, theirs->window);
    if (!same_turns(assistant.ropes[static_cast<std::size_t>(own.rope)],
                    model.ropes[static_cast<std::size_t>(theirs->rope)]))
      throw Error(Code::kBadInput,
                  fmt::format("{}.rope.freq_base{} makes other frequencies, expected the model's", assistant.arch,
                              own.window > 0 ? "_swa" : ""),
                  path);
    read.push_back({of, own.heads, own.window});
  }
  return read;
}

}  // namespace kvasir::model
