#include "kv/spec.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "kv/preset.hpp"

namespace kvasir::kv {
namespace {

[[noreturn]] void bad(const std::string& message, const std::string& context) {
  throw Error(Code::kBadInput, message, context);
}

void read_parameter(std::string_view text, std::string_view codec, CodecParams* params, const std::string& context) {
  if (text == "unbiased") {
    params->unbiased = true;
    return;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), params->group);
  if (error != std::errc() || end != text.data() + text.size() || params->group < 1)
    bad("'" + std::string(text) + "' is no parameter of codec '" + std::string(codec) +
            "', expected a group size or 'unbiased'",
        context);
}

// What other programs call codecs, in lower case, and what is nearest here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {{"fp32", "f32"},
                                                                        {"float32", "f32"},
                                                                        {"fp16", "f16"},
                                                                        {"float16", "f16"},
                                                                        {"half", "f16"},
                                                                        {"16", "f16"},
                                                                        {"bfloat16", "bf16"},
                                                                        {"fp8", "int8_token"},
                                                                        {"fp8_e4m3", "int8_token"},
                                                                        {"fp8_e5m2", "int8_token"},
                                                                        {"fp8_inc", "int8_token"},
                                                                        {"int8", "int8_token"},
                                                                        {"q8_0", "int8_token"},
                                                                        {"q8", "int8_token"},
                                                                        {"8", "int8_token"},
                                                                        {"q5_0", "rq5"},
                                                                        {"q5_1", "rq5"},
                                                                        {"q4_0", "balanced"},
                                                                        {"q4_1", "balanced"},
                                                                        {"q4", "balanced"},
                                                                        {"iq4_nl", "balanced"},
                                                                        {"int4", "balanced"},
                                                                        {"fp4", "balanced"},
                                                                        {"nvfp4", "balanced"},
                                                                        {"4", "balanced"},
                                                                        {"q3", "small"},
                                                                        {"3", "small"},
                                                                        {"q2", "kivi2"},
                                                                        {"int2", "kivi2"},
                                                                        {"2", "kivi2"},
                                                                        {"kivi", "kivi2"},
                                                                        {"turboquant", "turbo3"},
                                                                        {"uniform_2b", "uniform2"},
                                                                        {"uniform_3b", "rq3"},
                                                                        {"uniform_4b", "uniform4"},
                                                                        {"turbo_3b", "turbo3"},
                                                                        {"turbo_4b", "turbo4"},
                                                                        {"turbo_kv_3b", "turbo3"},
                                                                        {"turbo_kv_4b", "turbo4"},
                                                                        {"turbo_kv_5b", "rq5"},
                                                                        {"polar_3b", "polar3"},
                                                                        {"polar_4b", "polar4"},
                                                                        {"qjl_1b", "qjl1"},
                                                                        {"mixed_4b8", "balanced"}};

std::string lower_case(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// What stands where a codec should, for one side or, with presets, for both.
std::string unknown_codec(std::string_view name, bool with_presets) {
  std::vector<std::string> all;
  for (const auto& entry : codecs()) all.emplace_back(entry.name);
  std::string text = "unknown codec '" + std::string(name) + "', expected one of: " + names(codecs());
  if (with_presets) {
    text += "; or of the presets: " + names(presets());
    for (const auto& entry : presets()) all.emplace_back(entry.name);
  }
  const std::string lower = lower_case(name);
  if (std::find(all.begin(), all.end(), lower) != all.end()) return text + " (did you mean '" + lower + "'?)";
  for (const auto& [theirs, ours] : kElsewhere)
    if (lower == theirs && std::find(all.begin(), all.end(), ours) != all.end())
      return text + " ('" + std::string(ours) + "' is nearest to it)";
  return text + did_you_mean(name, all);
}

// A preset is named where its codecs, or a codec with parameters, are wanted.
void refuse_preset(std::string_view text, std::string_view name, const char* what, const std::string& context) {
  const Preset* const preset = find(presets(), name);
  if (!preset && name != "auto") return;
  std::string message = "'" + std::string(text) + "': '" + std::string(name) + "' is a preset, which " + what;
  if (preset && preset->share == 0)
    message += "; it stands for keys '" + std::string(preset->k) + "' and values '" + preset->v + "'";
  bad(message, context);
}

// A preset's codec with `parameter`, such as ":16", in place of its own.
std::string with_parameter(std::string_view codec, std::string_view parameter) {
  return std::string(codec.substr(0, codec.find(':'))) + std::string(parameter);
}

}  // namespace

