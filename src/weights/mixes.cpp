#include "weights/mixes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <variant>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "weights/gguf.hpp"
#include "weights/quant.hpp"

namespace kvasir::weights {
namespace {

// Those with names and rules of their own.
constexpr Mix kMixes[] = {
    {"F32", "f32", 0},          {"F16", "f16", 1},       {"BF16", "bf16", 32},     {"Q8_0", "q8_0", 7},
    {"Q4_0", "q4_0", 2},        {"Q4_1", "q4_1", 3},     {"Q5_0", "q5_0", 8},      {"Q5_1", "q5_1", 9},
    {"Q2_K", "q2_k", 10},       {"Q2_K_S", "q2_k", 21},  {"Q3_K_S", "q3_k", 11},   {"Q3_K_M", "q3_k", 12},
    {"Q3_K_L", "q3_k", 13},     {"Q4_K_S", "q4_k", 14},  {"Q4_K_M", "q4_k", 15},   {"Q5_K_S", "q5_k", 16},
    {"Q5_K_M", "q5_k", 17},     {"Q6_K", "q6_k", 18},    {"IQ4_NL", "iq4_nl", 25}, {"IQ4_XS", "iq4_xs", 30},
    {"IQ3_M", "iq3_s", 27},     {"IQ3_S", "iq3_s", 26},  {"IQ3_XS", "iq3_s", 22},  {"IQ3_XXS", "iq3_xxs", 23},
    {"IQ2_M", "iq2_s", 29},     {"IQ2_S", "iq2_xs", 28}, {"IQ2_XS", "iq2_xs", 20}, {"IQ2_XXS", "iq2_xxs", 19},
    {"IQ1_M", "iq1_m", 31},     {"IQ1_S", "iq1_s", 24},  {"TQ1_0", "tq1_0", 36},   {"TQ2_0", "tq2_0", 37},
    {"MXFP4_MOE", "mxfp4", 38},
};

// Parts of names of matrices that are small or steer others: they stay as they are.
constexpr std::string_view kKept[] = {"_norm.weight",
                                      "ffn_gate_inp.weight",
                                      "ffn_gate_inp_shexp.weight",
                                      "position_embd",
                                      "token_types",
                                      "ssm_conv1d",
                                      "shortconv.conv.weight",
                                      "altup",
                                      "laurel",
                                      "per_layer_model_proj",
                                      "time_mix_",
                                      "attn_rel_b.weight",
                                      "indexer.",
                                      "patch_embd"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

// The N of "blk.N.", or -1.
std::int64_t layer_in(std::string_view name) {
  std::int64_t layer = -1;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

enum class Role { kOther, kOutput, kEmbedding, kValue, kFused, kKey, kQuery, kHeads, kUp, kGate, kDown };

Role role_of(std::string_view name) {
  struct Rule {
    std::string_view part;
    Role role;
  };
  constexpr Rule kRules[] = {{"attn_qkv.weight", Role::kFused},
                             {"attn_kv_b.weight", Role::kFused},
                             {"attn_v.weight", Role::kValue},
                             {"attn_k.weight", Role::kKey},
                             {"attn_q.weight", Role::kQuery},
                             {"attn_output.weight", Role::kHeads},
                             {"ffn_up", Role::kUp},
                             {"ffn_gate", Role::kGate},
                             {"ffn_down", Role::kDown}};
  if (name == "output.weight") return Role::kOutput;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::kEmbedding;
  for (const Rule& r : kRules)
    if (contains(name, r.part)) return r.role;
  return Role::kOther;
}

bool makes_values(Role role) { return role == Role::kValue || role == Role::kFused; }

// And every other type that a GGUF file can be mostly of, by the name that GGUF gives it.
std::vector<Mix> with_plain_types() {
  static std::deque<std::string> texts;  // of the names
  std::vector<Mix> all(std::begin(kMixes), std::end(kMixes));
  for (const Entry<Quant>& entry : quants()) {
    const auto file_type = gguf_file_type(entry.name);
    const auto of = [&](const Mix& m) { return m.quant == entry.name; };
    if (file_type && std::none_of(std::begin(kMixes), std::end(kMixes), of))
      all.push_back({texts.emplace_back(upper(entry.name)), entry.name, *file_type});
  }
  return all;
}

}  // namespace

bool is_source(std::string_view quant) {
  constexpr std::string_view kSources[] = {"f32", "f16", "bf16", "f8_e4m3", "affine8", "affine6"};
  return std::find(std::begin(kSources), std::end(kSources), quant) != std::end(kSources);
}

std::span<const Mix> mixes() {
  static const std::vector<Mix> all = with_plain_types();
  return all;
}

std::string mix_names() {
  std::string out;
  for (const Mix& m : mixes()) out.append(out.empty() ? "" : ", ").append(m.name);
  return out;
}

const Mix& find_mix(std::string_view name) {
  const std::string wanted = upper(name);
  for (const Mix& m : mixes())
    if (m.name == wanted) return m;
  std::vector<std::string> names;
  for (const Mix& m : mixes()) names.emplace_back(m.name);
  throw Error(Code::kBadInput,
              fmt::format("unknown type '{}'{}; expected one of {}", name, did_you_mean(wanted, names), mix_names()));
}

const Mix& mix_of(std::string_view name) {
  for (const Mix& m : mixes())
    if (m.quant == name && (m.name.ends_with("_M") || std::count_if(mixes().begin(), mixes().end(), [&](const Mix& o) {
                                                        return o.quant == name;
                                                      }) == 1))
      return m;
  return find_mix(name);
}

struct MixPlan::Place {
  Role role;
  std::int64_t index, of;  // of the layer among those that have such a tensor
  bool first_of(std::int64_t part) const { return index < of / part; }
  // The first and the last eighth, and every third between.
  bool sensitive() const { return first_of(8) || index >= 7 * of / 8 || (index - of / 8) % 3 == 2; }
};

MixPlan::MixPlan(const Mix& mix, const ModelFile& file, bool importance) : mix_(mix), importance_(importance) {
  const Metadata& m = file.metadata();
  const std::string arch = m.require_string("general.architecture");
  constexpr std::int64_t kMost = 1 << 20;
  const auto number = [&](const char* key, std::int64_t fallback) {
    const std::string name = arch + "." + key;
    const Value* value = m.find(name);
    const auto* list = value ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
    if (list) return list->empty() ? fallback : *std::max_element(list->begin(), list->end());
    return m.get_int(name, 0, kMost).value_or(fallback);
  };
  falcon_ = arch == "falcon";  // llama.cpp's rules name these architectures; its converter's files are all they are for
  layers_ = number("block_count", 0);
  experts_ = number("expert_count", 0);
  const std::int64_t heads = number("attention.head_count", 1), kv_heads = number("attention.head_count_kv", heads);
  group_ = kv_heads > 0 ? heads / kv_heads : 1;
  large_ = (arch == "llama" || arch == "qwen2") && layers_ == 80 && group_ > 1;
  for (const TensorInfo& t : file.tensors()) {
    if (t.name == "output.weight") tied_ = false;
    if (makes_values(role_of(t.name))) values_.push_back(layer_in(t.name));
  }
  std::sort(values_.begin(), values_.end());
}

bool MixPlan::is(std::initializer_list<std::string_view> names) const {
  return std::find(names.begin(), names.end(), mix_.name) != names.end();
}

std::string MixPlan::type_of(const TensorInfo& t) const {
  const auto kept = [&](std::string_view part) { return contains(t.name, part); };
  if (t.rank < 2 || !t.name.ends_with("weight") || std::any_of(std::begin(kKept), std::end(kKept), kept))
    return t.quant;
  std::string_view type = chosen(t);
  for (;;) {
    const Quant* quant = find(quants(), type);
    if (!quant) throw Error(Code::kUnsupported, fmt::format("{}: type {} cannot be written", mix_.name, type));
    if (t.columns() % quant->block == 0) return std::string(type);
    type = quant->fallback;
  }
}

bool MixPlan::needs_importance(const TensorInfo& t, std::string_view type) const {
  const Role role = role_of(t.name);
  if (role == Role::kOutput || role == Role::kEmbedding || type == t.quant) return false;
  if (type == "q2_k") return is({"Q2_K_S"});
  return type == "iq3_xxs" || type == "iq2_xxs" || type == "iq2_xs" || type == "iq2_s" || type == "iq1_m" ||
         type == "iq1_s";
}

std::string_view MixPlan::chosen(const TensorInfo& t) const {
  if (is({"F32", "F16", "BF16"})) return mix_.quant;
  Place p{role_of(t.name), layer_in(t.name), layers_};
  if (makes_values(p.role)) {
    p.index = std::lower_bound(values_.begin(), values_.end(), p.index) - values_.begin();
    p.of = static_cast<std::int64_t>(values_.size());
  }
  const bool head = p.role == Role::kOutput || (tied_ && p.role == Role::kEmbedding);
  if (head) {
    const Quant* quant = find(quants(), mix_.quant);
    const bool whole = quant && t.columns() % quant->block == 0;
    if (is({"MXFP4_MOE", "Q8_0"}) || falcon_ || !whole) return "q8_0";
    return is({"IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ2_S", "IQ2_M", "IQ1_M"}) ? "q5_k" : "q6_k";
  }
  if (is({"MXFP4_MOE"})) return t.rank > 2 ? "mxfp4" : "q8_0";
  if (p.role == Role::kEmbedding) {
    if (is({"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M"})) return "q2_k";
    if (is({"IQ2_S", "IQ2_M", "IQ3_XXS"})) return "iq3_s";
    return is({"TQ1_0", "TQ2_0"}) ? "q4_k" : mix_.quant;
  }
  if (is({"IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ2_S", "IQ2_M", "IQ1_M"})) return in_grids(p);
  switch (p.role) {
    case Role::kValue:
    case Role::kFused:
      return of_values(p);
    case Role::kKey:
      if (experts_ == 8) return "q8_0";
      [[fallthrough]];
    case Role::kQuery:
      return is({"IQ3_XS"}) ? "iq3_xxs" : is({"IQ3_XXS"}) ? "iq2_s" : mix_.quant;
    case Role::kDown:
      return of_down(p);
    case Role::kHeads:
      return of_heads();
    case Role::kGate:
    case Role::kUp:
      return is({"IQ3_XS"}) && !p.first_of(8) && p.index < 7 * p.of / 8 ? "iq3_xxs" : mix_.quant;
    default:
      return mix_.quant;
  }
}

// Mixes of types with grids of two bits and fewer.
std::string_view MixPlan::in_grids(const Place& p) const {
  const bool finer = is({"IQ2_S", "IQ2_M"});
  const std::string_view more = finer ? "iq3_s" : "q2_k";
  if (makes_values(p.role)) return group_ >= 4 || experts_ >= 4 ? "q4_k" : more;
  if (p.role == Role::kKey && experts_ == 8) return "q4_k";
  if (p.role == Role::kDown && p.first_of(8)) return more;
  if (p.role != Role::kHeads) return mix_.quant;
  if (experts_ == 8) return "q5_k";
  return is({"IQ1_S", "IQ1_M"}) ? "iq2_xxs" : finer ? "iq3_s" : mix_.quant;
}

std::string_view MixPlan::of_values(const Place& p) const {
  if (experts_ == 8) return "q8_0";
  const bool grouped = group_ >= 4;
  std::string_view type = mix_.quant;
  if (is({"Q2_K"})) {
    type = grouped ? "q4_k" : "q3_k";
  } else if (is({"Q2_K_S", "IQ3_XS", "IQ3_S"}) && grouped) {
    type = "q4_k";
  } else if (is({"IQ3_XXS"})) {
    type = grouped ? "q4_k" : importance_ ? "iq3_xxs" : "iq3_s";
  } else if (is({"IQ3_M"})) {
    type = "q4_k";
  } else if (is({"Q3_K_M"})) {
    type = p.index < 2 ? "q5_k" : "q4_k";
  } else if (is({"Q3_K_L"}) || (is({"IQ4_NL", "IQ4_XS"}) && grouped) || (is({"Q4_K_S"}) && p.index < 4)) {
    type = "q5_k";
  } else if (is({"Q4_K_M", "Q5_K_M"}) && p.sensitive()) {
    type = "q6_k";
  }
  return large_ && (type == "q3_k" || type == "q4_k") ? "q5_k" : type;
}

std::string_view MixPlan::of_down(const Place& p) const {
  if (is({"Q2_K"})) return "q3_k";
  if (is({"Q2_K_S"}) && p.first_of(8)) return "q4_k";
  if (is({"IQ3_XXS"}) && !importance_) return p.first_of(8) ? "q4_k" : "q3_k";
  if (is({"Q3_K_M"})) return p.first_of(16) ? "q5_k" : !falcon_ || p.sensitive() ? "q4_k" : "q3_k";
  if (is({"IQ3_M"}) && (p.first_of(8) || (experts_ == 8 && p.sensitive()))) return "q4_k";
  if (is({"Q3_K_L"})) return falcon_ ? "q4_k" : "q5_k";
  if (is({"Q4_K_M"}) && falcon_) return p.first_of(16) ? "q6_k" : p.sensitive() ? "q5_k" : "q4_k";
  if (is({"Q4_K_M", "Q5_K_M"}) && p.sensitive()) return "q6_k";
  if (is({"IQ4_NL", "IQ4_XS"}) && p.first_of(8) && !importance_) return "q5_k";
  if (is({"Q4_K_S"}) && p.first_of(8) && !falcon_) return "q5_k";
  if (is({"Q4_0"}) && p.first_of(8) && importance_) return "q4_1";
  if (is({"Q5_0"}) && p.first_of(8) && importance_) return "q5_1";
  return mix_.quant;
}

std::string_view MixPlan::of_heads() const {
  if (falcon_) return is({"Q3_K_L"}) ? "q4_k" : mix_.quant;
  if (experts_ == 8) {
    const bool raised =
        is({"Q2_K", "IQ3_XS", "IQ3_XXS", "Q3_K_S", "Q3_K_M", "IQ4_NL", "Q4_K_S", "Q4_K_M", "IQ3_S", "IQ3_M", "IQ4_XS"});
    return raised ? "q5_k" : mix_.quant;
  }
  if (is({"Q2_K"})) return "q3_k";
  if (is({"IQ3_XXS"})) return "iq3_s";
  if (is({"Q3_K_M", "IQ3_M"})) return "q4_k";
  return is({"Q3_K_L"}) ? "q5_k" : mix_.quant;
}

}  // namespace kvasir::weights
