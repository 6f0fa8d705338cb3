// What a cache is told: the shape of the model's layers, the user's options, the tokens of a step; and its plan of
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/numa.hpp"

namespace kvasir::kv {

class PageDevice;
class PageSelector;

inline constexpr int kMostTaps = 32;  // of a recurrence's convolution

// What a state forgets of its elements in a token, and which gates of a token say it.
enum class Forgetting : std::uint8_t {
  kByHead,     // of all alike: a decay of every head, then strengths (heads)
  kByKey,      // of rows: decays (heads, key_dim), then strengths (heads)
  kByElement,  // steps (heads, value_dim), then keys and queries (key_dim) that all heads share (kernel::ScanRows)
};

// A mixer whose past is a state: of every channel the last rows, as far as a convolution reaches, and of every head a
// matrix (key_dim, value_dim). A token's raw row is its channels, then its gates. Values of the heads are channels,
// and so are keys and queries unless they are gates.
struct RecurrentShape {
  int channels = 0;  // 0: none
  int taps = 0;
  int heads = 0;      // of values; 0: a convolution alone
  int key_heads = 0;  // divides heads
  int key_dim = 0;    // even
  int value_dim = 0;
  Forgetting forgetting = Forgetting::kByHead;
  int dilation = 1;  // from one row that a convolution reads to the next; 1 where there are heads

  explicit operator bool() const { return channels > 0; }
  int reach() const { return (taps - 1) * dilation; }  // rows before a token that its convolution reads
  int gates() const {
    if (heads > 0 && forgetting == Forgetting::kByElement) return heads * value_dim + 2 * key_dim;
    return heads * (1 + (forgetting == Forgetting::kByKey ? key_dim : 1));
  }
  int row() const { return channels + gates(); }
  int outputs() const { return heads > 0 ? heads * value_dim : channels; }
  int pitch() const { return (value_dim + 15) / 16 * 16; }  // of a state's rows
};

// The mixer of one layer as the cache sees it: attention, a recurrence, both or none.
struct LayerShape {
  int kv_heads = 0;
  int query_heads = 0;  // a multiple of kv_heads
  int head_dim = 0;     // of queries and keys; a multiple of 8
  int head_dim_v = 0;   // of values and outputs; a multiple of 8
  // local: a token sees the last `window` tokens, itself included; pages that no later one can see are given back. 0:
  // all tokens.
  std::int64_t window = 0;
  // shared: reads keys and values of that earlier layer, whose head sizes, KV heads and window it has; -1: has its own.
  int kv_of = -1;
  // latent: no values are kept or handed over. They are the first head_dim_v elements of the keys.
  bool latent = false;
  // Of local: a token sees from the last multiple of `window` on, so windows stand side by side. What is kept, and when
  // it is given back, is as without.
  bool chunked = false;
  RecurrentShape recurrent = {};
  // Into CacheShape::indexes: queries see the tokens that it chooses (Cache::choose); -1: all that they may.
  int chosen_by = -1;
  // More than 0: no layer of a model but the rows of an index, which the cache makes of CacheShape::indexes.
  int chooses = 0;
  int block = 1;  // IndexShape::block of such rows

  bool attends() const { return kv_heads > 0; }
  // Elements of a sum of values: of a latent layer of keys, of which the first head_dim_v are wanted.
  int sum_dim() const { return latent ? head_dim : head_dim_v; }
  int group() const { return query_heads / kv_heads; }
};

// Rows beside keys and values that say which tokens a query sees: one key of every token, and query heads that score
// it. With a block, tokens are chosen `block` at a time, from token 0 on: the last key of each stands for all of them,
// and a query sees besides those of the block that it does not fill.
struct IndexShape {
  int heads = 0;  // of queries
  int dim = 0;    // of queries and keys; a multiple of 8
  int top = 0;    // tokens that a query chooses at most; a multiple of `block`
  int block = 1;  // a power of two, at most a page
};

struct CacheShape {
  std::vector<LayerShape> layers;
  std::vector<IndexShape> indexes = {};

