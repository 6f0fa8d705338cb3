#include "run/elsewhere.hpp"

#include <algorithm>

namespace kvasir::run {
namespace {

constexpr std::string_view kProcessor = "not needed: all layers run on the processor";
constexpr std::string_view kAlways = "always so";
constexpr std::string_view kRequest = "a request says it, see docs/http.md";
constexpr std::string_view kFile = "the model's file says it";
constexpr std::string_view kStage = "there is no such stage of sampling, see `kvasir registries`";
constexpr std::string_view kSystem = "for the system to say: taskset, numactl, nice";
constexpr std::string_view kLog = "the log is one line a request on standard error";
constexpr std::string_view kVectors = "control vectors are not read";
constexpr std::string_view kPictures =
    "pictures are read with --mmproj FILE by kvasir run --image FILE, serve and chat";

// Names with a single dash are written with it, all others without dashes.
struct Foreign {
  std::string_view names;  // between blanks
  std::string_view here;   // a flag, or a sentence
};

constexpr Foreign kForeign[] = {
    // Context and cache.
    {"-c ctx-size max-model-len num-ctx n-ctx max-seq-len max-seq-length cache-lens model-cache-lens length "
     "max-context-tokens context-length max-total-tokens kv-unified-per-slot fit-ctx -fitc",
     "--ctx"},
    {"-ctk cache-type-k type-k -k", "--k-codec"},
    {"-ctv cache-type-v type-v", "--v-codec"},
    {"-v", "a codec of values is --v-codec; the log is one line a request on standard error"},
    {"kv-cache-dtype kv-cache-bits kv-type cache-8bit cache-q4 kv-bits kv-quant nbits cache-implementation kv-compress",
     "--kv"},
    {"group-size q-group-size kv-group-size", "it stands behind a codec's name: --kv kivi2:16 or int4_token:64"},
    {"delta iframe", "keys as differences are a codec: --kv delta3/uniform4"},
    {"sink-tokens n-sink attention-sinks", "--sinks"},
    {"residual-length residual-len k-window", "--residual"},
    {"local-window recency-window", "--window"},
    {"num-blocks num-gpu-blocks-override kv-cache-memory-bytes", "--pool"},
    {"block-size page-size",
     "not to be chosen: a page of the cache has 128 tokens (of long contexts it is "
     "--select-block)"},
    {"cache-ram -cram max-cache-bytes swap-space kv-offloading-size cpu-memory-size-gb", "--ram-cache"},
    {"slot-save-path prompt-cache disk-cache-dir kv-cache-dir disk-path prompt-cache-all save-kv load-kv",
     "--cache-dir"},
    {"kv-transfer-config lmcache-config-file kvc2-config-dir", "--tier"},
    {"recompute-strategy", "--blend-strategy"},
    {"recompute-ratio", "--blend-ratio"},
    {"overlap-k chunk-boundary-window recompute-overlap", "--blend-first-rows"},
    {"no-enable-prefix-caching no-cache-prompt no-prefix-caching disable-prefix-caching no-kv-reuse", "--reuse off"},
    {"recency-window-chunks", "not to be chosen: what was used last is given up last, and what /v1/warm keeps stays"},
    {"swa-full", "--whole-windows"},
    {"cache-reuse enable-prefix-caching cache-prompt prefix-caching cache-idle-slots enable-kv-reuse",
     "always so: what begins alike is reused"},
    {"-ctxcp ctx-checkpoints swa-checkpoints -cms checkpoint-min-step",
     "always so: there is a place to go on from every 1,024 tokens"},
    {"-kvu kv-unified -no-kvu no-kv-unified -dt defrag-thold", "not needed: all sequences have one pool of pages"},
    {"-fa flash-attn no-flash-attn attention-backend", "not needed: attention never stores its scores"},
    // Steps.
    {"batch-size -b ubatch-size -ub n-batch n-ubatch chunk-prefill-size prefill-chunk-size", "--chunk"},
    {"chunk-size", "of the steps of a prompt it is --chunk; what is reused has pages of 128 tokens"},
    {"max-num-batched-tokens max-batched-tokens long-prefill-token-threshold", "--step-tokens"},
    {"parallel -np max-num-seqs max-batch-size n-parallel n-seq-max max-running-requests", "--running"},
    {"max-queue-size max-waiting-requests", "--waiting"},
    {"-nocb no-cont-batching", "--running 1"},
    {"-cb cont-batching enable-chunked-prefill batch-window-ms", kAlways},
    {"sched-strategy sched-port sched-metrics-port scheduling-policy preemption-mode num-scheduler-steps "
     "async-scheduling",
     "not to be chosen: requests are admitted in their order"},
    {"cpu-infer threads-num n-threads cpu-threads threads-batch -tb n-threads-batch thread-num "
     "kt-cpuinfer",
     "--threads"},
    {"cpu-mask -C cpu-range -Cr cpu-strict prio poll cpu-mask-batch -Cb cpu-range-batch -Crb cpu-strict-batch "
     "prio-batch poll-batch",
     kSystem},
    // Long contexts.
    {"long-context", "--select"},
    {"mode", "of reuse it is --reuse, of long contexts --select"},
    {"second-select-num second-block-count", "--select-budget"},
    {"local-windows-len", "--select-local"},
    {"anchor-type representative-type", "--select"},
    {"anchor-num representative-num", "--select-anchors"},
    {"dense-layer-num", "--dense-layers"},
    {"head-select-mode", "--head-mode"},
    {"preselect-block preselect-block-count", "--preselect"},
    // Drafts.
    {"draft-model model-draft -md draft-model-path draft-gguf-path draft-model-dir spec-draft-model speculative-model "
     "speculative-draft-model",
     "--draft model:FILE"},
    {"speculative-config spec-type speculative-algorithm", "--draft"},
    {"lookup-cache-static -lcs lookup-cache-dynamic -lcd ngram-decoding ngram-prompt-lookup-max", "--draft lookup"},
    {"gamma speculative-gamma draft-max draft-n n-draft draft-num num-speculative-tokens spec-draft-n-max "
     "num-lookahead-slots "
     "speculative-num-draft-tokens",
     "--draft-tokens"},
    // Weights.
    {"model-path gguf-path model-dir model-name-or-path checkpoint hf-config-path", "-m"},
    {"hf-repo -hf -hfr hf-file -hff model-url -mu docker-repo -dr repo-id", "-m hf:OWNER/REPO[:QUANT]"},
    {"models-dir models-preset models-max models-autoload", "-m, which may be given more than once"},
    {"hf-token -hft", "the environment says it: HF_TOKEN"},
    {"awq-streaming cpu-offload-gb offload-gb layer-streaming kt-gpu-experts", "--weights-memory"},
    {"quantization -q load-q4 quant", "--weights"},
    {"dtype torch-dtype", "weights stay in their file's number format; --exact computes in float32"},
    {"no-mmap mmap mlock load-mode -lm no-repack repack -nr lazy-mode -lzm use-mmap use-mlock no-host low-mem "
     "fast-safetensors safetensors-load-strategy",
     "not needed: weights are packed into memory"},
    {"tokenizer tokenizer-mode skip-tokenizer-init tokenizer-revision revision code-revision config-format load-format "
     "trust-remote-code model-impl hf-overrides override-kv rope-scaling rope-scale rope-theta rope-alpha "
     "rope-freq-base rope-freq-scale yarn-orig-ctx yarn-ext-factor yarn-attn-factor yarn-beta-slow yarn-beta-fast "
     "optimize-config-path architectures check-tensors",
     kFile},
    {"lora-scaled lora-modules lora-path lora-paths lora-adapter adapter adapter-path", "--lora"},
    {"enable-lora max-loras max-lora-rank max-cpu-loras lora-init-without-apply",
     "not needed: --lora FILE says it all"},
    {"control-vector control-vector-scaled control-vector-layer-range", kVectors},
    {"mmproj -mm mmproj-url -mmu mmproj-auto no-mmproj mmproj-offload limit-mm-per-prompt image-min-tokens "
     "image-max-tokens media-path allowed-local-media-path",
     kPictures},
    {"gpu-layers -ngl n-gpu-layers split-mode -sm tensor-split -ts main-gpu -mg tensor-parallel-size -tp "
     "tp "
     "pipeline-parallel-size -pp data-parallel-size -dp enable-expert-parallel gpu-memory-utilization "
     "mem-fraction-static enforce-eager no-enforce-eager kv-offload -kvo no-kv-offload -nkvo override-tensor -ot "
     "cpu-moe "
     "-cmoe n-cpu-moe -ncmoe n-cpu-ffn -ncffn op-offload no-op-offload fit -fit fit-target -fitt "
     "use-cuda-graph use-cuda-stream gpu-split max-seq-len-to-capture compilation-config cuda-graph-sizes rpc "
     "distributed-executor-backend memory-gpu-only utilization-percentage moe-cache-mib num-gpus",
     kProcessor},
    {"-dev gpu-device device-id", "--device"},
    {"list-devices", "that is `kvasir devices`"},
    // Answers.
    {"n-predict predict max-new-tokens max-tokens num-predict max-gen-len", "-n"},
    {"temp", "--temperature"},
    {"do-sample greedy", "not needed: a temperature of 0 is greedy, any other draws"},
    {"num-beams use-beam-search beam-width early-stopping length-penalty",
     "there is no beam search: answers are drawn, or take the most probable tokens"},
    {"repeat-penalty", "--repetition-penalty"},
    {"repeat-last-n", "--penalty-last-n"},
    {"random-seed rng-seed", "--seed"},
    {"reverse-prompt -r stop-token-ids", "--stop"},
    {"ban-strings bad-words", "--logit-bias"},
    {"file prompt-file input-file", "-f"},
    {"system-prompt -sys system-prompt-file -sysf", "--system"},
    {"json-schema-file -jf -j", "--json-schema"},
    {"grammar grammar-file json-mode", "--json-schema"},
    {"guided-decoding-backend structured-outputs-config grammar-backend", kAlways},
    {"samplers sampler-seq sampling-seq top-nsigma top-n-sigma xtc-probability xtc-threshold typical typical-p top-a "
     "dry-multiplier dry-base dry-allowed-length dry-penalty-last-n dry-sequence-breaker adaptive-target "
     "adaptive-decay "
     "dynatemp-range dynatemp-exp dynamic-temperature mirostat mirostat-lr mirostat-ent smoothing-factor skew healing",
     kStage},
    {"conversation -cnv interactive -i interactive-first -if single-turn -st multiline-input -mli",
     "that is `kvasir chat`"},
    // A server.
    {"alias -a served-model-name model-name", "--name"},
    {"api-key auth-token", "--api-key-file"},
    {"chat-template-file", "--chat-template"},
    {"ssl-cert-file ssl-certfile", "--tls-cert"},
    {"ssl-key-file ssl-keyfile", "--tls-key"},
    {"cors-origins allowed-origins web-cross-domain", "--cors-origin"},
    {"cors-methods cors-headers cors-credentials allowed-methods allowed-headers allow-credentials", kAlways},
    {"threads-http", "--http-threads"},
    {"workers api-server-count -asc", "--http-workers"},
    {"timeout -to", "--request-timeout"},
    {"sse-ping-interval", "--sse-keepalive"},
    {"api-prefix root-path path reuse-port uds", "for a proxy in front of the server"},
    {"jinja no-jinja metrics slots ui webui web enable-metrics", kAlways},
    {"warmup no-warmup skip-server-warmup",
     "not needed: nothing is computed before the first request but what --warm and --reuse blend ask for"},
    {"tool-call-parser reasoning-parser enable-auto-tool-choice enable-reasoning reasoning-format "
     "tool-parser-plugin chat-template-content-format exclude-tools-when-tool-choice-none",
     "not needed: the chat template says how calls and reasoning are written"},
    {"context-shift no-context-shift keep reasoning-budget reasoning-budget-message reasoning -rea reasoning-effort "
     "chat-template-kwargs default-chat-template-kwargs max-logprobs logprobs-mode force-think return-tokens",
     kRequest},
    {"embedding embeddings rerank reranking pooling task runner convert is-embedding",
     "not needed: the model's file says what it is for, and /v1/embeddings and /v1/rerank are there"},
    {"log-level uvicorn-log-level log-file log-dir log-disable verbose verbosity -lv log-verbosity log-verbose "
     "log-prefix log-timestamps log-colors log-jsonl disable-log-requests enable-log-requests disable-log-stats "
     "print-timings",
     kLog},
    {"offline", "not needed: nothing is fetched but what hf: names"},
    {"tools tools-runtime mcp-servers-config mcp-servers-json agent -ag ui-mcp-proxy",
     "tools run in the client: the server hands calls over"},
};

std::string plain(std::string_view name) {
  const bool single = name.size() > 1 && name[0] == '-' && name[1] != '-';
  if (!single) name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string out;
  for (const char c : name) out += c == '_' ? '-' : !single && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

}  // namespace

std::string_view elsewhere(std::string_view name) {
  const std::string wanted = plain(name.substr(0, name.find('=')));
  if (wanted.empty()) return {};
  for (const Foreign& f : kForeign)
    for (std::size_t at = f.names.find(wanted); at != f.names.npos; at = f.names.find(wanted, at + 1)) {
      const std::size_t end = at + wanted.size();
      if ((at == 0 || f.names[at - 1] == ' ') && (end == f.names.size() || f.names[end] == ' ')) return f.here;
    }
  return {};
}

std::string key_hint(std::string_view key, std::span<const std::string> known) {
  const std::string_view here = elsewhere(key);
  if (here.empty()) return {};
  if (here[0] != '-') return " (" + std::string(key) + ": " + std::string(here) + ")";
  const std::string_view flag = here.substr(0, here.find_first_of(" ,"));
  std::string ours(flag.substr(flag.find_first_not_of('-')));
  const auto is_known = [&](std::string_view name) {
    return known.empty() || std::find(known.begin(), known.end(), name) != known.end();
  };
  if (ours == "n") ours = is_known("max_tokens") ? "max_tokens" : "n_predict";
  if (ours == "m") ours = "model";
  std::replace(ours.begin(), ours.end(), '-', '_');
  if (!is_known(ours)) return " ('" + std::string(key) + "' is '" + ours + "', which does not belong here)";
  std::string text = " ('" + std::string(key) + "' is '" + ours + "' here";
  if (const std::size_t value = here.find(' '); value != here.npos && here[value - 1] != ',')
    text += ", such as '" + std::string(here.substr(value + 1)) + "'";
  return text + ")";
}

std::string request_field(std::string_view flag) {
  constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
      {"-n", "max_tokens"}, {"--json-schema", "response_format"}, {"--system", "messages"}, {"-p", "prompt"}};
  for (const auto& [ours, field] : kNamed)
    if (flag == ours) return std::string(field);
  for (const std::string_view ours :
       {"--temperature", "--top-k", "--top-p", "--min-p", "--repetition-penalty", "--presence-penalty",
        "--frequency-penalty", "--penalty-last-n", "--seed", "--stop", "--logit-bias", "--logprobs", "--ignore-eos"})
    if (flag == ours) {
      std::string field(flag.substr(2));
      std::replace(field.begin(), field.end(), '-', '_');
      return field;
    }
  return {};
}

}  // namespace kvasir::run
