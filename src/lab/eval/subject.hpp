// A model under test: one set of weights, and beside a cache of f32 keys and values one cache per codec to compare.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "base/team.hpp"
#include "kv/cache.hpp"
#include "model/forward.hpp"
#include "model/key_factors.hpp"
#include "model/model.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::lab::eval {

struct SubjectOptions {
  std::string model;
  std::int32_t threads = 0;  // 0: one per usable core
  std::int32_t ctx = 512;
  bool exact = false;
  std::string arithmetic = "int8";  // as of an engine
  bool against_exact = false;       // the baseline has weights of its own: dequantised floats
  // What to compare: names separated by commas, or by semicolons when a name holds a comma. A name may carry exceptions
  // by layer: rq3@0=rq8+4-7=rq4/rq3.
  std::string kv;
  std::int32_t window = 128;
  std::int32_t residual = -1;  // kv::CacheOptions::residual
  std::int32_t sinks = 4;
  float kv_noise = 0.2f;  // budget of "auto", nats
  // As of an engine.
  std::string weights_memory;
  std::string weights_mode = "auto";
  std::string weights_file;
};
const OptionTable<SubjectOptions>& subject_table();

// The names in a list of --kv; throws Error(kBadInput) when there are none or one is empty or stands there twice.
std::vector<std::string> split_kv(const std::string& list);

// What a choice of codecs costs. Bits are of sealed pages, everything in them included.
struct KvCost {
  double bits_k = 0, bits_v = 0;   // per element
  double bytes_per_token = 0;      // K and V, all layers, sealed
  double f16_bytes_per_token = 0;  // the same in f16
  // Sealed pages, raw window, sinks and codec state of a full context, over its tokens.
  double held_bytes_per_token = 0;
};

// One cache over the subject's weights.
struct Lane {
  std::string name;
  kv::CacheOptions options;
  KvCost cost;
  bool undecided = false;  // "auto", until choose_codecs
  double share = 0;        // of f16's bytes, shared out among the layers; 0: none
  std::vector<kv::LayerCodecs> exceptions;
  std::string note;  // what "auto" or a preset with a share chose
  std::unique_ptr<kv::Cache> cache;
  std::unique_ptr<model::Forward> forward;
};

class Subject {
 public:
  struct Needs {
    int sequences = 1;
    std::int64_t extra_tokens = 0;  // room in the caches beside a full context
    bool text = true;               // the model must have a vocabulary
    bool baseline = true;           // a lane of f32 keys and values in front
    // Selectors (select/spec.hpp): every choice of codecs has a lane for each. The lane's name is that of the
    // codecs.
    std::vector<std::string> selectors{"all"};
  };
  // Opens the model and checks everything that can be wrong before the weights are read: names of codecs, head sizes,
  // the context, memory. Throws Error.
  Subject(const SubjectOptions& options, const Needs& needs);

  const model::ModelSpec& spec() const { return spec_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& chat_template() const { return chat_template_; }  // of the model's file; empty: it has none
  std::int64_t context() const { return options_.ctx; }
  const SubjectOptions& options() const { return options_; }
  Team& team() { return *team_; }

  // Reads the weights and reserves the caches. progress(done, total) in bytes.
  void load(const std::function<void(std::int64_t, std::int64_t)>& progress);
  const model::Model& model() const { return *model_; }
  // Chooses the codecs of lanes called "auto" by what `ids` show, as an engine does by its first prompt, and makes
  // their caches. Does nothing when there are none, or they are chosen. Call it before anything else is done with the
  // lanes; REQUIRES: no sequences.
  void choose_codecs(std::span<const std::int32_t> ids);

  Lane& baseline() { return lanes_.front(); }  // f32 keys and values
  std::span<Lane> lanes() { return std::span(lanes_).subspan(first_); }
  std::span<Lane> all() { return lanes_; }

  // Rows of logits that one step may return (the scratch for them stays below 32 MiB per cache), and its tokens.
  int logits_rows() const;
  static constexpr int kChunk = 512;

 private:
  void add_lane(const std::string& name, const std::string& selector, const Needs& needs);
  void adopt(Lane& lane, const model::KeyFacts& facts) const;  // factors, and the codecs of lanes with a share
  void check_memory();
  void make_cache(Lane& lane);

  SubjectOptions options_;
  std::unique_ptr<Team> team_;
  std::unique_ptr<weights::ModelFile> file_;  // until load
  model::ModelSpec spec_;
  model::KeyFacts facts_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::string chat_template_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::Model> exact_model_;  // of the baseline, with against_exact
  model::ResidencyOptions where_;
  std::vector<Lane> lanes_;
  std::size_t first_ = 0;  // lane behind the baseline
};

}  // namespace kvasir::lab::eval