  static CacheShape uniform(int layers, const LayerShape& layer) {
    return {.layers = std::vector<LayerShape>(static_cast<std::size_t>(layers), layer)};
  }
  int count() const { return static_cast<int>(layers.size()); }
  const LayerShape& at(int layer) const { return layers[static_cast<std::size_t>(layer)]; }
};

// Codecs of some layers, in place of those of CacheOptions.
struct LayerCodecs {
  int first = 0;
  int last = 0;  // inclusive
  std::string k_codec;
  std::string v_codec;
};

struct CacheOptions {
  std::string k_codec = "f16";  // as kv/spec.hpp: a name in kv::codecs() with its parameters
  std::string v_codec = "f16";
  std::vector<LayerCodecs> layers;               // exceptions; where they overlap the later one counts
  std::shared_ptr<const PageSelector> selector;  // which pages are read (kv/page_selector.hpp); null: all
  int window = 128;  // >= 0: tokens kept raw behind the newest one, rounded up to whole pages
  // >= 0: in place of `window`, tokens that every query sees raw at least, itself included, to the token; at most 127
  // more are raw, because a page is sealed whole. 0 is as 1. -1: what `window` says.
  int residual = -1;
  int sinks = 4;                // 0..128: first tokens of every sequence, kept raw for good
  std::int64_t max_tokens = 0;  // capacity in tokens of all sequences together (a page shared by forks counts once), or
  std::size_t budget_bytes = 0;  // when max_tokens is 0: everything the cache may occupy, scratch included
  int max_sequences = 1;
  // A folder for a file of sealed pages; then only disk_memory bytes of them are in memory, those that were read last.
  // Summaries, windows and all else stay in memory. Empty: everything does.
  std::string disk;
  std::size_t disk_memory = 0;
  // Keeps copies of sealed pages and folds them, with the same bits (kv/device.hpp); one cache at a time. Null: none
  // does.
  std::shared_ptr<PageDevice> device;
  // Most tokens of one sequence in one step. Counts only where layers are shared: those that they read keep as much
  // longer what a step would overwrite.
  int step_tokens = 512;
  // Steps of generated tokens may be cut back to some of their tokens (drafts): states of recurrent layers are kept as
  // they were before such a step, one more of each.
  bool drafts = false;
  // Layers with a window keep all their pages, as others do, so that other sequences can borrow them. It takes the
  // memory of a model without windows; what is computed has the same bits.
  bool whole_windows = false;
  // Factors of keys by layer, (kv_heads, head_dim) each or empty for 1: codecs that rotate keys store k / factor and
  // rotate factor q (kv/codec.hpp, set_factors). Of layers that own keys.
  std::vector<std::vector<float>> key_factors;
  // E q q^T by layer, (kv_heads, head_dim, head_dim) each or empty: in this metric codecs that feed back round keys
  // (kv/feedback.hpp).
  std::vector<std::vector<float>> key_metrics;
  bool plans_metrics = false;  // their room is kept in every layer, whether they are there yet or not
  Placement placement;         // of sealed pages: any thread may read any of them, so nodes have them by turns
};

// Where the bytes of a cache go. Everything is reserved at construction and occupied when first written.
struct MemoryPlan {
  std::size_t k_chunk_bytes = 0;  // sealed keys of one page index, all heads of all layers that keep their pages
  std::size_t v_chunk_bytes = 0;  // values
  std::size_t chunk_bytes = 0;    // both, and the selector's summaries
  std::int64_t pages = 0;         // chunks in the pool
  std::int64_t tokens = 0;        // capacity, as in CacheOptions::max_tokens
  std::size_t sealed_bytes = 0;   // in memory
  std::size_t disk_bytes = 0;     // of the page file; 0: there is none
  std::size_t local_bytes = 0;    // sealed pages of layers with a window, of all sequences
  std::size_t raw_bytes = 0;      // windows of all sequences
  std::size_t sink_bytes = 0;
  std::size_t recurrent_bytes = 0;  // states of recurrent layers and raw rows of the page that fills, of all sequences
  std::size_t state_bytes = 0;      // of codecs
  std::size_t scratch_bytes = 0;
  double bytes_per_token = 0;  // what each further token takes when it is sealed: layers that keep their pages
  double k_bits = 0;           // per element of a sealed page, everything included, mean over the layers
  double v_bits = 0;
  std::size_t total() const {
    return sealed_bytes + local_bytes + raw_bytes + sink_bytes + recurrent_bytes + state_bytes + scratch_bytes;
  }
};

// Tokens that every query sees raw at least, itself included, >= 1: CacheOptions::residual, or what `window` says.
int residual_of(const CacheOptions& options);

// Throws Error(kBadInput) naming the option that is wrong (unknown codec, head size that a codec refuses,
// negative window ...), Error(kMemory) when the budget does not hold the windows and one page.
MemoryPlan plan_memory(const CacheShape& shape, const CacheOptions& options, int threads);

// What a device beside the processor did since it was opened (kv/device.hpp).
struct DeviceStats {
  std::string name;             // "NVIDIA H200"; empty: there is none
  std::string lost;             // why it folds no longer; empty: it does
  std::int64_t held_pages = 0;  // now
  std::int64_t most_pages = 0;  // that it has room for
  std::uint64_t uploaded_bytes = 0;
  std::uint64_t folded_groups = 0;  // times rows of a head
  std::uint64_t refused_folds = 0;  // calls of begin
  double wait_seconds = 0;          // of the host
  std::int64_t from_tokens = 0;     // sealed ones of a text, from which on it is used; kNever: not at all
  std::int64_t from_prompts = 0;    // the same for the rows of prompts
  std::string note;                 // how that was decided
  static constexpr std::int64_t kNever = std::int64_t{1} << 62;
};

// Of a cache whose sealed pages are on a disk, since it was made. A unit is a page of one layer and KV head.
struct DiskStats {
  const char* how = "";  // it reads: "io_uring", "pread"; empty: nothing is on a disk
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t hits = 0;    // units that were in memory when they were wanted
  std::uint64_t misses = 0;  // that were not
  double stall_seconds = 0;  // that threads have waited for reads, added up
};

// What selectors did for a sequence. Per generated token, or token of a prompt, and layer that was asked about: which
// tokens were read, and of measured ones which share of the mass of dense attention they hold, mean over the heads.
struct SelectionStats {
  struct Layer {
    std::int64_t chosen = 0;    // steps that read a choice
    std::int64_t dense = 0;     // steps that read everything because a choice held less than the floor
    double read = 0;            // tokens, mean over the KV heads, summed over chosen steps
    double seen = 0;            // that dense attention reads
    std::int64_t measured = 0;  // steps
    double mass = 0;            // summed over them
    double least = 1;
    double best = 0;    // what the best choices of as many blocks would have held, summed
    double choice = 0;  // tokens of the measured choices, and what dense attention reads there, summed
    double context = 0;

