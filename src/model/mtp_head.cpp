#include "model/mtp_head.hpp"

#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/blocks.hpp"
#include "model/orders.hpp"

namespace kvasir::model {

ModelSpec read_mtp_head(const weights::ModelFile& file, std::int64_t tokens) {
  const Hparams h(file, tokens);
  constexpr const char* kKey = "nextn_predict_layers";
  if (h.nextn() == 0)
    h.unsupported(kKey, h.has(kKey) ? "is 0: the file has no block that predicts further tokens"
                                    : "is missing: the file has no block that predicts further tokens");
  if (!h.entry().block)
    h.unsupported(
        kKey, "is " + std::to_string(h.nextn()) + ", but what such a block of " + h.arch() + " computes is not known");
  ModelSpec spec = h.entry().describe(h);
  const Names n(h, h.layers());
  if (!n.has("nextn.eh_proj"))
    throw Error(Code::kBadInput,
                "tensor blk." + std::to_string(h.layers()) + ".nextn.eh_proj.weight is missing, expected it because " +
                    h.arch() + "." + kKey + " is " + std::to_string(h.nextn()),
                file.metadata().path());
  spec.layers = {h.entry().block(h, h.layers())};
  Embedding& e = spec.embedding;
  if (n.has("nextn.embed_tokens")) e.tokens.name = n.vector("nextn.embed_tokens.weight", 0).name;
  e.join = {.norm = n.rms("nextn.enorm"),
            .state_norm = n.rms("nextn.hnorm"),
            .both = n.linear("nextn.eh_proj", h.dim(), 2 * std::int64_t{h.dim()})};
  if (n.has("nextn.shared_head_norm")) spec.head.norm = n.rms("nextn.shared_head_norm");
  if (n.has("nextn.shared_head_head"))
    spec.head.output = n.linear("nextn.shared_head_head", h.vocab(), h.dim());
  else
    spec.head.output.lent = true;
  spec.orders = orders_at_once(spec, file);
  return spec;
}

}  // namespace kvasir::model
