// What a server asks of an engine that serves many requests at once: submit, listen, cancel. The scheduler implements
// it; servers and tests know nothing else of the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpu/product_device.hpp"
#include "kv/options.hpp"
#include "run/draft_stats.hpp"
#include "run/model_sampling.hpp"
#include "run/request.hpp"
#include "text/tokenizer.hpp"
#include "weights/stream_stats.hpp"

namespace kvasir::run {

// Where a request's tokens came from. Counted by the plan that ran, not estimated.
struct Span {
  std::int64_t begin = 0;  // tokens [begin, end) of the prompt
  std::int64_t end = 0;
  std::string source;  // "computed", or the tier that held them: "live" (pages of a running request), "ram", "lmdb" ...
};

// Pages (kv::kPageTokens tokens each) of what a request had in the cache when it ended: prompt and answer.
struct PageCounts {
  std::int64_t reused = 0;    // whole pages whose tokens were not computed
  std::int64_t computed = 0;  // the other whole pages
  std::int64_t sealed = 0;    // of both: compressed; the newest are raw
  PageCounts& operator+=(const PageCounts& more) {
    reused += more.reused, computed += more.computed, sealed += more.sealed;
    return *this;
  }
};

// What was made of text that is known at another place (run/blend.hpp).
struct BlendReceipt {
  bool asked = false;
  std::string refused;  // why nothing was relocated; empty when something was
  std::string strategy;
  std::int64_t relocated_tokens = 0;  // read as they were computed elsewhere
  std::int64_t repaired_tokens = 0;   // known, but computed again
  std::int64_t lost_tokens = 0;       // known, but computed because their pages were evicted or did not come in time
  double deviation = 0;               // mean of what moved, see run/blend.hpp; 0: not compared
  double seconds = 0;                 // that finding, loading and comparing took
  double saved_seconds = 0;           // estimate: computing what was not computed, less `seconds`
};

// Rows of a prompt that are no tokens, of pictures for example.
struct RowReceipt {
  std::int64_t count = 0;   // rows
  std::int64_t reused = 0;  // of them: the cache had what the model computed of them
  std::int64_t waited = 0;  // runs of rows that were not computed when the prompt began
  double wait_seconds = 0;  // in which the prompt could do nothing but wait for them
  RowReceipt& operator+=(const RowReceipt& more) {
    count += more.count, reused += more.reused, waited += more.waited, wait_seconds += more.wait_seconds;
    return *this;
  }
};

struct Receipt {
  // In order; together the whole prompt. Rows of a "relocated" span that were repaired are in BlendReceipt.
  std::vector<Span> spans;
  std::int64_t reused_tokens = 0;  // exactly; what was relocated is not among them
  std::uint64_t loaded_bytes = 0;
  double load_seconds = 0;
  double queue_seconds = 0;      // from submission to the first step that worked on it
  double prefill_seconds = 0;    // from then to the first token
  std::string miss;              // why reuse ended where it did: one sentence; empty when nothing could be missed
  std::int64_t miss_token = -1;  // the token of the prompt from which on nothing known is equal; -1: none to name
  // Of recurrent layers, when the request ended: states at the last page boundary and rows behind it, which the tail of
  // its tokens has. 0: the model has no such layers.
  std::uint64_t state_bytes = 0;
  std::string k_codec, v_codec;  // of the sealed pages, by layer where layers differ
  std::string pin_error;         // why the prompt is not pinned although that was asked for
  PageCounts pages;
  std::string select;            // what chose the blocks that the answer's tokens read; empty: they read everything
  kv::SelectionStats selection;  // what it did
  BlendReceipt blend;
  RowReceipt rows;
  // Tokens of a prompt that were computed, repaired ones included.
  std::int64_t computed(std::int64_t prompt) const { return prompt - reused_tokens - blend.relocated_tokens; }
};

// What a request says of BlendOptions; the rest is as the server has it.
struct BlendRequest {
  std::string reuse;  // "exact" or "blend"; "off" is ServiceRequest::reuse
  std::string strategy;
  std::optional<float> ratio;
  std::optional<std::int32_t> first_rows, check_layer, second_layer;
};

// A request and what a service needs besides.
struct ServiceRequest {
  Request request;
  std::string tenant;  // caches of different tenants never meet; "": the tenant without a key
  bool reuse = true;   // false: neither look up nor offer pages
  BlendRequest blend;
  bool pin = false;            // keep the prompt's pages from eviction (/v1/warm) ...
  double pin_seconds = 86400;  // ... for so long
  // Ascending numbers of prompt tokens after which other prompts may part from this one: ends of messages.
  std::vector<std::int64_t> checkpoints;
  std::vector<std::int64_t> partings;  // more of them, whatever `checkpoints` says
  // Names of the drafters that may draft for this request, none for none; without a list all that the service
  // has.
  std::optional<std::vector<std::string>> drafters;
  double timeout = 0;  // seconds in the queue before the request fails with Code::kBusy; 0: none
};

// One generated token, or with token.id -1 the text that was still held back at the end. `text` is what this token
// released: it can be empty (a character or a possible stop string is not complete yet), and the text of several tokens
// can arrive with the last of them.
struct Piece {
  const TokenRecord& token;
  std::string_view text;
};

// Why a request ended without the answer that was asked for.
enum class Failure {
  kNone,
  kQueueTimeout,  // it waited longer than ServiceRequest::timeout
  kNoRoom,        // the KV cache cannot hold it even alone
  kWeights,       // weights could not be read from the disk: the same may succeed later
  kRows,          // rows of its prompt could not be computed, for lack of memory: the same may succeed later
  kEngine,        // the engine itself failed: whatever is asked next fails too
};
std::string_view name(Failure failure);  // "none", "queue_timeout", "no_room", "weights", "rows", "engine"

struct Outcome {
  Finish finish = Finish::kLength;
  Failure failure = Failure::kNone;
  std::string error;             // what to tell the client of the failure; empty without one
  std::int32_t stopped_by = -1;  // with Finish::kStop: the stop string, by its place in the request
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t seed = 0;
  double prompt_seconds = 0;      // from the first step that worked on it to the logits behind the prompt
  double decode_seconds = 0;      // from the first token to the last
  std::int64_t decode_steps = 0;  // tokens behind the first one: with drafts several come of one step
  // Weights and cache that those steps read, counted; the weights of a step are shared evenly between its answers.
  double decode_bytes = 0;
  std::int64_t shifts = 0;          // times that the context was full and old tokens were left out ...
  std::int64_t shifted_tokens = 0;  // ... and how many of them
  DraftStats draft;                 // without drafts it has no sources
  // From its start to its end, of all requests that ran; without streaming no blocks.
  weights::StreamStats weights;
  kv::DeviceStats device;             // without one it has no name
  cpu::ProductDeviceStats products;   // likewise, of what multiplies prompts
  std::int64_t thinking_tokens = -1;  // after which the budget ended the thinking; -1: it did not
  Receipt receipt;
};

// Called on the engine's thread, in order, never concurrently for one request: hand over and return. Pieces are valid
// during the call. `done` is the last call and comes exactly once, for cancelled requests too.
class Listener {
 public:
  // Of the rows that the prompt waits for.
  struct RowProgress {
    std::int64_t done = 0, all = 0;  // parts of the run that is being computed
    std::int64_t waiting = 0;        // runs that are not there yet, this one included
    // Tokens of the prompt: all, those that are there, and of these what was not computed.
    std::int64_t total = 0, cached = 0, reused = 0;
  };
  virtual ~Listener() = default;
  virtual void started() {}  // the request left the queue
  // Tokens of the prompt, after every step; the first `reused` of them were not computed.
  virtual void prefill(std::int64_t /*done*/, std::int64_t /*total*/, std::int64_t /*reused*/) {}
  virtual void rows(const RowProgress& /*progress*/) {}
  // With Request::prompt_logprobs: the prompt's next tokens. The log-probability of the first one of all is not a
  // number.
  virtual void scored(std::span<const TokenRecord> /*tokens*/) {}
  virtual void pieces(std::span<const Piece> pieces) = 0;
  // With Request::pooling: the prompt's vector, or its scores.
  virtual void pooled(std::span<const float> /*vector*/) {}
  virtual void done(const Outcome& outcome) = 0;
};

struct AdapterCard {
  std::string name;  // in Request::lora, beside its number
  float scale = 1;   // for requests that say nothing
};

struct ModelCard {
  std::string name;  // what /v1/models calls it
  std::string architecture;
  std::int64_t context = 0;          // tokens of one sequence at most
  std::int64_t trained_context = 0;  // that the model was made for; 0: the file does not say
  std::int32_t vocabulary = 0;
  std::vector<std::pair<std::string, std::string>> named_templates;  // further ones: "tool_use" for chats with tools
  std::string chat_template;                                         // Jinja text of the file; empty when it has none
  std::string response_template;                                     // JSON that says how answers are read; or empty
  std::string k_codec, v_codec;
  std::string kv;           // how keys and values are stored, in a word: "balanced"
  double kv_token = 0;      // bytes of a further token when it is sealed: layers that keep their pages ...
  double kv_token_f16 = 0;  // ... and what it would take in 16-bit floats
  std::uint64_t parameters = 0, bytes = 0;         // of all tensors
  std::string quantization;                        // the weight type that most of these bytes have
  std::int32_t running = 0;                        // requests that are computed together at most
  bool generates = true;                           // false: it reads texts and writes none
  std::int32_t width = 0;                          // of the vectors that it makes of texts
  model::Pooling pooling = model::Pooling::kNone;  // how it makes them when a request does not say
  std::int32_t labels = 0;                         // scores of its head that ranks; 0: it has none
  std::string rank_template;    // {query} and {document} in the words of a model that ranks; empty: a pair
  bool two_separators = false;  // between the texts of a pair, not one
  ModelSampling sampling;       // what its file recommends
  std::vector<AdapterCard> adapters;
};

struct TierStats {
  std::string tier;  // no two have the same
  std::uint64_t bytes = 0, budget = 0, records = 0;
  std::uint64_t hits = 0, misses = 0, inserts = 0, evictions = 0;
  std::uint64_t damaged = 0, foreign = 0;  // of the misses: not what was stored; of another fingerprint or format
  std::uint64_t errors = 0;                // calls that failed
  std::uint64_t dropped = 0;               // records lost to a full queue or a call that failed
  std::uint64_t refused = 0;               // records that it had no room for
  std::uint64_t queued = 0;                // records that wait to be written; until then nobody finds them
};

// Pages of the cache's pool at one moment.
struct PoolStats {
  std::int64_t pages = 0, free = 0;
  std::int64_t shared = 0;  // of those in use: by more than one sequence
  std::int64_t used() const { return pages - free; }
};

// What steps did since the start. A step may compute prompts and answers at once: its time counts for both.
struct StepStats {
  std::uint64_t steps = 0;          // in which answers grew
  std::uint64_t answers = 0;        // how many grew, added up over these steps
  std::uint64_t most_answers = 0;   // in one step
  std::uint64_t answer_tokens = 0;  // that these steps gave: all of an answer but its first token
  std::uint64_t prompt_tokens = 0;  // computed
  double answer_seconds = 0, prompt_seconds = 0;
  // Tokens per second while there was such work, and answers per step; 0 without any.
  double answer_rate() const { return answer_seconds > 0 ? static_cast<double>(answer_tokens) / answer_seconds : 0; }
  double prompt_rate() const { return prompt_seconds > 0 ? static_cast<double>(prompt_tokens) / prompt_seconds : 0; }
  double batch() const { return steps > 0 ? static_cast<double>(answers) / static_cast<double>(steps) : 0; }
};

struct ServiceStats {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::uint64_t kv_bytes = 0, kv_budget = 0;                                 // of the page pool
  std::uint64_t prompt_tokens = 0, reused_tokens = 0, generated_tokens = 0;  // since the start
  std::uint64_t relocated_tokens = 0, repaired_tokens = 0;                   // see BlendReceipt
  std::uint64_t requests = 0, rejected = 0, cancelled = 0, failed = 0;
  std::uint64_t stopped = 0, cut = 0;  // answers that ended by themselves; at their length or the context's end
  std::uint64_t preempted = 0;         // times that a request gave its pages back and was computed again
  PoolStats pool;
  StepStats work;
  DraftTotals drafts;
  std::vector<TierStats> tiers;
  PageCounts pages;  // of all requests that ended
  RowReceipt rows;   // of these, too
  kv::SelectionStats::Layer selection;
  bool streams = false;  // weights are read while they are used
  weights::StreamStats weights;
  kv::DiskStats disk;      // of pages on a disk
  kv::DeviceStats device;  // without one it has no name
  cpu::ProductDeviceStats products;
  // Of the tokens of prompts the share that was not computed, exactly or at another place; 0 without any.
  double hit_share() const {
    return prompt_tokens > 0
               ? static_cast<double>(reused_tokens + relocated_tokens) / static_cast<double>(prompt_tokens)
               : 0;
  }
};

using RequestId = std::uint64_t;

// Thread-safe.
class Service {
 public:
  virtual ~Service() = default;

  virtual const ModelCard& card() const = 0;
  virtual const text::Tokenizer* tokenizer() const = 0;  // nullptr: ids only

  // Queues a request. Throws Error: kBadInput for what check_request refuses, kBusy when the queue is full or the
  // service is draining. The listener is kept until `done` returned.
  virtual RequestId submit(ServiceRequest request, std::shared_ptr<Listener> listener) = 0;
  // Ends a request at the next step; `done` follows with Finish::kCancelled. Unknown and finished ids are fine.
  virtual void cancel(RequestId id) = 0;
  // Ends the pin of a prompt that such a request with `pin` computed. False: there is none.
  virtual bool unpin(const ServiceRequest& asked) = 0;
  // Refuses new requests and returns when the running ones are done or `seconds` have passed; true: all were done.
  virtual bool drain(double seconds) = 0;

  virtual ServiceStats stats() const = 0;
};

}  // namespace kvasir::run