CodecSpec parse_codec(std::string_view text, int d, Side side, const std::string& context) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  CodecSpec spec;
  spec.codec = find(codecs(), name);
  if (!spec.codec) {
    refuse_preset(text, name, "names codecs of both sides, expected a codec", context);
    bad(unknown_codec(name, false), context);
  }
  if (colon != std::string_view::npos) {
    std::string_view rest = text.substr(colon + 1);
    for (;;) {
      const std::size_t comma = rest.find(',');
      read_parameter(rest.substr(0, comma), name, &spec.params, context);
      if (comma == std::string_view::npos) break;
      rest = rest.substr(comma + 1);
    }
  }
  const std::string what = std::string("codec '") + std::string(text) + "' cannot store " +
                           (side == Side::kKeys ? "keys" : "values") + " of heads of size " + std::to_string(d) + ": ";
  if (const char* reason = spec.codec->refuse(d, side, &spec.params)) bad(what + reason, context);
  if (!(side == Side::kKeys ? spec.codec->k : spec.codec->v).bytes)
    bad(what + "it is made for the " + (side == Side::kKeys ? "values" : "keys") + " only", context);
  return spec;
}

CodecPair parse_pair(std::string_view text, const std::string& context) {
  if (const Preset* preset = find(presets(), text)) return {preset->k, preset->v};
  if (text.ends_with('%')) {
    if (share_of(text) == 0)
      bad("'" + std::string(text) + "' is no share of f16's bytes, expected 1% to 100%", context);
    return {"rq4", "rq4"};
  }
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    const std::size_t colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    if (find(codecs(), name)) return {std::string(text), std::string(text)};
    const Preset* const preset = find(presets(), name);
    if (!preset || preset->share > 0) {
      refuse_preset(text, name, "takes no parameter", context);
      bad(unknown_codec(name, true), context);
    }
    return {with_parameter(preset->k, text.substr(colon)), with_parameter(preset->v, text.substr(colon))};
  }
  return {std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
}

double share_of(std::string_view text) {
  if (!text.ends_with('%')) {
    const Preset* const preset = find(presets(), text);
    return preset ? preset->share : 0;
  }
  double percent = 0;
  const char* const stop = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), stop, percent);
  return error == std::errc() && end == stop && percent >= 1 && percent <= 100 ? percent / 100 : 0;
}

std::vector<LayerCodecs> parse_layers(std::string_view text, const std::string& context) {
  std::vector<LayerCodecs> list;
  while (!text.empty()) {
    const std::size_t end = text.find(';');
    const std::string_view entry = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    const char* const stop = entry.data() + entry.size();
    LayerCodecs e;
    auto [at, error] = std::from_chars(entry.data(), stop, e.first);
    e.last = e.first;
    if (error == std::errc() && at != stop && *at == '-') {
      const auto second = std::from_chars(at + 1, stop, e.last);
      at = second.ptr;
      error = second.ec;
    }
    if (error != std::errc() || at == stop || *at != '=' || at + 1 == stop)
      bad("'" + std::string(entry) + "', expected LAYER=CODECS or FIRST-LAST=CODECS", context);
    const CodecPair pair = parse_pair(std::string_view(at + 1, static_cast<std::size_t>(stop - at - 1)), context);
    e.k_codec = pair.k;
    e.v_codec = pair.v;
    list.push_back(e);
  }
  return list;
}

bool stores(std::string_view text, int head_dim, int head_dim_v) {
  try {
    const CodecPair pair = parse_pair(text, "");
    parse_codec(pair.k, head_dim, Side::kKeys, "");
    parse_codec(pair.v, head_dim_v, Side::kValues, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<LayerCodecs> layer_runs(const CacheOptions& options, int layers) {
  std::vector<LayerCodecs> runs;
  for (int l = 0; l < layers; ++l) {
    LayerCodecs at{l, l, options.k_codec, options.v_codec};
    for (const LayerCodecs& e : options.layers)
      if (l >= e.first && l <= e.last) at.k_codec = e.k_codec, at.v_codec = e.v_codec;
    if (!runs.empty() && runs.back().k_codec == at.k_codec && runs.back().v_codec == at.v_codec)
      runs.back().last = l;
    else
      runs.push_back(at);
  }
  return runs;
}

std::string codecs_text(const std::vector<LayerCodecs>& runs) {
  std::string text;
  for (const LayerCodecs& run : runs) {
    if (!text.empty()) text += ", ";
    text += run.k_codec == run.v_codec ? run.k_codec : run.k_codec + "/" + run.v_codec;
    if (runs.size() == 1) break;
    text += (run.last > run.first ? " in layers " : " in layer ") + std::to_string(run.first);
    if (run.last > run.first) text += "-" + std::to_string(run.last);
  }
  return text;
}

std::string codecs_text(std::vector<LayerCodecs> runs, Side side) {
  std::vector<LayerCodecs> merged;
  for (LayerCodecs& run : runs) {
    (side == Side::kKeys ? run.v_codec : run.k_codec) = side == Side::kKeys ? run.k_codec : run.v_codec;
    if (!merged.empty() && merged.back().k_codec == run.k_codec)
      merged.back().last = run.last;
    else
      merged.push_back(std::move(run));
  }
  return codecs_text(merged);
}

}  // namespace kvasir::kv
