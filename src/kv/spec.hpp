// How a user names codecs: CODEC[:PARAMETER[,PARAMETER]], a parameter being a group size or `unbiased`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kv/codec.hpp"
#include "kv/options.hpp"

namespace kvasir::kv {

// A codec with its parameters for one side of one head size.
struct CodecSpec {
  const Codec* codec = nullptr;
  CodecParams params;
};

// Throws Error(kBadInput) in `context` for an unknown codec or parameter, or when the codec refuses d, side or them.
CodecSpec parse_codec(std::string_view text, int d, Side side, const std::string& context);

// Names for keys and values: a preset's, CODEC for both, or CODEC/CODEC, whose codecs are not looked up. Of presets
// with a share, and of shares, the codecs of an average layer; PRESET:PARAMETER is its codecs with that parameter.
// Throws Error(kBadInput) in `context` for one name that is none of these.
struct CodecPair {
  std::string k;
  std::string v;
};
CodecPair parse_pair(std::string_view text, const std::string& context);

// Of a preset that gives every layer codecs of its own, or of a text such as "25%": the share of f16's bytes that they
// keep within (kv/share_policy.hpp). 0 for all others.
double share_of(std::string_view text);

// Exceptions by layer: "0=f16;2-5=rq4/rq3", layers from 0. Throws Error(kBadInput) in `context` when the text is none.
std::vector<LayerCodecs> parse_layers(std::string_view text, const std::string& context);

// Does not throw: whether `text` is a preset or pair that stores heads of these sizes.
bool stores(std::string_view text, int head_dim, int head_dim_v);

// The codecs of all layers of a cache, in runs of layers that have the same.
std::vector<LayerCodecs> layer_runs(const CacheOptions& options, int layers);

// "rq4", "rq4/rq3", or with several runs "rq4/rq3 in layers 0-3, f16 in layer 4".
std::string codecs_text(const std::vector<LayerCodecs>& runs);
std::string codecs_text(std::vector<LayerCodecs> runs, Side side);  // of keys or values alone

}  // namespace kvasir::kv
