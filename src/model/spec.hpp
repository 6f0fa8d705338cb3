// A model as data: what its layers are made of, which tensors they read, and every number that changes a result. An
// architecture is a function that writes one (model/arch.hpp); loading, memory plan, forward pass, benchmarks,
// synthetic files and the store's fingerprint walk it (model/spec_fields.hpp).
//
//   x = embedding.norm(scale * tokens[id] + positions[p] + types[of the text])
//   for every layer:
//     x += y, and with kSwapped y is from then on what x was before (Second)
//     m = post_mixer(mixer(norm(x)))
//     sequential:  x += residual_scale * m;  x += residual_scale * post_feed(feed(feed_norm(x)))
//     norm_of_sums: s = post_mixer(x + mixer(norm(x)));  x = s, or post_sum(x + s);  x = post_feed(x + feed(feed_norm(x)))
//     parallel:    x += residual_scale * m + residual_scale * post_feed(feed(feed_norm(x))), both of the same x
//     x += input(x)
//     x *= output_scale
//     x = end_norm(x)
// With Residuals a layer reads mixtures of x and of what x was before; see there. With StreamMixer there are several x.
//   logits = soft_cap(head.scale * head.output(head.norm(x)))
// y is embedding.second of every token at first. A layer may be a further pass of an earlier one (weights_of).
// A mixer is attention, or one that has a state in place of keys and values (ShortConv, Delta, KeyedDelta, Mamba,
// Mamba2), or both beside each other. A layer may have a mixer or a feed forward alone.
//
// Members called `bound` are filled by Model::load; everything else is the architecture's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cpu/matrix.hpp"
#include "kernel/ops.hpp"
#include "kernel/router.hpp"
#include "model/pooling.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

class Adapters;

// Elements or rows [first, first + their number) of a tensor that holds several parts and has `of` in all.
struct Cut {
  std::int64_t first = 0;
  std::int64_t of = 0;  // 0: the tensor is no more than this part
  // Of matrices that are not experts': the part comes in runs of that many rows, of which each begins `step` rows
  // behind the one before. 0: in one.
  std::int64_t run = 0, step = 0;
  // More than 0: the part is heads of that many rows, of which row 2 i + j of the tensor is row j * turns / 2 + i here.
  // Then the part comes in one.
  std::int64_t turns = 0;

  std::int64_t at(std::int64_t i) const {
    if (turns > 0) {
      const std::int64_t in_head = i % turns, half = turns / 2;
      return first + i - in_head + in_head % half * 2 + in_head / half;
    }
    return first + (run > 0 ? i / run * step + i % run : i);
  }
};

// A row of floats: weights of a norm, a bias. Absent without a name.
struct Vector {
  std::string name;
  std::int64_t columns = 0;
  Cut cut = {};
  std::int64_t rows = 1;    // more: that many rows behind each other, which are not cut
  bool transposed = false;  // bound as (columns, rows); REQUIRES: not cut, the tensor is bound in no other way
  const float* bound = nullptr;

  explicit operator bool() const { return !name.empty(); }
};

// A matrix that rows are looked up in, not multiplied with. It stays in the file, unless a Linear has the same tensor.
struct Table {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  struct Bound {
    const cpu::Matrix* packed = nullptr;  // or
    const std::byte* bytes = nullptr;     // or
    const weights::RowSource* source = nullptr;
    std::int64_t row_bytes = 0;
    void (*dequantise)(const std::byte*, float*, std::int64_t) = nullptr;
  };
  Bound bound = {};
  static constexpr std::int64_t kMostMade = 1 << 14;  // bytes of a row of `source`

  explicit operator bool() const { return !name.empty(); }
  void row(std::int64_t i, float* out) const;
};

// y = W x + b, rows x columns. Absent without a name.
struct Linear {
  std::string name;
  std::int64_t rows = 0, columns = 0;
  Cut cut = {};  // of rows
  Vector bias = {};
  bool in_floats = false;               // multiplied in floats whatever type the file has
  bool lent = false;                    // bound to the matrix of that name of a model that is in memory already
  const cpu::Addend* addend = nullptr;  // of an adapter (model/adapters.hpp); null: none
  cpu::Matrix bound = {};

