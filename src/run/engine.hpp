// One model ready to run: threads, weights, cache and tokenizer, in the order they are needed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/numa.hpp"
#include "base/options.hpp"
#include "base/team.hpp"
#include "kv/auto_policy.hpp"
#include "kv/cache.hpp"
#include "model/cache_shape.hpp"
#include "model/forward.hpp"
#include "model/key_factors.hpp"
#include "model/model.hpp"
#include "run/constraint.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::run {

struct EngineOptions {
  std::string model;
  std::int32_t threads = 0;       // 0: one per usable core
  std::string numa = "auto";      // "off": memory and threads are left to the system
  std::int32_t ctx = 0;           // tokens of all sequences together; 0: the model's context, at most kDefaultContext
  std::int32_t chunk = 512;       // tokens of a prompt that go through the layers together
  std::vector<std::string> lora;  // adapters: model/adapters.hpp
  std::string weights;            // mixture that weights of 16 or 32 bits are rounded to; "": none
  // Where packed weights are kept: model/residency.hpp.
  std::string weights_memory;  // most bytes of them in memory, such as 2GiB; "": what fits
  std::string weights_mode = "auto";
  std::int32_t keep_first = -1;
  std::int32_t keep_last = -1;
  std::string weights_file;
  std::string keep_weights = "16GiB";  // most of packed weights in Needs::weights_folder
  bool exact = false;               // reference path: all matrices dequantised to floats, f32 cache unless one is named
  std::string arithmetic = "int8";  // what matrices are multiplied in: "int8", "bf16", or "exact": `exact`
  std::string kv;                   // preset, CODEC, KCODEC/VCODEC or "auto"; "": default_kv, or f32 with exact
  std::string k_codec;              // of keys, when they differ
  std::string v_codec;
  std::string kv_layers;  // exceptions: "0=f16;2-5=rq4/rq3"
  float kv_noise = 0.2f;  // budget of "auto", nats
  std::int32_t window = 128;
  std::int32_t residual = -1;  // kv::CacheOptions::residual
  std::int32_t sinks = 4;
  std::string
      kv_memory;  // "8GiB": sealed pages are in a file in kv_disk, and so much of them in memory; empty: all are
  std::string kv_disk = "/var/tmp";
  std::string device;  // that folds sealed pages beside the processor: "gpu", "opencl", "opencl:1"; "", "cpu": none
  std::string device_memory;      // of it, for pages; "": what there is
  std::string device_weights;     // of it, for weights, with which it multiplies prompts; "": a quarter, where it pays
  std::int32_t device_from = -1;  // sealed tokens of a text, from which on generated tokens use it; -1: measured
  bool whole_windows = false;     // kv::CacheOptions::whole_windows: blending with such layers needs it
  // Which blocks generated tokens read (select/spec.hpp); beside it what overrides its parameters:
  // run/selection.hpp.
  std::string select = "all";
  std::string budget;
  std::int32_t select_block = 0;
  std::int32_t select_local = -1;
  std::int32_t select_initial = -1;
  std::int32_t select_anchors = 0;
  std::int32_t token_step = 0;
  std::int32_t layer_step = 0;
  std::int32_t dense_layers = -1;
  std::string head_mode;
  std::int32_t preselect = -1;
  std::int32_t select_prompt = -1;
  std::int32_t select_meter = -1;
  float select_floor = 0;

  bool computes_exactly() const { return exact || arithmetic == "exact"; }
};

// What the options say of how the model is computed. Throws Error(kBadInput) where they contradict each other.
void set_arithmetic(model::ModelSpec& spec, const EngineOptions& options);

inline constexpr std::int64_t kDefaultContext = 8192;
inline constexpr std::int64_t kProgramBytes = std::int64_t{64} << 20;  // of the program itself, tokenizer and all

const OptionTable<EngineOptions>& engine_table();
const OptionTable<EngineOptions>& plan_table();  // the same without the model, for `kvasir inspect`

// Bytes that drafters take beside an engine: drafts_memory (run/drafting.hpp).
struct Beside {
  std::int64_t weights = 0;  // count in EngineOptions::weights_memory
  std::int64_t others = 0;   // caches and scratch
};

// Memory that an engine with these options takes, from the file's header alone.
struct EnginePlan {
  std::int64_t weight_bytes = 0;   // packed, in memory
  model::Residency residency;      // of them
  std::int64_t load_bytes = 0;     // beside the weights while they are packed, before there is anything else
  std::int64_t scratch_bytes = 0;  // of the forward pass
  kv::MemoryPlan cache;
  Beside beside;
  std::int64_t context = 0;
  std::vector<kv::LayerCodecs> codecs;  // in runs of layers
  std::string note;                     // on the choice of codecs; empty when there is nothing to say
  // What there is at most at a time.
  std::int64_t total() const {
    return weight_bytes + std::max(load_bytes, scratch_bytes + static_cast<std::int64_t>(cache.total()) +
                                                   beside.weights + beside.others);
  }
};
EnginePlan plan_engine(const weights::ModelFile& file, const EngineOptions& options, int sequences, int logits,
                       std::int64_t pool_tokens = 0, const Beside& beside = {});  // see Engine::Needs

// The file of a model, its weights rounded if the options say so. Throws Error.
std::unique_ptr<weights::ModelFile> open_model(const EngineOptions& options);

