#include "run/engine.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "device/open.hpp"
#include "kv/share_policy.hpp"
#include "kv/spec.hpp"
#include "model/adapters.hpp"
#include "model/hparams.hpp"
#include "model/spec_fields.hpp"
#include "run/auto_kv.hpp"
#include "run/calibration.hpp"
#include "run/selection.hpp"
#include "select/spec.hpp"
#include "store/spec.hpp"
#include "weights/rounded_file.hpp"

namespace kvasir::run {

namespace {

std::vector<OptionTable<EngineOptions>::Row> plan_rows() {
  using O = EngineOptions;
  std::vector<OptionTable<EngineOptions>::Row> rows{
      {"threads", &O::threads, {.help = "0 is one per core", .letter = 't', .low = 0, .high = 512}},
      {"numa",
       &O::numa,
       {.help =
            "on machines with several NUMA nodes (see `kvasir info`): auto puts every thread but the calling one on a "
            "node and the parts of weights that it reads there, and compressed pages on all nodes by turns; off "
            "leaves that to the system",
        .choices = {"auto", "off"},
        .placeholder = "KIND"}},
      {"ctx",
       &O::ctx,
       {.help = "length of the context, such as 4096 or 128K; 0 is the model's own, at most 8192",
        .unit = "tokens",
        .low = 0,
        .high = 1 << 24}},
      {"chunk",
       &O::chunk,
       {.help = "tokens of a prompt computed together; changes the speed, never the result",
        .unit = "tokens",
        .low = 1,
        .high = 8192}},
      {"lora",
       &O::lora,
       {.help =
            "LoRA adapter of the model, a GGUF file or a folder of PEFT's, with a scale of its own behind =; may be "
            "given more than once",
        .placeholder = "FILE[=SCALE]"}},
      {"weights",
       &O::weights,
       {.help = "rounds weights of 16 and 32 bits while they are loaded: q8_0, q4_0, q4_k or any mixture of "
                "`kvasir quantize`; default none",
        .placeholder = "TYPE"}},
      {"weights_memory",
       &O::weights_memory,
       {.help = "most memory for weights, such as 2GiB; the layers that do not fit are read from a packed file beside "
                "the model while the others are computed; default: what fits",
        .placeholder = "SIZE"}},
      {"weights_mode",
       &O::weights_mode,
       {.help = "which layers stay in memory: full_resident, mapped (a packed file that processes share), "
                "partial_resident, ffn_only_stream or full_stream; auto: as many as fit",
        .choices = {"auto", "full_resident", "mapped", "partial_resident", "ffn_only_stream", "full_stream"},
        .placeholder = "MODE"}},
      {"keep_first",
       &O::keep_first,
       {.help = "first layers that stay in memory when others are read; -1: 4 with partial_resident, else 0",
        .unit = "layers",
        .low = -1,
        .high = 1 << 16}},
      {"keep_last",
       &O::keep_last,
       {.help = "last layers that stay in memory, likewise", .unit = "layers", .low = -1, .high = 1 << 16}},
      {"weights_file",
       &O::weights_file,
       {.help = "the packed file; it is made if it is not there; default: beside the model", .placeholder = "FILE"}},
      {"keep_weights",
       &O::keep_weights,
       {.help = "with a cache folder: packed weights of models that are all in memory are kept there, at most so many "
                "bytes, and the next start reads them instead of packing; 0: none",
        .placeholder = "SIZE"}},
      {"exact", &O::exact, {.help = "reference path: weights as dequantised floats, f32 cache unless --kv names one"}},
      {"arithmetic",
       &O::arithmetic,
       {.help = "what matrices are multiplied in: int8 (activations in 8 bits beside quantised weights, floats beside "
                "others), bf16 (weights and activations rounded to bf16: closer to --exact; prompts are fast where the "
                "processor has AMX, answers are slower everywhere), or exact, which is --exact",
        .choices = {"int8", "bf16", "exact"},
        .placeholder = "KIND"}},
      {"kv",
       &O::kv,
       {.help = "how the cache is stored: a preset, a codec, KEYS/VALUES, a share of the bytes of f16 such as 27%, or "
                "auto (see `kvasir registries`); default "
                "balanced, f16 where heads are too small",
        .placeholder = "PRESET"}},
      {"k_codec", &O::k_codec, {.help = "codec of the keys alone", .placeholder = "CODEC"}},
      {"v_codec", &O::v_codec, {.help = "codec of the values alone", .placeholder = "CODEC"}},
      {"kv_layers",
       &O::kv_layers,
       {.help = "exceptions of --kv by layer, such as 0=f16;2-5=rq4/rq3", .placeholder = "LIST"}},
      {"kv_noise",
       &O::kv_noise,
       {.help = "with --kv auto: most noise that stored keys may put on a score, as standard deviation",
        .unit = "nats",
        .low = 1e-6,
        .high = 100}},
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
      {"kv_memory",
       &O::kv_memory,
       {.help =
            "memory for compressed pages, such as 4GiB, when they are to be in a file; empty: all are in memory (see "
            "docs/long-context.md)",
        .placeholder = "SIZE"}},
      {"kv_disk",
       &O::kv_disk,
       {.help = "with --kv-memory: folder of that file, which has no name and vanishes with the process",
        .placeholder = "FOLDER"}},
      {"whole_windows",
       &O::whole_windows,
       {.help = "layers with a window keep all their pages, so that blending can read them elsewhere; answers do not "
                "change, and the cache takes the memory of a model without windows; --reuse blend sets it"}}};
  for (auto& row : selection_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

const OptionTable<EngineOptions>& plan_table() {
  static const OptionTable<EngineOptions> table{"plan", plan_rows()};
  return table;
}

const OptionTable<EngineOptions>& engine_table() {
  static const OptionTable<EngineOptions> table = [] {
    auto rows = plan_rows();
    rows.insert(rows.begin(),
                {"model",
                 &EngineOptions::model,
                 {.help = "GGUF file, folder of Hugging Face, or hf:OWNER/REPO[:QUANT] (see `kvasir pull`)",
                  .letter = 'm',
                  .placeholder = "FILE",
                  .required = true}});
    rows.push_back(
        {"device",
         &EngineOptions::device,
         {.help = "keeps copies of compressed pages on a device and computes attention to them there, with the "
                  "same bits: gpu, xpu, cuda, opencl or opencl:N (see `kvasir devices`)",
          .placeholder = "NAME"}});
    rows.push_back({"device_memory",
                    &EngineOptions::device_memory,
                    {.help = "most memory of the device for pages, such as 4GiB; default: all but 512 MiB and what "
                             "weights may take",
                     .placeholder = "SIZE"}});
    rows.push_back(
        {"device_weights",
         &EngineOptions::device_weights,
         {.help = "memory of the device for weights, with which it multiplies the rows of prompts; weights "
                  "that do not fit are copied anew for every chunk. 0: it never multiplies; default: a "
                  "quarter of its memory, from the number of rows on from which that is measured to be quicker",
          .placeholder = "SIZE"}});
    rows.push_back(
        {"device_from",
         &EngineOptions::device_from,
         {.help = "compressed tokens of a text from which on attention to them is the device's; -1: measured "
                  "at the start, for generated tokens and for prompts, in multiples of 1024",
          .unit = "tokens",
          .low = -1,
          .high = 1 << 30}});
    return OptionTable<EngineOptions>{"engine", std::move(rows)};
  }();
  return table;
}

void set_arithmetic(model::ModelSpec& spec, const EngineOptions& options) {
  spec.in_bf16 = options.arithmetic == "bf16";
  if (spec.in_bf16 && options.exact)
    throw Error(Code::kBadInput, "is bf16, and --exact asks for dequantised floats; expected one of them",
                "--arithmetic");
}

static bool names_no_codec(const EngineOptions& o) {
  return o.kv.empty() && o.k_codec.empty() && o.v_codec.empty() && !o.computes_exactly();
}

std::string default_kv(const model::ModelSpec& spec, std::string* note) {
  constexpr const char* kDefault = "balanced";
  std::string answer = kDefault;
  model::for_each<model::Attention>(spec, [&](const model::Attention& a) {
    if (answer != kDefault || kv::stores(kDefault, a.d, a.dv)) return;
    answer = "f16";
    *note = answer + ", because " + kDefault + " does not store heads of size " + std::to_string(a.d);
    if (a.dv != a.d) *note += " and " + std::to_string(a.dv);
  });
  return answer;
}

static int default_threads(const EngineOptions& options) {
  return options.threads > 0 ? options.threads : std::clamp(describe_host().usable_cores, 1, 512);
}

// Tokens that a sequence may have, as far as it is known without the model.
static std::int64_t longest(const EngineOptions& options) { return options.ctx > 0 ? options.ctx : kDefaultContext; }

// What both sides are stored as where they are not named one by one; with "auto" until it chooses.
static std::string named_kv(const EngineOptions& options, const model::ModelSpec& spec) {
  std::string note;
  if (options.kv == kAuto) return "f16";
  if (!options.kv.empty()) return options.kv;
  if (names_no_codec(options)) return default_kv(spec, &note);
  return options.computes_exactly() ? "f32" : "f16";
}

std::string kv_name(const EngineOptions& options, const model::ModelSpec& spec) {
  if (options.k_codec.empty() && options.v_codec.empty())
    return options.kv == kAuto ? options.kv : named_kv(options, spec);
  const kv::CodecPair both = kv::parse_pair(named_kv(options, spec), "--kv");
  return (options.k_codec.empty() ? both.k : options.k_codec) + "/" +
         (options.v_codec.empty() ? both.v : options.v_codec);
}

double f16_bytes_per_token(const EngineOptions& options, const model::ModelSpec& spec) {
  double bytes = 0;
  for (const kv::LayerShape& l : cache_shape(spec).layers) {
    const bool keeps = l.attends() && l.kv_of < 0 && (l.window == 0 || options.whole_windows);
    if (keeps) bytes += 2.0 * l.kv_heads * (l.head_dim + (l.latent ? 0 : l.head_dim_v));
  }
  return bytes;
}

// Of f16's bytes, for layers that get codecs of their own; 0: they do not.
static double share_of(const EngineOptions& options, const model::ModelSpec& spec) {
  const bool one_side = !options.k_codec.empty() || !options.v_codec.empty();
  return one_side ? 0 : kv::share_of(named_kv(options, spec));
}

static bool reads_text(const EngineOptions& options, const model::ModelSpec& spec) {
  const double share = share_of(options, spec);
  return share > 0 && share < kv::kReadsText;
}

// The flag that an option of the cache comes from.
static std::string flag_of(const std::string& context, const EngineOptions& o) {
  constexpr std::string_view kPrefix = "cache option ";
  if (!context.starts_with(kPrefix)) return context;
  const std::string_view option = std::string_view(context).substr(kPrefix.size());
  const bool of_layer = option.find(" of layer ") != option.npos;
  for (const auto& [name, one_side] : {std::pair{"k_codec", &o.k_codec}, std::pair{"v_codec", &o.v_codec}})
    if (option.starts_with(name))
      return of_layer && !o.kv_layers.empty() ? "--kv-layers"
             : one_side->empty()              ? "--kv"
                                              : std::string("--") + name[0] + "-codec";
  for (const auto& [name, flag] : {std::pair{"disk_memory", "--kv-memory"},
                                   {"layers", "--kv-layers"},
                                   {"window", "--window"},
                                   {"residual", "--residual"},
                                   {"sinks", "--sinks"},
                                   {"selector", "--select"},
                                   {"max_sequences", "--running"},
                                   {"step_tokens", "--chunk"},
                                   {"max_tokens", "--ctx"}})
    if (option == name) return flag;
  return context;
}

// What is wrong with an option of the cache is said by the flag that the user wrote.
static kv::MemoryPlan planned_cache(const kv::CacheShape& shape, const kv::CacheOptions& cache, int threads,
                                    const EngineOptions& options) {
  try {
    return kv::plan_memory(shape, cache, threads);
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), flag_of(e.context(), options));
  }
}

EnginePlan plan_engine(const weights::ModelFile& file, const EngineOptions& options, int sequences, int logits,
                       std::int64_t pool_tokens, const Beside& beside) {
  model::ModelSpec spec = model::read_spec(file, longest(options));
  set_arithmetic(spec, options);
  model::Adapters::attach(spec, file, options.lora, options.computes_exactly());
  const model::KeyFacts facts = model::key_facts(spec, file, options.computes_exactly());
  kv::CacheOptions cache = cache_options(options, spec, facts, sequences);
  if (pool_tokens > 0) cache.max_tokens = pool_tokens;
  EnginePlan plan;
  plan.context = context_for(options, spec);
  plan.codecs = kv::layer_runs(cache, spec.layer_count());
  if (options.kv == kAuto)
    plan.note = "auto chooses when it runs, and takes this at most";
  else if (reads_text(options, spec))
    plan.note = "a text that is read at the start shares these bytes out anew";
  else if (names_no_codec(options))
    default_kv(spec, &plan.note);
  plan.cache = planned_cache(cache_shape(spec), cache, default_threads(options), options);
  plan.load_bytes =
      model::Model::planned_load_scratch(spec, file, options.computes_exactly(), default_threads(options));
  const auto most = static_cast<int>(std::min<std::int64_t>(options.chunk, plan.context));
  plan.scratch_bytes =
      model::Forward::planned_scratch(spec, std::max(most, sequences), logits, default_threads(options));
  const std::int64_t others = static_cast<std::int64_t>(plan.cache.total()) + plan.scratch_bytes + beside.others;
  const std::int64_t all = model::Model::planned_bytes(spec, file, options.computes_exactly());
  plan.beside = beside;
  plan.residency = model::Model::plan(spec, file, options.computes_exactly(),
                                      residency_options(options, others, all, beside.weights));
  plan.weight_bytes = plan.residency.memory();
  return plan;
}

model::ResidencyOptions residency_options(const EngineOptions& options, std::int64_t others, std::int64_t weights,
                                          std::int64_t drafters) {
  model::ResidencyOptions r{.mode = options.weights_mode,
                            .keep_first = options.keep_first,
                            .keep_last = options.keep_last,
                            .file = options.weights_file};
  if (!options.weights_memory.empty()) {
    r.memory = static_cast<std::int64_t>(store::parse_bytes(options.weights_memory, "--weights-memory")) - drafters;
    if (r.memory <= 0)
      throw Error(Code::kMemory,
                  "is " + options.weights_memory + ", and the weights of what drafts take " +
                      std::to_string((drafters + 999999) / 1000000) + " MB of it",
                  "--weights-memory");
    return r;
  }
  const auto machine = static_cast<std::int64_t>(describe_host().memory_total);
  others += drafters;
  if (r.mode != "auto" || machine == 0 || weights + others <= machine) return r;
  const std::int64_t left = machine - machine / 20 - kProgramBytes - others;
  if (left > 0) r.memory = left;  // else the others alone do not fit, and check_memory says so
  return r;
}

std::string positions_note(const model::ModelSpec& spec) {
  if (spec.most_positions() == 0 || spec.embedding.positions) return "";
  return "texts of more than " + std::to_string(spec.most_positions()) +
         " tokens turn all their keys otherwise in this model (dynamic NTK RoPE), which is not computed";
}

std::int64_t context_for(const EngineOptions& options, const model::ModelSpec& spec) {
  const std::int64_t most = spec.most_positions();
  const std::string why = positions_note(spec);
  if (most > 0 && options.ctx > most)
    throw Error(Code::kBadInput,
                "is " + std::to_string(options.ctx) + ", expected at most the model's positions, " +
                    std::to_string(most) + (why.empty() ? "" : ": " + why),
                "--ctx");
  return options.ctx > 0 ? options.ctx : std::min(spec.context, kDefaultContext);
}

kv::CacheOptions cache_options(const EngineOptions& options, const model::ModelSpec& spec, const model::KeyFacts& facts,
                               int sequences) {
  if (!options.kv.empty() && (!options.k_codec.empty() || !options.v_codec.empty()))
    throw Error(Code::kBadInput, "expected either --kv or --k-codec and --v-codec, found both", "--kv");
  const kv::CodecPair both = kv::parse_pair(named_kv(options, spec), "--kv");
  kv::CacheOptions c;
  c.k_codec = options.k_codec.empty() ? both.k : options.k_codec;
  c.v_codec = options.v_codec.empty() ? both.v : options.v_codec;
  if (const double share = share_of(options, spec); share > 0)
    c.layers = kv::share_out(cache_shape(spec), facts.gains, share);
  for (kv::LayerCodecs& e : kv::parse_layers(options.kv_layers, "--kv-layers")) c.layers.push_back(std::move(e));
  c.key_factors = facts.factors;
  c.key_metrics = facts.metrics;
  c.plans_metrics = reads_text(options, spec);
  c.window = options.window;
  c.residual = options.residual;
  c.sinks = options.sinks;
  c.whole_windows = options.whole_windows;
  c.selector = select::read_selector(selection_of(options), "--select");
  if (options.kv_memory.empty() && options.kv_disk != EngineOptions().kv_disk)
    throw Error(Code::kBadInput, "needs --kv-memory, what pages may take in memory", "--kv-disk");
  if (!options.kv_memory.empty()) {
    c.disk = options.kv_disk;
    c.disk_memory = store::parse_bytes(options.kv_memory, "--kv-memory");
  }
  c.max_tokens = context_for(options, spec);
  c.step_tokens = static_cast<int>(std::min<std::int64_t>(options.chunk, c.max_tokens));
  c.max_sequences = sequences;
  return c;
}

namespace {

// Memory is reserved lazily, so the system does not refuse what it cannot give but kills the process that uses it: what
// cannot fit is refused here, before anything is reserved.
void check_memory(const model::Residency& residency, const std::string& path, const kv::MemoryPlan& plan,
                  std::int64_t scratch_bytes, std::int64_t load_bytes, const Beside& beside, std::uint64_t machine) {
  if (machine == 0) return;  // the system does not say
  const auto weights = static_cast<std::uint64_t>(residency.memory());
  const auto drafters = static_cast<std::uint64_t>(beside.weights + beside.others);
  // Loading is over before there are cache and scratch.
  const std::uint64_t others = std::max(plan.total() + static_cast<std::uint64_t>(scratch_bytes) + drafters,
                                        static_cast<std::uint64_t>(load_bytes));
  if (others <= machine && weights <= machine - others) return;
  const auto mb = [](std::uint64_t bytes) { return std::to_string(bytes / 1000000) + " MB"; };
  throw Error(Code::kMemory,
              "weights of " + mb(weights) + ", a KV cache of " + mb(plan.total()) + " for " +
                  std::to_string(plan.tokens) + " tokens and scratch of " +
                  mb(static_cast<std::uint64_t>(scratch_bytes)) +
                  (drafters > 0 ? " beside the " + mb(drafters) + " of what drafts" : "") +
                  " do not fit into this machine's " + mb(machine) + " (see --ctx, --weights-memory)",
              path);
}

}  // namespace

namespace {

bool names_device(const EngineOptions& o) { return !o.device.empty() && o.device != "cpu"; }

std::shared_ptr<kv::PageDevice> open_device(const EngineOptions& o, int threads) {
  if (!names_device(o)) {
    const char* const of = !o.device_memory.empty()    ? "--device-memory"
                           : !o.device_weights.empty() ? "--device-weights"
                           : o.device_from >= 0        ? "--device-from"
                                                       : nullptr;
    if (of) throw Error(Code::kBadInput, "needs --device, of which it says something", of);
    return nullptr;
  }
  device::PageOptions pages;
  if (!o.device_memory.empty()) pages.memory = store::parse_bytes(o.device_memory, "--device-memory");
  pages.weights = o.device_weights.empty()
                      ? -1
                      : static_cast<std::int64_t>(store::parse_bytes(o.device_weights, "--device-weights"));
  pages.from_tokens = o.device_from;
  pages.threads = threads;
  return device::open_pages(o.device, pages);
}

}  // namespace

// After the model is loaded: its matrices' addresses are what the device knows them by.
void Engine::open_products() {
  std::vector<const cpu::Matrix*> matrices;
  model::for_each<model::Linear>(model_->spec(), [&](const model::Linear& l) {
    if (l) matrices.push_back(&l.bound);
  });
  if (needs_.make_products) {
    products_ = needs_.make_products(matrices);
  } else if (names_device(options_)) {
    const std::string& share = options_.device_weights;
    const auto bytes = static_cast<std::int64_t>(share.empty() ? 0 : store::parse_bytes(share, "--device-weights"));
    if (model_->spec().in_bf16) {  // a device has the sums of int8
      if (bytes > 0)
        throw Error(Code::kBadInput, "is '" + share + "', and a device multiplies in int8, not with --arithmetic bf16",
                    "--device-weights");
      return;
    }
    if (share.empty() || bytes > 0)
      products_ = device::open_products(options_.device, bytes, matrices, model_->layers().streams(), *team_);
  }
}

std::unique_ptr<weights::ModelFile> open_model(const EngineOptions& options) {
  auto file = weights::open_model_file(options.model);
  return options.weights.empty() ? std::move(file) : weights::rounded(std::move(file), options.weights);
}

Engine::Engine(const EngineOptions& options, const Needs& needs) : options_(options), needs_(needs) {
  needs_.progress = {};  // the caller's, for loading
  needs_.wrap_reads = {};
  if (!needs.team) own_team_ = std::make_unique<Team>(default_threads(options));
  team_ = needs.team ? needs.team : own_team_.get();
  if (options.numa == "auto") placement_ = Placement(describe_host().nodes);
  if (own_team_) placement_.bind(*own_team_);
  auto file = open_model(options);
  // Everything that can be wrong is found before the long part, packing the weights.
  model::ModelSpec spec = model::read_spec(*file, longest(options));
  if (!spec.causal)
    throw Error(Code::kUnsupported, "reads texts and writes none: kvasir embed and kvasir serve know it",
                options.model);
  tokenizer_ = text::make_tokenizer(file->metadata());
  if (tokenizer_ && tokenizer_->size() > spec.vocab)
    throw Error(Code::kBadInput,
                "the vocabulary has " + std::to_string(tokenizer_->size()) + " tokens, token_embd.weight only " +
                    std::to_string(spec.vocab) + " rows",
                options.model);
  context_ = context_for(options, spec);
  set_arithmetic(spec, options);
  model::Adapters::attach(spec, *file, options.lora, options.computes_exactly());
  const model::KeyFacts facts = model::key_facts(spec, *file, options.computes_exactly());
  cache_options_ = run::cache_options(options, spec, facts, needs.sequences);
  cache_options_.drafts = needs.drafted > 0;
  if (!needs.device) needs_.device = open_device(options, team_->size());
  if (needs.pool_tokens > 0) cache_options_.max_tokens = needs.pool_tokens;
  if (names_no_codec(options)) default_kv(spec, &kv_note_);
  const kv::MemoryPlan cache_plan = planned_cache(cache_shape(spec), cache_options_, team_->size(), options_);
  const std::int64_t scratch =
      model::Forward::planned_scratch(spec, step_rows(), needs.logits + needs.drafted, team_->size());
  model::ResidencyOptions where =
      residency_options(options, static_cast<std::int64_t>(cache_plan.total()) + scratch + needs.beside.others,
                        model::Model::planned_bytes(spec, *file, options.computes_exactly()), needs.beside.weights);
  check_memory(model::Model::plan(spec, *file, options.computes_exactly(), where), options.model, cache_plan, scratch,
               model::Model::planned_load_scratch(spec, *file, options.computes_exactly(), team_->size()), needs.beside,
               describe_host().memory_total);
  where.keep = {.folder = needs.weights_folder,
                .bytes = static_cast<std::int64_t>(store::parse_bytes(options.keep_weights, "--keep-weights")),
                .note = needs.weights_note};
  model_ = model::Model::load(std::move(spec), std::move(file), *team_,
                              {.exact = options.computes_exactly(),
                               .residency = where,
                               .placement = placement_,
                               .wrap_reads = needs.wrap_reads,
                               .progress = needs.progress});
  open_products();
  if (tokenizer_ && reads_text(options, model_->spec())) {
    const std::int64_t tokens = cache_options_.max_tokens;
    cache_options_ = run::cache_options(options, model_->spec(),
                                        calibrate(*team_, *model_, *tokenizer_, options.sinks, facts), needs.sequences);
    cache_options_.max_tokens = tokens;
    cache_options_.drafts = needs.drafted > 0;
  }
  if (options.kv == kAuto) {
    if (const auto choice = auto_from_weights(*model_, options.kv_noise))
      adopt(*choice);
    else
      undecided_ = true;
  }
  make_cache();
}

int Engine::step_rows() const {
  const int most = static_cast<int>(std::min<std::int64_t>(options_.chunk, context_));
  return std::max(most, needs_.sequences + needs_.drafted);
}

void Engine::make_cache() {
  forward_.reset();
  cache_.reset();
  codecs_ = kv::layer_runs(cache_options_, model_->spec().layer_count());
  kv::CacheOptions options = cache_options_;
  options.device = needs_.device;  // not in cache_options_: others make caches by these
  options.placement = placement_;
  cache_ = std::make_unique<kv::Cache>(*team_, cache_shape(model_->spec()), options);
  forward_ = std::make_unique<model::Forward>(*team_, *model_, *cache_, step_rows(), needs_.logits + needs_.drafted,
                                              products_.get());
}

void Engine::adopt(const kv::AutoChoice& choice) {
  // Exceptions that the user named stand behind the choice, where they count.
  std::vector<kv::LayerCodecs> layers = choice.codecs();
  layers.insert(layers.end(), cache_options_.layers.begin(), cache_options_.layers.end());
  cache_options_.layers = std::move(layers);
  kv_note_ = "auto: " + choice.text();
}

void Engine::choose_codecs(std::span<const std::int32_t> prompt) {
  if (!undecided_) return;
  adopt(auto_from_prompt(*forward_, *cache_, model_->spec(), prompt, options_.sinks, options_.kv_noise));
  undecided_ = false;
  make_cache();
}

std::span<const float> Engine::decode(kv::Sequence* sequence, std::int32_t id) {
  const model::Input input{.sequence = sequence, .tokens = {&id, 1}, .decode = true};
  return forward_->step({&input, 1});
}

std::shared_ptr<const TokenOrder> Engine::token_order() const {
  KVASIR_CHECK(tokenizer_);
  std::call_once(ordered_, [this] { token_order_ = std::make_shared<TokenOrder>(*tokenizer_); });
  return token_order_;
}

void Engine::check_ids(std::span<const std::int32_t> ids) const {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= model_->spec().vocab)
      throw Error(Code::kBadInput,
                  "token " + std::to_string(i) + " is " + std::to_string(ids[i]) + ", expected 0.." +
                      std::to_string(model_->spec().vocab - 1),
                  "tokens");
}

std::span<const float> Engine::feed(kv::Sequence* sequence, std::span<const std::int32_t> ids, int rows,
                                    FunctionRef<bool(std::int64_t)> poll) {
  KVASIR_CHECK(!ids.empty());
  const std::size_t chunk = static_cast<std::size_t>(std::min<std::int64_t>(options_.chunk, forward_->max_tokens()));
  std::size_t done = 0;
  for (;;) {
    if (!poll(static_cast<std::int64_t>(done))) return {};
    const std::size_t n = std::min(chunk, ids.size() - done);
    const bool last = done + n == ids.size();
    const model::Input input{sequence, ids.subspan(done, n), last ? rows : 0};
    const std::span<const float> logits = forward_->step({&input, 1});
    done += n;
    if (last) return logits;
  }
}

}  // namespace kvasir::run