  explicit operator bool() const { return !name.empty(); }
};

// Matrices of one shape, rows x columns each, in one tensor. Absent without a name.
struct Stack {
  std::string name;
  std::int64_t count = 0;
  std::int64_t rows = 0, columns = 0;
  Cut cut = {};             // of the rows of each
  Vector bias = {};         // (count, rows)
  bool flat = false;        // the tensor has two dimensions: the rows of all matrices, one behind the other
  bool transposed = false;  // the tensor has their columns as rows, which `cut` is of; they are turned as floats
  cpu::MatrixStack bound = {};

  explicit operator bool() const { return !name.empty(); }
};

// kClip: of a length of at most `eps`, behind the weights.
enum class NormKind { kNone, kRms, kLayer, kClip };

// Every `width` elements of a row are normed by themselves. The weights are those of one such part, repeated, or of the
// whole row; without a name they are 1.
struct Norm {
  NormKind kind = NormKind::kNone;
  std::int64_t width = 0;
  float eps = 0;
  Vector weight = {};
  Vector bias = {};

  explicit operator bool() const { return kind != NormKind::kNone; }
};

// The angle of pair i at position p is p * frequencies[i]; cos and sin are multiplied by `magnitude`. The pairs are of
// a head's first elements; behind them it stays as it is.
struct Rope {
  kernel::RopePairs pairs = kernel::RopePairs::kAdjacent;
  std::vector<double> frequencies;
  float magnitude = 1.0f;
  std::vector<Vector> factors = {};  // tensors that a file may have: read, or passed over, when frequencies were made
  // More than 0: these are the frequencies of texts of at most so many tokens. Longer ones have others (dynamic NTK),
  // for all of their tokens: what was computed of a text would change when it grows.
  std::int64_t most = 0;
  // Of every frequency the part of a position that its pair turns by: 0 time, 1 line, 2 column (M-RoPE, see position_of
  // in model/rows.hpp). Empty: positions have one part, whatever lies in a text.
  std::vector<int> axes = {};
  std::int64_t offset = 0;  // added to every position
};

// Queries at position p are multiplied by 1 + scale * ln(1 + floor((p + offset) / length)), smooth ones by 1 + scale *
// ln(max(1, (p + offset) / length)).
struct Temperature {
  float scale = 0;
  std::int64_t offset = 0;
  std::int64_t length = 1;
  bool smooth = false;

  explicit operator bool() const { return scale != 0; }
};

// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1) as attention of one KV head: a token has one
// row [c | k] of `rank` elements that all heads share and of a part that RoPE turns. Heads are q_h = [n_h | r_h], and
//   q_h k_h = (up_k_h n_h) c + r_h k        values = c        what goes to `o` is (up_v_h heads_h) of every head
// so that no head's keys and values are ever made. Attention::q makes the heads q_h, k makes [c | k], v is absent. A
// gate has one number for each head, of x. Without RoPE the heads have both parts nevertheless.
struct Latent {
  int rank = 0;      // of c; Attention::dv. Its norm is Attention::k_norm
  int nope = 0;      // elements of n_h
  int rope = 0;      // elements of r_h and k; Attention::d is rank + rope
  int values = 0;    // what a head gives to `o`
  Linear down = {};  // q reads norm(down x) instead of x; absent: x
  Norm down_norm = {};
  Stack up_k = {};  // (heads, rank, nope)
  Stack up_v = {};  // (heads, values, rank)

  explicit operator bool() const { return rank > 0; }
};

// Of every channel by itself: y_t = bias + sum over j < taps of weight[j] * x_(t - (taps - 1 - j) dilation), with x = 0
// before the text.
struct Convolution {
  std::int64_t channels = 0;
  int taps = 0;
  Vector weight = {};  // (channels, taps), transposed
  Vector bias = {};    // (channels)
  int dilation = 1;
  std::vector<float> fixed = {};  // (taps, channels): in place of `weight`
};