class Engine {
 public:
  struct Needs {
    int sequences = 1;
    std::int64_t pool_tokens = 0;                 // of all sequences together; 0: the context
    int logits = 1;                               // rows of logits per step
    int drafted = 0;                              // of one step: rows of drafted tokens besides
    Beside beside = {};                           // what is left for the engine is less by this
    std::shared_ptr<kv::PageDevice> device = {};  // of the cache; null: what the options name
    // What multiplies prompts with these matrices; empty: what the options name.
    std::function<std::unique_ptr<cpu::ProductDevice>(std::span<const cpu::Matrix* const>)> make_products = {};
    Team* team = nullptr;             // that outlives the engine; null: one of its own
    std::string weights_folder = {};  // where packed weights are kept for the next start; "": nowhere
    std::function<void(const std::string&)> weights_note = {};  // what became of that, in any thread
    std::function<void(std::int64_t, std::int64_t)> progress;   // of loading: bytes done, bytes in all
    std::function<std::unique_ptr<weights::Reads>(std::unique_ptr<weights::Reads>)> wrap_reads;  // see LoadOptions
  };

  // Loads the model and reserves the cache. Throws Error: unknown or impossible options, a bad file, too little memory.
  Engine(const EngineOptions& options, const Needs& needs);

  const EngineOptions& options() const { return options_; }
  Team& team() { return *team_; }
  // Sequences that can be at once.
  int sequences() const { return needs_.sequences; }
  const model::Model& model() const { return *model_; }
  kv::Cache& cache() { return *cache_; }
  model::Forward& forward() { return *forward_; }
  // Of the device that multiplies prompts; without one it has no name.
  cpu::ProductDeviceStats product_stats() const { return products_ ? products_->stats() : cpu::ProductDeviceStats(); }
  const text::Tokenizer* tokenizer() const { return tokenizer_.get(); }  // nullptr: the model runs on ids only
  // For answers that a grammar constrains; made by the first call. Any thread. REQUIRES: there is a tokenizer.
  std::shared_ptr<const TokenOrder> token_order() const;
  std::int64_t context() const { return context_; }
  // Codecs of all layers, in runs; and what the user should know about their choice, empty when there is nothing.
  const std::vector<kv::LayerCodecs>& codecs() const { return codecs_; }
  const kv::CacheOptions& cache_options() const { return cache_options_; }
  const std::string& kv_note() const { return kv_note_; }

  // With "auto" codecs: chooses them by what the first prompt shows, and makes the cache anew. Does nothing when they
  // are chosen. REQUIRES: no sequences, ids in range.
  void choose_codecs(std::span<const std::int32_t> prompt);

  // Throws Error(kBadInput) for an id outside the vocabulary.
  void check_ids(std::span<const std::int32_t> ids) const;

  // Appends `ids` to `sequence` in chunks; returns the logits of the last `rows` of them, valid until the next step.
  // `poll(done)` is called before every chunk and may return false to stop early: then the result is empty.
  // REQUIRES: rows <= the `logits` asked for, and the last chunk holds as many tokens: rows <= min(ids, chunk).
  std::span<const float> feed(
      kv::Sequence* sequence, std::span<const std::int32_t> ids, int rows = 1,
      FunctionRef<bool(std::int64_t)> poll = [](std::int64_t) { return true; });

  // Appends one generated token; returns its logits, valid until the next step.
  std::span<const float> decode(kv::Sequence* sequence, std::int32_t id);

 private:
  void make_cache();
  void open_products();
  int step_rows() const;  // of a step, at most
  void adopt(const kv::AutoChoice& choice);

  EngineOptions options_;
  std::unique_ptr<Team> own_team_;
  Team* team_;
  Placement placement_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  mutable std::once_flag ordered_;
  mutable std::shared_ptr<const TokenOrder> token_order_;
  std::unique_ptr<model::Model> model_;
  Needs needs_;
  kv::CacheOptions cache_options_;
  bool undecided_ = false;  // "auto" waits for the first prompt
  std::vector<kv::LayerCodecs> codecs_;
  std::string kv_note_;
  std::int64_t context_ = 0;
  std::unique_ptr<kv::Cache> cache_;
  std::unique_ptr<cpu::ProductDevice> products_;
  std::unique_ptr<model::Forward> forward_;
};

// Codecs when none are named: "balanced", the strongest preset that changes what models say by less than 0.001 nats
// (see docs/kv.md), or "f16" for head sizes that it does not store; then *note says so.
std::string default_kv(const model::ModelSpec& spec, std::string* note);

// How `options` store keys and values, in a word: a preset, a codec, KEYS/VALUES, a share or "auto".
std::string kv_name(const EngineOptions& options, const model::ModelSpec& spec);
// Bytes of a further token of a sequence in 16-bit floats: of the layers that kv::MemoryPlan::bytes_per_token counts.
double f16_bytes_per_token(const EngineOptions& options, const model::ModelSpec& spec);

// Where weights are kept, if everything else takes `others` bytes and all weights would take `weights`. drafters: bytes
// of weights that these have. Throws Error(kBadInput) for what is no size, Error(kMemory) for one that drafters take
// all of.
model::ResidencyOptions residency_options(const EngineOptions& options, std::int64_t others, std::int64_t weights,
                                          std::int64_t drafters = 0);

// What a cache for `spec` is like under `options`: used by the engine and by `kvasir inspect`. facts: of its keys.
kv::CacheOptions cache_options(const EngineOptions& options, const model::ModelSpec& spec, const model::KeyFacts& facts,
                               int sequences);
// Why the model's positions end, where they are not learned ones, in one line; else empty.
std::string positions_note(const model::ModelSpec& spec);
// Throws Error(kBadInput) for more tokens than the model has positions.
std::int64_t context_for(const EngineOptions& options, const model::ModelSpec& spec);

}  // namespace kvasir::run