    Layer& operator+=(const Layer& l) {
      chosen += l.chosen, dense += l.dense, read += l.read, seen += l.seen;
      measured += l.measured, mass += l.mass, best += l.best, choice += l.choice, context += l.context;
      least = l.least < least ? l.least : least;
      return *this;
    }
  };
  std::vector<Layer> layers;   // that are asked about, in order; of generated tokens
  std::vector<Layer> prompts;  // the same of prompts

  Layer total() const { return total(layers); }
  Layer prompt_total() const { return total(prompts); }

 private:
  static Layer total(const std::vector<Layer>& all) {
    Layer t;
    for (const Layer& l : all) t += l;
    return t;
  }
};

class Sequence;   // a handle; owned by its cache
struct Rotation;  // kv/rotation.hpp

// Tokens [begin, end) of a text whose keys and values were computed elsewhere, from position `made_at` on, in pages
// made_at / 128 ... of some other text. What they say of tokens before them is that text's.
struct BorrowedRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t made_at = 0;
  std::vector<std::int32_t> slots;  // of these pages, see Borrowing::adopt_page
};

// Rows [row, row + count) of the batch are the next `count` >= 1 tokens of `sequence`.
//
// decode: the tokens were generated, or drafted behind one that was: few at a time, each with the bits that it has
// alone. They use the codecs' products on packed bytes. Prompts use them with codecs that have packed_prompts
// (kv/codec.hpp), else never, however short their chunks: what a prompt leaves behind must not depend on its chunks
// (law 1). With lossless codecs both ways have the same bits.
//
// both: ascending; each token of such a run sees all of the run, besides what lies in front of it. REQUIRES: a run lies
// in one slice, whole, and nothing of it is borrowed; layers have keys and values of their own, which are not latent,
// and no slopes.
struct BothWays {
  std::int64_t begin = 0;  // tokens [begin, end) of the text
  std::int64_t end = 0;
  bool in_windows = false;  // in layers with a window alone; REQUIRES: the window holds the run
};
struct Slice {
  Sequence* sequence = nullptr;
  int row = 0;
  int count = 0;
  bool decode = false;
  std::span<const BothWays> both = {};
};