// y = scale * (x + convolution(x)). With `taps` (groups * the number of taps rows) each token adds numbers of its own
// to the weights of all channels of a group; the convolution's weight is then (taps, channels), and all are the newest
// token's first.
struct Smoothing {
  Convolution convolution;
  float scale = 1;
  Linear taps = {};
  int groups = 0;
  int state = 0;       // which of the model's smoothings it is, in the order of for_each: number_smoothings
  bool alone = false;  // y = convolution(x)
  bool silu = false;   // of what the convolution gives

  explicit operator bool() const { return convolution.taps > 0; }
};

// An index, which says what attention sees (kv/chooser.hpp): of every token one key and the scores that its heads give
// to the keys of all tokens before it. The first elements of keys and query heads are turned.
// The lightning indexer of DeepSeek V3.2: with x as attention reads it and l what Latent::down_norm gives,
//   keys = norm(k x)   queries = q l   weights of heads = weights x
// QSA of Qwen 3.8 Flash-Next, whose weights are 1: a key stands for `block` tokens, which the last of them has,
//   keys = norm(mean of the last block's k x), turned as the block's first token   queries = q_norm(q x)
struct Indexer {
  int heads = 0;
  int d = 0;     // of queries and keys; a multiple of 8
  int top = 0;   // tokens that a row of attention chooses at most
  int rope = 0;  // into ModelSpec::ropes
  Linear q = {}, k = {}, weights = {};
  Norm k_norm = {};
  int block = 1;        // kv::IndexShape::block
  Norm q_norm = {};     // of every head
  Smoothing mean = {};  // of keys, before their norm; REQUIRES: block > 1
  int k_rope = -1;      // of keys; -1: `rope`

  explicit operator bool() const { return heads > 0; }
};

// A score of a token d < extent before the query's adds sum over i of r_i profiles[i][d], with r = norm(linear x),
// width numbers of every query head, times the temperature of queries.
struct Distances {
  int width = 0;
  std::int64_t extent = 0;
  Linear linear = {};
  Norm norm = {};
  Vector profiles = {};  // (width, extent)

  explicit operator bool() const { return width > 0; }
};

struct Attention {
  int heads = 0;                  // H, of queries; a multiple of kv_heads
  int kv_heads = 0;               // KV
  int d = 0;                      // of queries and keys; a multiple of 8
  int dv = 0;                     // of values
  Linear q, k, v;                 // k and v absent: kv_of
  float clamp = 0;                // 0: none; queries, keys and values are cut to -clamp .. clamp, after the bias
  Norm q_norm = {}, k_norm = {};  // after the bias, before RoPE
  Norm v_norm = {};               // after the bias
  bool v_of_k = false;            // v is absent: values are what k gives, before norm and RoPE
  bool norm_after_rope = false;
  int rope = 0;  // into ModelSpec::ropes; -1: none
  Temperature temperature = {};
  float scale = 0;                 // of products of queries and keys
  float soft_cap = 0;              // 0: none; scores become cap * tanh(score / cap)
  std::vector<float> slopes = {};  // (heads), ALiBi: score - slope * distance, after the cap; empty: none
  Vector sinks = {};               // (heads): one more score of every row, in the softmax, that has no value
  std::int64_t window = 0;         // a row sees that many last tokens, itself included; 0: all. In models that are not
                                   // causal: half as many before it, half behind it, and itself
  bool chunked = false;            // windows stand side by side: a row sees from a multiple of `window` on
  int kv_of = -1;                  // reads the keys and values of that earlier layer
  Linear gate = {};                // heads *= act(gate x), x as of q; one for each element or one for each head
  kernel::Activation gate_activation = kernel::Activation::kSigmoid;
  Latent latent = {};
  Indexer indexer = {};                          // REQUIRES: latent with `down`, or blocks
  Smoothing k_smoothing = {}, v_smoothing = {};  // before their norms; both or none; REQUIRES: no RoPE, no biases
  Distances distances = {};
  Linear row_sinks = {};  // (heads): `sinks` of every row by itself
  int chosen_by = -1;  // sees the tokens that the indexer of that layer chose, this one's or an earlier one's; -1: all
  Linear o;
};

// o((c x) * convolution((b x) * (u x))), as in LFM2. (channels) each.
struct ShortConv {
  Linear b, c, u;
  Convolution convolution;
  Linear o;
};

