#include "lab/eval/subject.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "base/host.hpp"
#include "kv/share_policy.hpp"
#include "kv/spec.hpp"
#include "model/hparams.hpp"
#include "run/auto_kv.hpp"
#include "run/calibration.hpp"
#include "run/engine.hpp"
#include "select/spec.hpp"

namespace kvasir::lab::eval {

const OptionTable<SubjectOptions>& subject_table() {
  using O = SubjectOptions;
  static const OptionTable<O> table{
      "model and cache",
      {{"model",
        &O::model,
        {.help = "GGUF file, or a folder as Hugging Face publishes models",
         .letter = 'm',
         .placeholder = "FILE",
         .required = true}},
       {"kv",
        &O::kv,
        {.help = "what to compare with f32 keys and values: presets, codecs, KEYS/VALUES or auto, separated by commas; "
                 "NAME@LAYERS=NAME+LAYERS=NAME has exceptions by layer",
         .placeholder = "LIST",
         .required = true}},
       {"kv_noise",
        &O::kv_noise,
        {.help = "with auto: most noise that stored keys may put on a score, as standard deviation",
         .unit = "nats",
         .low = 1e-6,
         .high = 100}},
       {"ctx", &O::ctx, {.help = "length of the context", .unit = "tokens", .low = 8, .high = 1 << 24}},
       {"window", &O::window, {.help = "newest tokens kept raw", .unit = "tokens", .low = 0, .high = 1 << 24}},
       {"residual",
        &O::residual,
        {.help = "in place of --window: newest tokens kept raw, the one that is computed included, to the token "
                 "(residual_length "
                 "of KIVI and transformers); up to 127 more are raw until their page is whole. -1: what --window says",
         .unit = "tokens",
         .low = -1,
         .high = 1 << 24}},
       {"sinks", &O::sinks, {.help = "first tokens kept raw", .unit = "tokens", .low = 0, .high = 128}},
       {"threads", &O::threads, {.help = "0 is one per core", .letter = 't', .low = 0, .high = 512}},
       {"weights_memory",
        &O::weights_memory,
        {.help = "most memory for weights, such as 2GiB; see `kvasir run --help`", .placeholder = "SIZE"}},
       {"weights_mode", &O::weights_mode, {.help = "which layers stay in memory", .placeholder = "MODE"}},
       {"weights_file", &O::weights_file, {.help = "the packed file", .placeholder = "FILE"}},
       {"exact", &O::exact, {.help = "weights as dequantised floats"}},
       {"arithmetic",
        &O::arithmetic,
        {.help = "what matrices are multiplied in; see `kvasir run --help`",
         .choices = {"int8", "bf16", "exact"},
         .placeholder = "KIND"}},
       {"against_exact",
        &O::against_exact,
        {.help = "compare with f32 keys and values that weights as dequantised floats made, which are loaded besides: "
                 "what --arithmetic costs, with --kv f32 nothing else"}}}};
  return table;
}

std::vector<std::string> split_kv(const std::string& list) {
  const char separator = list.find(';') != std::string::npos ? ';' : ',';
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(separator, begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    if (name.empty()) throw Error(Code::kBadInput, "is '" + list + "', expected names separated by commas", "--kv");
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(Code::kBadInput, "names '" + name + "' twice", "--kv");
    names.push_back(name);
    begin = end + 1;
  }
  return names;
}

namespace {

KvCost cost_of(const kv::CacheShape& shape, const kv::CacheOptions& options, int threads) {
  const kv::MemoryPlan plan = kv::plan_memory(shape, options, threads);
  kv::CacheOptions f16 = options;
  f16.k_codec = f16.v_codec = "f16";
  f16.layers.clear();
  KvCost c;
  c.bits_k = plan.k_bits;
  c.bits_v = plan.v_bits;
  c.bytes_per_token = plan.bytes_per_token;
  c.f16_bytes_per_token = kv::plan_memory(shape, f16, threads).bytes_per_token;
  c.held_bytes_per_token = static_cast<double>(plan.sealed_bytes + plan.local_bytes + plan.raw_bytes + plan.sink_bytes +
                                               plan.recurrent_bytes + plan.state_bytes) /
                           static_cast<double>(plan.tokens);
  return c;
}

}  // namespace

Subject::Subject(const SubjectOptions& given, const Needs& needs) : options_(given) {
  options_.exact = given.exact || given.arithmetic == "exact";
  const SubjectOptions& options = options_;
  if (options.exact && options.arithmetic == "bf16")
    throw Error(Code::kBadInput, "is bf16, and --exact asks for dequantised floats; expected one of them",
                "--arithmetic");
  if (options.against_exact && (options.exact || !needs.baseline))
    throw Error(Code::kBadInput, options.exact ? "compares --exact with itself" : "needs a baseline of f32",
                "--against-exact");
  const std::vector<std::string> names = split_kv(options.kv);
  team_ =
      std::make_unique<Team>(options.threads > 0 ? options.threads : std::clamp(describe_host().usable_cores, 1, 512));
  file_ = weights::open_model_file(options.model);
  spec_ = model::read_spec(*file_, options.ctx);
  if (options.ctx > spec_.context)
    throw Error(Code::kBadInput,
                "is " + std::to_string(options.ctx) + ", expected at most the model's context, " +
                    std::to_string(spec_.context),
                "--ctx");
  tokenizer_ = text::make_tokenizer(file_->metadata());
  chat_template_ = file_->metadata().get_string("tokenizer.chat_template").value_or("");
  if (needs.text && !tokenizer_)
    throw Error(Code::kBadInput, "the model has no vocabulary, so it cannot read text", options.model);
  if (tokenizer_ && tokenizer_->size() > spec_.vocab)
    throw Error(Code::kBadInput,
                "the vocabulary has " + std::to_string(tokenizer_->size()) + " tokens, token_embd.weight only " +
                    std::to_string(spec_.vocab) + " rows",
                options.model);
  spec_.in_bf16 = options.arithmetic == "bf16";
  facts_ = model::key_facts(spec_, *file_, options.exact);
  if (needs.baseline) add_lane("f32", "all", needs);
  first_ = lanes_.size();
  for (const std::string& name : names)
    for (const std::string& selector : needs.selectors) add_lane(name, selector, needs);
  check_memory();
}

void Subject::add_lane(const std::string& name, const std::string& selector, const Needs& needs) {
  const std::string& codecs = name;
  Lane lane;
  lane.name = name;
  lane.options.window = options_.window;
  lane.options.residual = options_.residual;
  lane.options.sinks = options_.sinks;
  lane.options.max_tokens = options_.ctx;
  lane.options.selector = select::read_selector(selector, "--select");
  try {
    lane.undecided = codecs == run::kAuto;
    const std::size_t at = std::min(codecs.find('@'), codecs.size());
    const kv::CodecPair pair = kv::parse_pair(lane.undecided ? "f16" : codecs.substr(0, at), "");
    std::string exceptions = codecs.substr(std::min(at + 1, codecs.size()));
    std::replace(exceptions.begin(), exceptions.end(), '+', ';');
    const std::string usual = codecs.substr(0, at);
    const kv::CacheShape shape = model::cache_shape(spec_);
    lane.share = kv::share_of(usual);
    lane.exceptions = kv::parse_layers(exceptions, "");
    adopt(lane, facts_);
    lane.options.k_codec = pair.k;
    lane.options.v_codec = pair.v;
    lane.cost = cost_of(shape, lane.options, team_->size());
  } catch (const Error& e) {
    throw Error(e.code(), "'" + name + "': " + e.message(), "--kv");
  }
  lane.options.max_tokens += needs.extra_tokens;
  lane.options.max_sequences = needs.sequences;
  lanes_.push_back(std::move(lane));
}

void Subject::adopt(Lane& lane, const model::KeyFacts& facts) const {
  lane.options.key_factors = facts.factors;
  lane.options.key_metrics = facts.metrics;
  lane.options.plans_metrics = lane.share > 0 && lane.share < kv::kReadsText;
  lane.options.layers.clear();
  if (lane.share > 0) {
    lane.options.layers = kv::share_out(model::cache_shape(spec_), facts.gains, lane.share);
    lane.note = kv::codecs_text(lane.options.layers);
  }
  lane.options.layers.insert(lane.options.layers.end(), lane.exceptions.begin(), lane.exceptions.end());
}

int Subject::logits_rows() const {
  constexpr std::int64_t kMost = std::int64_t{32} << 20;
  return static_cast<int>(std::clamp<std::int64_t>(kMost / (4 * spec_.vocab), 1, kChunk));
}

void Subject::check_memory() {
  const std::uint64_t machine = describe_host().memory_total;
  std::uint64_t total = 0;
  for (const Lane& lane : lanes_)
    total += kv::plan_memory(model::cache_shape(spec_), lane.options, team_->size()).total() +
             static_cast<std::uint64_t>(model::Forward::planned_scratch(spec_, kChunk, logits_rows(), team_->size()));
  const run::EngineOptions weights{.weights_memory = options_.weights_memory,
                                   .weights_mode = options_.weights_mode,
                                   .weights_file = options_.weights_file};
  where_ = run::residency_options(weights, static_cast<std::int64_t>(total),
                                  model::Model::planned_bytes(spec_, *file_, options_.exact));
  total += static_cast<std::uint64_t>(model::Model::plan(spec_, *file_, options_.exact, where_).memory());
  if (options_.against_exact) total += static_cast<std::uint64_t>(model::Model::planned_bytes(spec_, *file_, true));
  if (machine == 0 || total <= machine) return;  // 0: the system does not say
  throw Error(Code::kMemory,
              "the weights and " + std::to_string(lanes_.size()) + " caches of " + std::to_string(options_.ctx) +
                  " tokens take " + std::to_string(total / 1000000) + " MB, this machine has " +
                  std::to_string(machine / 1000000) + " MB (see --ctx, --kv)",
              options_.model);
}

void Subject::load(const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (options_.against_exact)
    exact_model_ = model::Model::load(spec_, weights::open_model_file(options_.model), *team_,
                                      {.exact = true, .progress = progress});
  model_ =
      model::Model::load(spec_, std::move(file_), *team_,
                         {.exact = options_.exact, .bf16_products = false, .residency = where_, .progress = progress});
  std::optional<model::KeyFacts> read;  // as an engine does
  for (Lane& lane : lanes_) {
    if (lane.share > 0 && lane.share < kv::kReadsText && tokenizer_) {
      if (!read) read = run::calibrate(*team_, *model_, *tokenizer_, options_.sinks, facts_);
      adopt(lane, *read);
      lane.cost = cost_of(model::cache_shape(spec_), lane.options, team_->size());
    }
    make_cache(lane);
  }
}

void Subject::make_cache(Lane& lane) {
  lane.forward.reset();
  lane.cache = std::make_unique<kv::Cache>(*team_, model::cache_shape(spec_), lane.options);
  const model::Model& model = exact_model_ && &lane == &lanes_.front() ? *exact_model_ : *model_;
  lane.forward = std::make_unique<model::Forward>(*team_, model, *lane.cache, kChunk, logits_rows());
}

void Subject::choose_codecs(std::span<const std::int32_t> ids) {
  for (Lane& lane : lanes_) {
    if (!lane.undecided) continue;
    const auto known = run::auto_from_weights(*model_, options_.kv_noise);
    const kv::AutoChoice choice =
        known ? *known
              : run::auto_from_prompt(*lane.forward, *lane.cache, spec_, ids, options_.sinks, options_.kv_noise);
    lane.undecided = false;
    lane.note = choice.text();
    lane.options.layers = choice.codecs();
    lane.cost = cost_of(model::cache_shape(spec_), lane.options, team_->size());
    make_cache(lane);
  }
}

}  // namespace kvasir::lab::eval
