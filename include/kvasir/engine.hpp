// A model that answers, and texts that grow with it, inside a program.
//
//   kvasir::Engine engine("model.gguf", {{"threads", 2}, {"cache_dir", "cache"}});
//   kvasir::Session story(engine);
//   story.append("Once upon a time");
//   kvasir::Reply reply = story.generate({{"n_predict", 64}}, [](std::string_view text) { std::cout << text; return true; });
//
// What was computed once is not computed again: the engine keeps compressed pages of its KV cache by the tokens that
// they hold, in memory, and with "cache_dir" on disk. A request begins behind the longest known beginning of its
// tokens, and its answer has the same bits as without.
//
// What a caller can get wrong throws std::invalid_argument with a text that names the option, file or argument and what
// was expected. Too little memory, files that cannot be read and what this build lacks throw std::runtime_error. An
// engine may be used by any number of threads; one session by one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvasir/options.hpp"

namespace kvasir {

// Where a request's tokens came from. Counted by what ran, not estimated.
struct Receipt {
  struct Span {
    std::int64_t begin = 0, end = 0;  // tokens [begin, end) of the prompt
    std::string source;               // "computed", "live" (a running request), "ram", "lmdb", ...
  };
  std::vector<Span> spans;  // in order; together the whole prompt
  std::int64_t reused_tokens = 0;
  std::int64_t computed_tokens = 0;  // of the prompt
  std::uint64_t loaded_bytes = 0;    // of what was reused
  double load_seconds = 0;
  std::string miss;  // why no more was reused, one sentence; empty when nothing could be
  // All of it and more, such as what a selector did: an object in the form of the server's `kvasir` (docs/http.md).
  std::string json;
};

struct TokenProbability {
  std::int32_t id = 0;
  float logprob = 0;                  // natural logarithm, of the model's own distribution
  std::vector<TokenProbability> top;  // the most probable ones, as many as "logprobs" says
};

struct Reply {
  std::string text;               // UTF-8
  std::vector<std::int32_t> ids;  // of the answer
  std::string finish;             // "end", "stop", "length", "context", "cancelled", "nothing to choose"
  std::int64_t prompt_tokens = 0;
  std::int64_t seed = 0;           // that would give this answer again
  double first_token_seconds = 0;  // from the call to the first token
  double prompt_seconds = 0;       // in which the prompt was computed or restored
  double generate_seconds = 0;     // from the first token to the last
  Receipt receipt;
  std::vector<TokenProbability> logprobs;  // one per token of the answer, with the option "logprobs"
};

// Called with the answer's text as it comes, in a thread of the engine; false ends the answer. What it throws ends the
// answer too and is thrown again by the call that generates.
using OnText = std::function<bool(std::string_view)>;
// Called while the model is loaded, with bytes.
using OnProgress = std::function<void(std::int64_t done, std::int64_t total)>;

struct ModelInfo {
  std::string name, architecture;
  std::int64_t context = 0;          // tokens of one request at most, prompt and answer
  std::int64_t trained_context = 0;  // 0: the file does not say
  std::int32_t vocabulary = 0;
  std::int64_t width = 0;  // numbers of a row
  std::uint64_t parameters = 0;
  std::uint64_t weight_bytes = 0;
  std::string k_codec, v_codec;  // of sealed pages, by layer where layers differ
  double kv_bytes_per_token = 0;
  bool chats = false;  // it has a chat template
};

// Since the engine was made.
struct EngineStats {
  std::uint64_t requests = 0;
  std::uint64_t prompt_tokens = 0, reused_tokens = 0, generated_tokens = 0;
  std::uint64_t kv_bytes = 0, kv_budget = 0;  // of pages of running requests
  struct Tier {
    std::string name;
    std::uint64_t bytes = 0, records = 0, hits = 0, misses = 0, errors = 0;
  };
  std::vector<Tier> tiers;  // where pages are kept beyond a request
  // Of answers with "draft" that ended.
  struct Drafts {
    std::uint64_t steps = 0, tokens = 0;      // that gave tokens behind an answer's first one, and how many they gave
    std::uint64_t drafted = 0, accepted = 0;  // draft tokens that were computed; of them right
    std::vector<std::uint64_t> histogram;     // steps with draft tokens, by how many of them were right: 0, 1, ...
    double draft_seconds = 0, verify_seconds = 0, rollback_seconds = 0;
  } drafts;
  double hit_share = 0;  // of the tokens of prompts: not computed
  // Tokens per second while prompts were computed and while answers grew (an answer's first token is its prompt's), and
  // answers that grew in one step: the mean and the most. 0 without any.
  double prompt_tokens_per_second = 0, generated_tokens_per_second = 0, batch_mean = 0;
  std::uint64_t batch_most = 0;
  // Pages of the cache at this moment; shared: of those in use, by more than one sequence.
  std::int64_t pages = 0, pages_free = 0, pages_shared = 0;
  // JSON object as /v1/stats has them: "hit_share", "rates", "batch", "pool", "drafts", "selection".
  std::string json;
};

// Rows of floats that stand in a prompt in place of tokens, such as embeddings of another model: (n, ModelInfo::width)
// as they enter the first layer, behind the embedding's factor, from element `begin` of the prompt on.
struct PromptRows {
  std::int64_t begin = 0;
  std::vector<float> values;
};

class Engine {
 public:
  // model: a GGUF file, or a folder of Hugging Face. Options: of the engine, the scheduler and the cache, as of
  // `kvasir serve` ("threads", "ctx", "kv", "running", "ram_cache", "cache_dir", "tier" ...). Defaults are theirs, but
  // one request runs at a time ("running": 1) and 256 MiB of pages are kept in memory ("ram_cache"). With "draft" (may
  // be given more than once) tokens are drafted ahead; "reuse" and "blend_..." are what requests that say nothing get.
  // "mmproj" is the file of the model's encoder of pictures.
  explicit Engine(const std::string& model, const Options& options = {}, const OnProgress& progress = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  const ModelInfo& info() const;
  EngineStats stats() const;

  // Options of a request: those of sampling ("temperature", "top_k", "top_p", "min_p", "seed", ...) and
  //   n_predict    most tokens of the answer; -1 (default): until its end or that of the context
  //   stop         a text that ends the answer; may be given more than once
  //   logprobs     true, or a number of alternatives: Reply::logprobs
  //   logit_bias   "ID=NUMBER"; may be given more than once
  //   json_schema  the text of a JSON Schema that the answer conforms to
  //   ignore_eos   true: go on when the model ends its text
  //   prefix_tokens  so many of the prompt's first tokens see each other both ways, in models that were trained so
  //                (HRM-Text); -1: all
  //   add_bos      false: without the model's BOS token in front
  //   special      false: special tokens written in the prompt stay plain text
  //   reuse        "off" or false: neither look for what is known nor keep what is computed; "exact"; "blend": known
  //                text at any place, an approximation, for which the engine needs "reuse": "blend" or three requests
  //                "running"; true (default): as the engine has it. With it the engine's "blend_..."
  //   select       which blocks of the context the answer's tokens read, as the engine's option
  //   lora         which of the engine's adapters add to it: "NAME=0.5,OTHER" or "none"; default: as the engine has them
  //   draft        which of the engine's drafters draft for it: true (all, default), false, or a name; more than once
  //   tenant       whose cache it is: tenants never meet
  Reply generate(std::string_view prompt, const Options& options = {}, const OnText& on_text = {});
  Reply generate(std::span<const std::int32_t> ids, const Options& options = {}, const OnText& on_text = {});
  // The same with rows, ascending, where `ids` has -1. They are reused as tokens are, by their content, also after a
  // restart; a run of fewer than 8 rows only ends what is reused. Drafters do not draft token for such a prompt, and
  // nothing of it is blended.
  Reply generate(std::span<const std::int32_t> ids, std::span<const PromptRows> rows, const Options& options = {},
                 const OnText& on_text = {});
  // The model's rows of tokens, (ids, width), in the form of PromptRows.
  std::vector<float> rows_of(std::span<const std::int32_t> ids) const;
  // The answers to many prompts, in their order; "running" of them are computed together. Each has the bits that it
  // would have alone. What one throws is thrown when all have ended.
  std::vector<Reply> generate_batch(std::span<const std::string> prompts, const Options& options = {});
  // With pictures, for which the engine needs "mmproj": the bytes of JPEG, PNG or WebP files, each where the prompt
  // says <image>, or all in front of it where it says that nowhere.
  Reply generate_images(std::string_view prompt, std::span<const std::string> images, const Options& options = {},
                        const OnText& on_text = {});
  // messages: a JSON array as /v1/chat/completions takes it, [{"role": "user", "content": "Hi"}], put into the model's
  // own chat template. With `tools` (a JSON array) these, too. The answer is as the model wrote it, with the marks of
  // reasoning and of tool calls. Pictures are parts of a content, for which the engine needs "mmproj":
  // {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}; so are sounds, where the model hears:
  // {"type": "input_audio", "input_audio": {"data": "base64", "format": "wav"}}.
  Reply chat(std::string_view messages, const Options& options = {}, const OnText& on_text = {},
             std::string_view tools = {});
  // The prompt that chat would ask.
  std::string chat_prompt(std::string_view messages, std::string_view tools = {}) const;
  // Computes a prompt and keeps it; the number of its tokens.
  std::int64_t warm(std::string_view prompt, const Options& options = {});

  // The vectors of texts, as of `kvasir embed`, one each. Options: pooling ("mean", "cls", "last"; default: as the
  // model's file says), dimensions (only the first so many; 0: all), raw (true: not divided by their length).
  std::vector<std::vector<float>> embed(std::span<const std::string> texts, const Options& options = {});

  // How well documents answer a question, one number each, as "relevance_score" of /v1/rerank: for models that write
  // and have a head that ranks (cls.output.weight). Options: raw (true: the head's first score itself).
  std::vector<double> rerank(const std::string& query, std::span<const std::string> documents,
                             const Options& options = {});

  std::vector<std::int32_t> tokenize(std::string_view text, bool add_bos = false, bool special = true) const;
  std::string detokenize(std::span<const std::int32_t> ids) const;

  // Writes everything that is kept to where it lasts ("cache_dir", "tier"). Throws std::runtime_error that says what
  // could not be. The destructor does the same, silently.
  void flush();
  // Forgets everything that is kept, of every tenant: in "cache_dir" and "tier" also what other engines and models keep
  // there. Throws std::runtime_error that says what could not be.
  void reset_cache();

  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// A text that grows: tokens that were appended or generated. It is only these ids; the pages behind them are the
// engine's. So copies are cheap, and a copy is a fork: both go on from the same pages. What was cut off may be appended
// again and is found again. The engine must outlive it.
class Session {
 public:
  explicit Session(Engine& engine, std::string tenant = {});

  // Text is encoded on its own: BOS in front of the first, where the model wants one. Special tokens are read as such.
  void append(std::string_view text);
  void append(std::span<const std::int32_t> ids);
  // Goes on from what is there; the answer becomes part of it. Options as of Engine::generate. Throws
  // std::invalid_argument for an empty session.
  Reply generate(const Options& options = {}, const OnText& on_text = {});

  std::span<const std::int32_t> ids() const { return ids_; }
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  std::string text() const;
  Session fork() const { return *this; }
  void truncate(std::int64_t size);  // keeps the first tokens; throws std::invalid_argument for more than there are

  // The ids, in a small file, written whole or not at all. The pages are where the engine keeps them: an engine with
  // the same "cache_dir" goes on at once, another one computes them again. Loading throws std::invalid_argument for a
  // file that is none, is damaged, or was written for a model with another vocabulary.
  void save(const std::string& path) const;
  static Session load(Engine& engine, const std::string& path);

 private:
  Engine* engine_;
  std::string tenant_;
  std::vector<std::int32_t> ids_;
};

}  // namespace kvasir