// Gated DeltaNet (arXiv:2412.06464). [q | k | v] = silu(convolution(qkv x)), q and k divided by their lengths, q by
// sqrt(d). Every value head has a state S (d, dv) and in every token, with its a and b and a key head's q and k:
//   S <- e^(decay softplus(a + dt)) S;  S <- S + k (strength sigmoid(b) (v - S^T k))^T;  y = norm(S^T q) * act(z)
struct Delta {
  int key_heads = 0;
  int value_heads = 0;  // a multiple of key_heads
  int d = 0;            // of queries and keys
  int dv = 0;
  bool tiled = false;  // value head j has key head j mod key_heads, else j / (value_heads / key_heads)
  float eps = 0;       // q and k are divided by no less
  float strength = 1;  // of sigmoid(b), which 2 lets the state turn round
  kernel::Activation activation = kernel::Activation::kSilu;
  Linear qkv = {}, z = {};
  Linear beta = {}, alpha = {};  // of b and a, (value_heads)
  // In place of these, rows by key head with its value heads: [q | k | v ... | z ...] and [b ... | a ...].
  Linear qkvz = {}, ba = {};
  Convolution convolution;
  Vector dt = {}, decay = {};  // (value_heads)
  Norm norm;                   // of a head
  Linear o;
};

// Kimi Delta Attention (arXiv:2510.26692): Delta with a decay for every row of a state, and as many key heads as value
// heads. q, k and v each go through a convolution of their own. Every head has a state S (d, dv) and in every token,
// with its b, z and a (d):
//   g = -|decay| softplus(a + dt), or with a floor g = floor sigmoid(|decay| (a + dt))
//   S <- diag(e^g) S;  S <- S + k (sigmoid(b) (v - S^T k))^T;  y = norm(S^T q) * sigmoid(z)
struct KeyedDelta {
  int heads = 0;
  int d = 0;        // of queries and keys
  int dv = 0;       // of values
  float eps = 0;    // q and k are divided by no less
  float floor = 0;  // of g; 0: none
  Linear q = {}, k = {}, v = {};
  Linear qkv = {};  // in place of these
  Linear beta = {};
  Linear a_down = {}, a = {};  // a reads what a_down gives, where that is there
  Linear z_down = {}, z = {};
  Convolution q_convolution, k_convolution, v_convolution;
  Vector dt = {};     // (heads * d)
  Vector decay = {};  // (heads), of whichever sign the file has
  Norm norm;          // of a head
  Linear o;
};

// Mamba (arXiv:2312.00752). u = silu(convolution(x of this struct)); t, k and q are products of u, each normed where
// there is a norm. Every channel has a state S (state) and in every token, with its s = softplus(dt t):
//   S <- e^(decay s) S + k s u;  y = S^T q + skip u;  then y * silu(z x)
struct Mamba {
  int channels = 0;
  int state = 0;
  Linear z = {}, x = {};
  Convolution convolution;
  Linear t = {}, k = {}, q = {};
  Norm t_norm = {}, k_norm = {}, q_norm = {};
  Linear dt = {};     // (channels, rows of t), with a bias
  Vector decay = {};  // (channels, state), transposed
  Vector skip = {};   // (channels)
  Linear o;
};

// Mamba-2 (arXiv:2405.21060). [v | k | q] = silu(convolution(x of this struct)), heads of v, groups of k and q. Every
// head has a state S (state, head_dim) and in every token, with its dt' = softplus(dt x + bias):
//   S <- e^(decay dt') S + k (dt' v)^T;  y = S^T q + skip v;  then norm(y * silu(z x)), where there is a norm
struct Mamba2 {
  int heads = 0;
  int groups = 0;  // divides heads: head h has group h / (heads / groups)
  int head_dim = 0;
  int state = 0;
  Linear z = {}, x = {}, dt = {};
  Convolution convolution;
  Vector bias = {}, decay = {}, skip = {};  // (heads)
  Norm norm = {};
  Linear o = {};

  explicit operator bool() const { return static_cast<bool>(x); }
};

struct NoMixer {};

using kernel::Activation;