// A score of a token `d` < extent before the query's adds sum over i of rows[i] profiles[i][d], behind the cap.
struct DistanceBias {
  const float* rows = nullptr;      // (rows of the batch, query_heads, width); null: there is none
  const float* profiles = nullptr;  // (width, extent)
  int width = 0;
  std::int64_t extent = 0;

  explicit operator bool() const { return rows != nullptr; }
};

// How scores become weights.
struct Scoring {
  float scale = 1;                // of q k^T
  float soft_cap = 0;             // scores become cap tanh(score / cap); 0: they stay
  const float* slopes = nullptr;  // (query_heads), ALiBi: score - slope * distance, after the cap; null: none
  // (query_heads), one more score of every row, which counts in the sum of the weights and has no value; null: none
  const float* sink_logits = nullptr;
  // RoPE of the layer; null: it has none. Borrowed pages need it. It stays as long as the cache.
  const Rotation* rotation = nullptr;
  // REQUIRES: the sequences borrow nothing, and no tokens see each other both ways.
  DistanceBias distances = {};
  const float* row_sinks = nullptr;  // (rows of the batch, query_heads): in place of `sink_logits`
};

// What a recurrence computes with the channels of a token, which does not change from step to step.
struct Recurrent {
  const float* taps = nullptr;  // (taps, channels)
  const float* bias = nullptr;  // (channels) or null
  // In place of `taps`, if queries, keys and values have convolutions of their own: (taps, their channels).
  const float *q_taps = nullptr, *k_taps = nullptr, *v_taps = nullptr;
  bool silu = true;  // of what the convolution gives
  // Of shapes without heads: (rows of the batch, groups * count of taps), which every token adds to the taps of all of
  // its group's channels. These and `taps` are then the newest token's first; no bias, no silu.
  const float* row_taps = nullptr;
  int groups = 0;
  // Heads: first channels of queries, keys and values, which lie head by head.
  std::int64_t q = 0, k = 0, v = 0;
  bool tiled = false;      // head h has key head h mod key_heads, else h / (heads / key_heads)
  bool delta = false;      // kernel/recurrence.hpp
  float least_length = 0;  // > 0: queries and keys are divided by their lengths, at least that
  float query_scale = 1;   // queries besides, when they are
  // (heads), by element (heads * value_dim): that much of the value is added to the answer; null: none.
  const float* skip = nullptr;
  const float* rates = nullptr;  // by element: (key_dim, heads * value_dim)
};

}  // namespace kvasir::kv