// down(act(gate x) * (up x)), or down(act(up x)) without a gate.
struct Dense {
  Activation activation = Activation::kSilu;
  kernel::Xielu xielu = {};  // of kXielu, which has no gate
  Linear gate = {};
  Linear up, down;
};

using kernel::Gating;
using kernel::Routing;

// x goes to some of many feed forwards: the sum of weight_e * (down_e(act(gate_e x) * (up_e x))) over the chosen e, and
// shared(x), times sigmoid(shared_gate x) where there is one. Router and choice: kernel::route.
struct Experts {
  Routing routing = {};
  Linear router;              // (count, dim)
  Norm router_norm = {};      // of x, for the router, which else reads what the experts read
  float router_scale = 1.0f;  // of logits
  Vector choice_bias = {};    // (count): for the choice alone, not for the weights
  Vector weight_scales = {};  // (count): of weights, last
  bool weigh_inputs = false;  // weight_e multiplies what expert e reads, not what it gives
  Activation activation = Activation::kSilu;
  Stack gate = {};  // absent: act(up x)
  Stack up, down;
  Dense shared = {};        // absent without `up`
  Linear shared_gate = {};  // (1, dim)
  // Experts of narrower rows: they read into(x), and what they give together goes through out. Absent without `into`.
  Linear into = {};  // (width, dim)
  Linear out = {};   // (dim, width)
};

// dense_post(dense(feed_norm(x))) + experts_post(experts(experts_norm(x)))
struct DenseAndExperts {
  Dense dense;
  Norm dense_post = {};
  Experts experts;
  Norm experts_norm = {}, experts_post = {};
};

// x += post(out(act(gate x) * e)), e being this layer's part of what the embedding has for every layer.
struct LayerInput {
  Linear gate = {};  // (width, dim)
  Activation activation = Activation::kGeluTanh;
  Linear out = {};  // (dim, width)
  Norm post = {};

  explicit operator bool() const { return static_cast<bool>(gate); }
};

struct NoFeed {};

using Mixer = std::variant<Attention, ShortConv, Delta, KeyedDelta, Mamba, Mamba2, NoMixer>;
using Feed = std::variant<Dense, Experts, DenseAndExperts, NoFeed>;

// (1 - tanh(forget g)) x + tanh(gain g) m with g = down [rms(x) | rms(m)], of x and a message m.
struct MessageGate {
  float eps = 0;                  // of both norms
  Linear down = {};               // (rank, 2 dim)
  Linear forget = {}, gain = {};  // (dim, rank)

  explicit operator bool() const { return static_cast<bool>(down); }
};

inline constexpr int kMostStates = 64;  // of blocks, and x: Residuals

// Attention residuals by blocks of layers, and loops that leave messages (Inkling 2). x is the sum of what the layers
// of a block gave so far. States of blocks stand beside it, which are what x was when their blocks ended:
//   mixture(w) = sum over s of softmax(w rms(s) / sqrt(dim)) rms(s), over the states of blocks and x
// A layer's mixer reads mixture(mixer), its feed forward mixture(feed). Where a block ends, x becomes one more state
// behind the mixer has read it, and begins anew with what the mixer gives.
//
// Each pass but the first over the layers of a loop begins with the x and the states that the first one began with.
// What the pass before made of them leaves messages, mixtures of its states and x alone: what a mixer's queries, keys
// and values and the feed forward read goes through a gate with the message for it.
struct Residuals {
  int count = 0;                  // states of blocks before the layer
  Vector mixer = {};              // (1, dim), or (3, dim): of queries, keys and values. Absent: x itself
  Norm k_norm = {}, v_norm = {};  // of what keys and values are made of; absent: LayerSpec::norm
  bool ends = false;              // a block
  Vector feed = {};               // (dim)
  Vector last = {};               // (dim): x = mixture(last), behind the layer
  // Of a loop.
  bool again = false;  // the first layer of a further pass; `count` states are those that the first one began with
  bool hears = false;  // of a further pass
  int kept = 0;        // states that a pass leaves, besides x
  int place = 0;       // of the layer in the loop
  Vector messages = {}, kv_messages = {};  // (2 layers, dim): of queries and the feed forward; of keys and values
  MessageGate q_gate = {}, k_gate = {}, v_gate = {}, feed_gate = {};

  explicit operator bool() const { return static_cast<bool>(feed); }
};

// Several residual streams, which are all x at first (Qwen 3.8 Flash-Next). What a mixer or a feed forward reads, in
// place of norm(x), is made of all of them, each normed by itself; what it gives is added to each by a share of its
// own:
//   s = norm(streams)   g = sigmoid(up silu(down s / count))   reads = mean over streams of g * s
//   share of stream c = 2 sigmoid(inject_c s / count)
// Behind the last layer x is what a mixer without shares reads.
struct StreamMixer {
  int count = 0;
  Norm norm = {};      // of each stream, with weights of its own
  Linear down = {};    // (rank, count * dim)
  Linear up = {};      // (count * dim, rank)
  Linear inject = {};  // (count, count * dim); absent behind the last layer

  explicit operator bool() const { return count > 0; }
};

// What a layer's streams begin with besides: rows of the last tokens' ids (Qwen 3.8 Flash-Next, "per-layer
// embedding"). Of every n from 2 on and every one of its heads h
//   row = offset_h + (id_t multiplier_0 xor ... xor id_(t - n + 1) multiplier_(n - 1)) mod size_h
// and e is all these rows of the table behind each other. Behind a token `end`, and before the text, ids are `end`.
//   v_c = sigmoid(root(key_norm(key e)_c . query_norm(streams)_c / sqrt(dim))) (value e), root(x) = sign(x) sqrt|x|
//   streams += v + silu(convolution(conv_norm(v)))
struct Ngrams {
  int longest = 0;  // n
  int heads = 0;    // of every n
  std::int32_t end = 0;
  std::vector<std::int64_t> multipliers = {}, offsets = {}, sizes = {};
  Table table = {};
  Linear key = {};                                      // (count * dim, width of e)
  Linear value = {};                                    // (dim, width of e)
  Norm key_norm = {}, query_norm = {}, conv_norm = {};  // of each stream, with weights of its own
  Smoothing convolution = {};
  Smoothing ids = {};  // (longest - 1 channels): of ids as floats makes those of the tokens before

  explicit operator bool() const { return longest > 0; }
  std::int64_t width() const { return (longest - 1) * heads * table.columns; }  // of e
};

// What a layer begins with of the second stream, y: it adds that, and with kSwapped leaves its own x in its place.
enum class Second { kNone, kAdded, kSwapped };

struct LayerSpec {
  Norm norm = {};
  Mixer mixer;
  Mamba2 beside = {};  // reads what the mixer reads; the sum of both goes on
  Norm post_mixer = {};
  Norm feed_norm = {};
  Feed feed;
  Norm post_feed = {};
  LayerInput input = {};  // behind the feed forward
  float residual_scale = 1.0f;
  bool parallel = false;
  Vector output_scale = {};   // one number
  bool norm_of_sums = false;  // the post norms are of x and what is added to it; REQUIRES: not parallel
  Norm post_sum = {};         // REQUIRES: norm_of_sums
  Second second = Second::kNone;
  Norm end_norm = {};  // of x, last
  // An earlier layer, which has the same tensors and is no such pass itself. This one is its next pass over a token,
  // with keys and values of its own; its matrices are in memory and in files of packed weights once (Bundle::same_as).
  int weights_of = -1;
  Residuals residuals = {};  // REQUIRES: attention, sequential, experts, no norms behind these, no `input`
  Smoothing mixer_smoothing = {}, feed_smoothing = {};  // of what they give. REQUIRES: residuals
  // In all layers of a model or in none. REQUIRES: sequential, experts, no norms and nothing behind them.
  StreamMixer mixer_streams = {}, feed_streams = {};
  Ngrams ngrams = {};  // REQUIRES: streams
};

// Rows for every layer, of each token: (table[id] * scale + norm(projection x / sqrt(dim))) / sqrt(2), where x is the
// embedding's row and every `width` elements are normed by themselves; norm(projection x / sqrt(dim)) without a table.
struct LayerInputs {
  Table tokens = {};       // (vocab, layers * width)
  Linear projection = {};  // (layers * width, dim)
  Norm norm = {};
  float scale = 1.0f;

  explicit operator bool() const { return static_cast<bool>(projection); }
};

// Of a block that predicts further tokens (model/mtp_head.hpp): a row is both([norm(x) | state_norm(s)]), where x is
// the embedding's row and s is given with the token.
struct Join {
  Norm norm = {}, state_norm = {};
  Linear both = {};  // (dim, 2 dim)

  explicit operator bool() const { return static_cast<bool>(both); }
};

struct Embedding {
  Table tokens;  // (vocab, dim)
  float scale = 1.0f;
  Table positions = {};  // (positions, dim): learned; there are no others then
  Table types = {};      // (1 or 2, dim): one row for a text, one for a second text behind it
  Norm norm = {};
  LayerInputs layers = {};
  Join join = {};
  Vector second = {};  // (dim): where the second stream begins; absent: no layer has one
  // Of a model that drafts for another one (model/assistant.hpp): rows are given(s), where s comes with the token, and
  // the tokens' own are not read.
  Linear given = {};
};

// Tokens in groups of one size. Logits are computed of the groups whose centroids have the largest products with what
// the output matrix reads; all others get the least of these less 1.
struct TokenGroups {
  Linear centroids = {};  // (groups, dim)
  Vector order = {};      // (vocab): token ids, group behind group
  int used = 0;           // groups

  explicit operator bool() const { return static_cast<bool>(centroids); }
};

struct Head {
  StreamMixer streams = {};  // of models with streams: makes what `norm` reads
  Norm norm = {};
  Linear output = {};  // (vocab, dim); tied: the tensor of the embedding. Absent: the model writes no texts
  float scale = 1.0f;
  float soft_cap = 0;  // 0: none
  TokenGroups groups = {};
  Linear next = {};  // (n, dim): of a model that drafts, what of its state the next draft token is made of
};

// Scores of a text: output(norm(act(dense x))), or output(x). Of encoders x is the first token's state or the mean of
// all states, or scores are the mean of those of all tokens (kNone); of others the last token's state.
struct Rank {
  Linear dense = {};                                        // (dim, dim)
  enum class Act { kTanh, kGelu, kRelu } act = Act::kTanh;  // GELU by the error function
  Norm norm = {};
  Linear output = {};  // (labels, dim)
  Pooling pooling = Pooling::kCls;

  explicit operator bool() const { return static_cast<bool>(output); }
};

// What vectors of texts go through: act(linear x).
struct Projection {
  Linear linear;
  bool tanh = false;
};

struct ModelSpec {
  std::string arch;
  int dim = 0;               // D, residual width
  std::int64_t vocab = 0;    // tokens
  std::int64_t context = 0;  // what the model was trained for
  Embedding embedding;
  std::vector<Rope> ropes;
  std::vector<LayerSpec> layers;
  Head head;
  bool causal = true;  // false: every token sees all of its text. Such a model has no cache and writes no texts
  Pooling pooling = Pooling::kNone;  // what the file says of vectors of texts
  Rank rank;
  std::vector<Projection> projections = {};  // of vectors of texts, one behind the other
  bool prefix = false;  // trained with first tokens that see each other both ways; a request says how many
  int deep = 0;         // layers, the first ones, to whose answers pictures add rows (deepstack)
  int orders = 0;  // of columns, among matrices that read the same: the file's (model/orders.hpp). Changes no result
  std::shared_ptr<const Adapters> adapters;  // what Linear::addend is of; null: there are none
  // Whether matrices are multiplied in bf16 (kernel/rounded_products.hpp): said by who loads the model, not by its
  // file.
  bool in_bf16 = false;

  int layer_count() const { return static_cast<int>(layers.size()); }
  // Elements of a text's vector.
  std::int64_t vector_width() const { return projections.empty() ? dim : projections.back().linear.rows; }
  // Tokens that a sequence can have at most; 0: no bound.
  std::int64_t most_positions() const {
    return embedding.positions || ropes.empty() ? embedding.positions.rows : ropes[0].most;
  }
  bool has_places() const { return !ropes.empty() && !ropes[0].axes.empty(); }  // positions of three parts
};

}  // namespace kvasir::model
