// The C API: each call is one of the C++ API's, its exception a status.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "api/host.hpp"
#include "api/options.hpp"
#include "api/version.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "kvasir/codecs.hpp"
#include "kvasir/engine.hpp"
#include "kvasir/kivi.hpp"
#include "kvasir/kv_cache.hpp"
#include "kvasir/kvasir.h"

struct kvasir_engine {
  kvasir::Engine engine;
};
struct kvasir_session {
  kvasir::Session session;
};
struct kvasir_reply {
  kvasir::Reply reply;
  std::string json;
};
struct kvasir_cache {
  kvasir::KvCache cache;
  // Handles of C are numbers.
  std::map<std::uint64_t, kvasir::KvSequence> sequences;
};
struct kvasir_packed {
  kvasir::PackedKv packed;
};
struct kvasir_kivi {
  kvasir::Kivi kivi;
  std::string device;
};

namespace kvasir {
namespace {

// Of fixed size, so that saying what is wrong needs no memory.
thread_local char error_text[2048] = "";

kvasir_status fail(kvasir_status status, const char* text) {
  std::snprintf(error_text, sizeof error_text, "%s", text);
  return status;
}

kvasir_status status_of(Code code) {
  switch (code) {
    case Code::kBadInput:
      return KVASIR_BAD_INPUT;
    case Code::kIo:
      return KVASIR_IO;
    case Code::kMemory:
      return KVASIR_MEMORY;
    case Code::kUnsupported:
      return KVASIR_UNSUPPORTED;
    case Code::kCancelled:
      return KVASIR_CANCELLED;
    case Code::kBusy:
      return KVASIR_BUSY;
  }
  return KVASIR_INTERNAL;
}

template <class F>
kvasir_status call(F&& f) {
  try {
    f();
    return KVASIR_OK;
  } catch (const std::invalid_argument& e) {
    return fail(KVASIR_BAD_INPUT, e.what());
  } catch (const Error& e) {
    return fail(status_of(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return fail(KVASIR_MEMORY, "memory is used up");
  } catch (const std::exception& e) {
    return fail(KVASIR_INTERNAL, e.what());
  } catch (...) {
    return fail(KVASIR_INTERNAL, "an unknown exception");
  }
}

template <class T>
T& some(T* pointer, const char* name) {
  if (!pointer) throw Error(Code::kBadInput, "is NULL", name);
  return *pointer;
}

KiviArrays kivi_arrays(const kvasir_kivi_arrays& a) {
  return {.values = a.values != 0,
          .float32_scales = a.float32_scales != 0,
          .bits = a.bits,
          .group = a.group,
          .heads = a.heads,
          .tokens = a.tokens,
          .head_dim = a.head_dim,
          .codes = a.codes,
          .scales = a.scales,
          .minima = a.minima};
}

Options options_of(const char* const* texts) {
  Options options;
  for (; texts && *texts; ++texts) {
    const char* equals = std::strchr(*texts, '=');
    if (!equals || equals == *texts)
      throw Error(Code::kBadInput, std::string("'") + *texts + "', expected NAME=VALUE", "options");
    options.emplace_back(std::string(*texts, equals), std::string(equals + 1));
  }
  return options;
}

std::string_view text_of(const char* text, std::size_t size, const char* name) {
  return {size > 0 ? &some(text, name) : "", size};
}

std::span<const std::int32_t> ids_of(const std::int32_t* ids, std::size_t count) {
  return {count > 0 ? &some(ids, "ids") : ids, count};
}

OnText on_text_of(kvasir_on_text on_text, void* user) {
  if (!on_text) return {};
  return [=](std::string_view text) { return on_text(std::string(text).c_str(), text.size(), user) == 0; };
}

void* copy(const void* from, std::size_t size, std::size_t zeros) {
  void* to = std::malloc(size + zeros > 0 ? size + zeros : 1);
  if (!to) throw std::bad_alloc();
  if (size > 0) std::memcpy(to, from, size);
  std::memset(static_cast<char*>(to) + size, 0, zeros);
  return to;
}

char* copy(const std::string& text) { return static_cast<char*>(copy(text.data(), text.size(), 1)); }

void give_text(const std::string& text, char** out, std::size_t* size) {
  some(out, "text") = copy(text);
  if (size) *size = text.size();
}

Json to_json(const Reply& r) {
  Json json{{"text", r.text},
            {"ids", r.ids},
            {"finish", r.finish},
            {"prompt_tokens", r.prompt_tokens},
            {"seed", r.seed},
            {"first_token_seconds", r.first_token_seconds},
            {"prompt_seconds", r.prompt_seconds},
            {"generate_seconds", r.generate_seconds},
            {"receipt", Json::parse(r.receipt.json)}};
  Json logprobs = Json::array();
  for (const TokenProbability& t : r.logprobs) {
    Json top = Json::array();
    for (const TokenProbability& b : t.top) top.push_back({{"id", b.id}, {"logprob", b.logprob}});
    logprobs.push_back({{"id", t.id}, {"logprob", t.logprob}, {"top", std::move(top)}});
  }
  json["logprobs"] = std::move(logprobs);
  return json;
}

Json to_json(const std::vector<OptionDescription>& options) {
  Json list = Json::array();
  for (const OptionDescription& o : options)
    list.push_back({{"name", o.name},
                    {"type", o.type},
                    {"expects", o.expects},
                    {"preset", Json::parse(o.preset)},
                    {"unit", o.unit},
                    {"help", o.help}});
  return list;
}

Json to_json(const ModelInfo& i) {
  return {{"name", i.name},
          {"architecture", i.architecture},
          {"context", i.context},
          {"trained_context", i.trained_context},
          {"vocabulary", i.vocabulary},
          {"width", i.width},
          {"parameters", i.parameters},
          {"weight_bytes", i.weight_bytes},
          {"k_codec", i.k_codec},
          {"v_codec", i.v_codec},
          {"kv_bytes_per_token", i.kv_bytes_per_token},
          {"chats", i.chats}};
}

Json to_json(const EngineStats& s) {
  Json tiers = Json::array();
  for (const EngineStats::Tier& t : s.tiers)
    tiers.push_back({{"name", t.name},
                     {"bytes", t.bytes},
                     {"records", t.records},
                     {"hits", t.hits},
                     {"misses", t.misses},
                     {"errors", t.errors}});
  Json all{{"requests", s.requests},
           {"prompt_tokens", s.prompt_tokens},
           {"reused_tokens", s.reused_tokens},
           {"generated_tokens", s.generated_tokens},
           {"kv_bytes", s.kv_bytes},
           {"kv_budget", s.kv_budget},
           {"tiers", tiers}};
  all.update(Json::parse(s.json));
  return all;
}

// Texts that are no UTF-8 (bytes of half a character) become JSON all the same.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

kvasir_reply* c_reply_of(Reply&& reply) {
  std::string json = dump(to_json(reply));
  return new kvasir_reply{std::move(reply), std::move(json)};
}

std::vector<std::string> texts_of(const char* const* texts, const size_t* sizes, size_t count, const char* name) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < count; ++i)
    all.emplace_back(text_of((&some(texts, name))[i], (&some(sizes, "sizes"))[i], name));
  return all;
}

KvCacheOptions cache_options(const char* const* texts) {
  using O = KvCacheOptions;
  static const OptionTable<O> table{
      "cache",
      {{"codecs", &O::codecs, {.help = "a preset, a codec or KEYS/VALUES"}},
       {"window", &O::window, {.help = "newest tokens that stay raw, rounded up to whole pages of 128", .low = 0}},
       {"residual", &O::residual, {.help = "in place of window, to the token; -1: what window says", .low = -1}},
       {"sinks", &O::sinks, {.help = "first tokens that stay raw", .low = 0, .high = 128}},
       {"max_tokens", &O::max_tokens, {.help = "of all sequences", .low = 1}},
       {"max_sequences", &O::max_sequences, {.help = "at once", .low = 1}},
       {"step_tokens", &O::step_tokens, {.help = "of one sequence in one step", .low = 1}},
       {"threads", &O::threads, {.help = "of attention", .low = 1, .high = 512}},
       {"device", &O::device, {.help = "keeps copies of sealed pages and attends to them: gpu, xpu, cuda, opencl:N"}}}};
  O options;
  api::set_options(options_of(texts), api::OptionTarget<O>{table, options});
  return options;
}

KvSequence sequence_of(const kvasir_cache* cache, std::uint64_t id) {
  const auto& all = some(cache, "cache").sequences;
  const auto found = all.find(id);
  if (found == all.end())
    throw Error(Code::kBadInput, std::to_string(id) + " is not of this cache, or was released", "sequence");
  return found->second;
}

void give(kvasir_cache* cache, KvSequence sequence, kvasir_sequence* out) {
  cache->sequences.emplace(sequence.id(), sequence);
  *out = sequence.id();
}

}  // namespace
}  // namespace kvasir

using namespace kvasir;

extern "C" {

const char* kvasir_error(void) { return error_text; }
const char* kvasir_version(void) { return api::version(); }
void kvasir_free(void* memory) { std::free(memory); }

kvasir_status kvasir_engine_open(const char* model, const char* const* options, kvasir_on_progress on_progress,
                                 void* user, kvasir_engine** engine) {
  return call([&] {
    OnProgress progress;
    if (on_progress) progress = [=](std::int64_t done, std::int64_t total) { on_progress(done, total, user); };
    some(engine, "engine") = new kvasir_engine{Engine(&some(model, "model"), options_of(options), progress)};
  });
}

void kvasir_engine_close(kvasir_engine* engine) { delete engine; }

kvasir_status kvasir_options(char** json) {
  return call([&] {
    const Json all{{"engine", to_json(engine_options())}, {"request", to_json(request_options())}};
    give_text(dump(all), json, nullptr);
  });
}

kvasir_status kvasir_engine_info(const kvasir_engine* engine, char** json) {
  return call([&] { some(json, "json") = copy(dump(to_json(some(engine, "engine").engine.info()))); });
}

kvasir_status kvasir_engine_stats(const kvasir_engine* engine, char** json) {
  return call([&] { some(json, "json") = copy(dump(to_json(some(engine, "engine").engine.stats()))); });
}

kvasir_status kvasir_engine_flush(kvasir_engine* engine) {
  return call([&] { some(engine, "engine").engine.flush(); });
}

kvasir_status kvasir_engine_reset_cache(kvasir_engine* engine) {
  return call([&] { some(engine, "engine").engine.reset_cache(); });
}

kvasir_status kvasir_generate_rows(kvasir_engine* engine, const int32_t* ids, size_t count, const kvasir_rows* rows,
                                   size_t runs, const char* const* options, kvasir_on_text on_text, void* user,
                                   kvasir_reply** reply) {
  return call([&] {
    some(reply, "reply");
    Engine& e = some(engine, "engine").engine;
    const auto width = static_cast<std::size_t>(e.info().width);
    std::vector<PromptRows> all;
    for (std::size_t i = 0; i < runs; ++i) {
      const kvasir_rows& r = (&some(rows, "rows"))[i];
      const float* const values = &some(r.values, "rows");
      all.push_back({r.begin, {values, values + r.count * width}});
    }
    *reply = c_reply_of(e.generate(ids_of(ids, count), all, options_of(options), on_text_of(on_text, user)));
  });
}

kvasir_status kvasir_generate_images(kvasir_engine* engine, const char* prompt, size_t size, const kvasir_image* images,
                                     size_t count, const char* const* options, kvasir_on_text on_text, void* user,
                                     kvasir_reply** reply) {
  return call([&] {
    some(reply, "reply");
    std::vector<std::string> files;
    for (std::size_t i = 0; i < count; ++i) {
      const kvasir_image& image = (&some(images, "images"))[i];
      files.emplace_back(&some(static_cast<const char*>(image.data), "images"), image.size);
    }
    *reply = c_reply_of(some(engine, "engine")
                            .engine.generate_images(text_of(prompt, size, "prompt"), files, options_of(options),
                                                    on_text_of(on_text, user)));
  });
}

kvasir_status kvasir_rows_of(const kvasir_engine* engine, const int32_t* ids, size_t count, float** values,
                             size_t* size) {
  return call([&] {
    some(values, "values");
    some(size, "size");
    const std::vector<float> rows = some(engine, "engine").engine.rows_of(ids_of(ids, count));
    *values = static_cast<float*>(copy(rows.data(), rows.size() * sizeof(float), 0));
    *size = rows.size();
  });
}

kvasir_status kvasir_generate_batch(kvasir_engine* engine, const char* const* prompts, const size_t* sizes,
                                    size_t count, const char* const* options, kvasir_reply** replies) {
  return call([&] {
    some(engine, "engine");
    const std::vector<std::string> texts = texts_of(prompts, sizes, count, "prompts");
    if (count > 0) some(replies, "replies");
    std::vector<std::unique_ptr<kvasir_reply>> all;
    for (Reply& reply : engine->engine.generate_batch(texts, options_of(options)))
      all.emplace_back(c_reply_of(std::move(reply)));
    for (std::size_t i = 0; i < count; ++i) replies[i] = all[i].release();
  });
}

kvasir_status kvasir_embed(kvasir_engine* engine, const char* text, size_t size, const char* const* options,
                           float** vector, size_t* count) {
  return call([&] {
    some(vector, "vector");
    some(count, "count");
    const std::string one(text_of(text, size, "text"));
    const std::vector<float> numbers =
        some(engine, "engine").engine.embed(std::span(&one, 1), options_of(options)).front();
    *vector = static_cast<float*>(copy(numbers.data(), numbers.size() * sizeof(float), 0));
    *count = numbers.size();
  });
}

kvasir_status kvasir_rerank(kvasir_engine* engine, const char* query, size_t size, const char* const* documents,
                            const size_t* sizes, size_t count, const char* const* options, double** scores) {
  return call([&] {
    some(scores, "scores");
    const std::vector<double> all =
        some(engine, "engine")
            .engine.rerank(std::string(text_of(query, size, "query")), texts_of(documents, sizes, count, "documents"),
                           options_of(options));
    *scores = static_cast<double*>(copy(all.data(), all.size() * sizeof(double), 0));
  });
}

kvasir_status kvasir_generate(kvasir_engine* engine, const char* prompt, size_t size, const char* const* options,
                              kvasir_on_text on_text, void* user, kvasir_reply** reply) {
  return call([&] {
    some(reply, "reply") = c_reply_of(
        some(engine, "engine")
            .engine.generate(text_of(prompt, size, "prompt"), options_of(options), on_text_of(on_text, user)));
  });
}

kvasir_status kvasir_generate_ids(kvasir_engine* engine, const int32_t* ids, size_t count, const char* const* options,
                                  kvasir_on_text on_text, void* user, kvasir_reply** reply) {
  return call([&] {
    some(reply, "reply") = c_reply_of(
        some(engine, "engine").engine.generate(ids_of(ids, count), options_of(options), on_text_of(on_text, user)));
  });
}

kvasir_status kvasir_chat(kvasir_engine* engine, const char* messages, const char* tools, const char* const* options,
                          kvasir_on_text on_text, void* user, kvasir_reply** reply) {
  return call([&] {
    some(reply, "reply") = c_reply_of(some(engine, "engine")
                                          .engine.chat(&some(messages, "messages"), options_of(options),
                                                       on_text_of(on_text, user), tools ? tools : ""));
  });
}

kvasir_status kvasir_chat_prompt(const kvasir_engine* engine, const char* messages, const char* tools, char** text) {
  return call([&] {
    some(text, "text") =
        copy(some(engine, "engine").engine.chat_prompt(&some(messages, "messages"), tools ? tools : ""));
  });
}

kvasir_status kvasir_warm(kvasir_engine* engine, const char* prompt, size_t size, const char* const* options,
                          int64_t* tokens) {
  return call([&] {
    const std::int64_t n = some(engine, "engine").engine.warm(text_of(prompt, size, "prompt"), options_of(options));
    if (tokens) *tokens = n;
  });
}

kvasir_status kvasir_tokenize(const kvasir_engine* engine, const char* text, size_t size, int add_bos, int special,
                              int32_t** ids, size_t* count) {
  return call([&] {
    some(ids, "ids");
    some(count, "count");
    const auto all = some(engine, "engine").engine.tokenize(text_of(text, size, "text"), add_bos != 0, special != 0);
    *ids = static_cast<int32_t*>(copy(all.data(), all.size() * sizeof(int32_t), 0));
    *count = all.size();
  });
}

kvasir_status kvasir_detokenize(const kvasir_engine* engine, const int32_t* ids, size_t count, char** text,
                                size_t* size) {
  return call([&] { give_text(some(engine, "engine").engine.detokenize(ids_of(ids, count)), text, size); });
}

const char* kvasir_reply_text(const kvasir_reply* reply, size_t* size) {
  if (size) *size = reply->reply.text.size();
  return reply->reply.text.c_str();
}

const int32_t* kvasir_reply_ids(const kvasir_reply* reply, size_t* count) {
  if (count) *count = reply->reply.ids.size();
  return reply->reply.ids.data();
}

const char* kvasir_reply_finish(const kvasir_reply* reply) { return reply->reply.finish.c_str(); }
const char* kvasir_reply_json(const kvasir_reply* reply) { return reply->json.c_str(); }
void kvasir_reply_free(kvasir_reply* reply) { delete reply; }

kvasir_status kvasir_session_open(kvasir_engine* engine, const char* tenant, kvasir_session** session) {
  return call([&] {
    some(session, "session") = new kvasir_session{Session(some(engine, "engine").engine, tenant ? tenant : "")};
  });
}

kvasir_status kvasir_session_load(kvasir_engine* engine, const char* path, kvasir_session** session) {
  return call([&] {
    some(session, "session") = new kvasir_session{Session::load(some(engine, "engine").engine, &some(path, "path"))};
  });
}

kvasir_status kvasir_session_save(const kvasir_session* session, const char* path) {
  return call([&] { some(session, "session").session.save(&some(path, "path")); });
}

kvasir_status kvasir_session_fork(const kvasir_session* session, kvasir_session** fork) {
  return call([&] { some(fork, "fork") = new kvasir_session{some(session, "session").session.fork()}; });
}

void kvasir_session_close(kvasir_session* session) { delete session; }

kvasir_status kvasir_session_append(kvasir_session* session, const char* text, size_t size) {
  return call([&] { some(session, "session").session.append(text_of(text, size, "text")); });
}

kvasir_status kvasir_session_append_ids(kvasir_session* session, const int32_t* ids, size_t count) {
  return call([&] { some(session, "session").session.append(ids_of(ids, count)); });
}

kvasir_status kvasir_session_truncate(kvasir_session* session, int64_t tokens) {
  return call([&] { some(session, "session").session.truncate(tokens); });
}

kvasir_status kvasir_session_generate(kvasir_session* session, const char* const* options, kvasir_on_text on_text,
                                      void* user, kvasir_reply** reply) {
  return call([&] {
    some(reply, "reply") =
        c_reply_of(some(session, "session").session.generate(options_of(options), on_text_of(on_text, user)));
  });
}

const int32_t* kvasir_session_ids(const kvasir_session* session, size_t* count) {
  if (count) *count = session->session.ids().size();
  return session->session.ids().data();
}

kvasir_status kvasir_session_text(const kvasir_session* session, char** text, size_t* size) {
  return call([&] { give_text(some(session, "session").session.text(), text, size); });
}

kvasir_status kvasir_cache_open(const kvasir_layer* layers, size_t count, const char* const* options,
                                kvasir_cache** cache) {
  return call([&] {
    std::vector<KvLayer> all;
    for (std::size_t i = 0; i < count; ++i) {
      const kvasir_layer& l = (&some(layers, "layers"))[i];
      all.push_back({l.kv_heads, l.query_heads, l.head_dim, l.head_dim_v, l.window});
    }
    some(cache, "cache") = new kvasir_cache{KvCache(all, cache_options(options)), {}};
  });
}

void kvasir_cache_close(kvasir_cache* cache) { delete cache; }

kvasir_status kvasir_cache_create(kvasir_cache* cache, kvasir_sequence* sequence) {
  return call([&] {
    some(sequence, "sequence");
    give(cache, some(cache, "cache").cache.create(), sequence);
  });
}

kvasir_status kvasir_cache_fork(kvasir_cache* cache, kvasir_sequence sequence, kvasir_sequence* fork) {
  return call([&] {
    some(fork, "fork");
    give(cache, some(cache, "cache").cache.fork(sequence_of(cache, sequence)), fork);
  });
}

kvasir_status kvasir_cache_release(kvasir_cache* cache, kvasir_sequence sequence) {
  return call([&] {
    some(cache, "cache").cache.release(sequence_of(cache, sequence));
    cache->sequences.erase(sequence);
  });
}

kvasir_status kvasir_cache_reset(kvasir_cache* cache) {
  return call([&] {
    some(cache, "cache").cache.reset();
    cache->sequences.clear();
  });
}

kvasir_status kvasir_cache_length(const kvasir_cache* cache, kvasir_sequence sequence, int64_t* tokens,
                                  int64_t* sealed_tokens) {
  return call([&] {
    const KvSequence s = sequence_of(cache, sequence);
    if (tokens) *tokens = cache->cache.length(s);
    if (sealed_tokens) *sealed_tokens = cache->cache.sealed_tokens(s);
  });
}

kvasir_status kvasir_cache_truncate(kvasir_cache* cache, kvasir_sequence sequence, int64_t tokens) {
  return call([&] { some(cache, "cache").cache.truncate(sequence_of(cache, sequence), tokens); });
}

kvasir_status kvasir_cache_begin(kvasir_cache* cache, const kvasir_slice* slices, size_t count) {
  return call([&] {
    std::vector<KvSlice> step;
    for (std::size_t i = 0; i < count; ++i) {
      const kvasir_slice& s = (&some(slices, "slices"))[i];
      step.push_back({sequence_of(cache, s.sequence), s.count, s.generated != 0});
    }
    some(cache, "cache").cache.begin(step);
  });
}

kvasir_status kvasir_cache_attend(kvasir_cache* cache, int32_t layer, const float* q, const float* k, const float* v,
                                  float* out, float scale, float soft_cap, const float* slopes, const float* sinks) {
  return call([&] { some(cache, "cache").cache.attend(layer, q, k, v, out, {scale, soft_cap, slopes, sinks}); });
}

kvasir_status kvasir_cache_commit(kvasir_cache* cache) {
  return call([&] { some(cache, "cache").cache.commit(); });
}

kvasir_status kvasir_cache_abort(kvasir_cache* cache) {
  return call([&] { some(cache, "cache").cache.abort(); });
}

kvasir_status kvasir_cache_save(const kvasir_cache* cache, kvasir_sequence sequence, void** bytes, size_t* size) {
  return call([&] {
    some(bytes, "bytes");
    some(size, "size");
    const std::vector<std::byte> all = some(cache, "cache").cache.save(sequence_of(cache, sequence));
    *bytes = copy(all.data(), all.size(), 0);
    *size = all.size();
  });
}

kvasir_status kvasir_cache_restore(kvasir_cache* cache, const void* bytes, size_t size, kvasir_sequence* sequence) {
  return call([&] {
    some(sequence, "sequence");
    if (!bytes) throw Error(Code::kBadInput, "is NULL", "bytes");
    give(cache, some(cache, "cache").cache.restore({static_cast<const std::byte*>(bytes), size}), sequence);
  });
}

kvasir_status kvasir_cache_stats(const kvasir_cache* cache, char** json) {
  return call([&] {
    const KvCacheStats s = some(cache, "cache").cache.stats();
    some(json, "json") = copy(dump({{"tokens", s.tokens},
                                    {"sealed_tokens", s.sealed_tokens},
                                    {"free_pages", s.free_pages},
                                    {"bytes_per_token", s.bytes_per_token},
                                    {"k_bits", s.k_bits},
                                    {"v_bits", s.v_bits},
                                    {"reserved_bytes", s.reserved_bytes},
                                    {"device", s.device},
                                    {"device_lost", s.device_lost},
                                    {"device_pages", s.device_pages},
                                    {"device_groups", s.device_groups}}));
  });
}

kvasir_status kvasir_pack(const char* codec, int values, const float* x, int32_t batch, int32_t heads, int64_t tokens,
                          int32_t head_dim, kvasir_packed** packed) {
  return call([&] {
    const KvCodec c(&some(codec, "codec"), head_dim, values ? KvSide::kValues : KvSide::kKeys);
    some(packed, "packed") = new kvasir_packed{PackedKv(c, x, batch, heads, tokens)};
  });
}

void kvasir_packed_free(kvasir_packed* packed) { delete packed; }
size_t kvasir_packed_bytes(const kvasir_packed* packed) { return packed->packed.bytes(); }

kvasir_status kvasir_unpack(const kvasir_packed* packed, float* x) {
  return call([&] { some(packed, "packed").packed.dequantize(x); });
}

kvasir_status kvasir_attend(const float* q, int32_t query_heads, const kvasir_packed* k, const kvasir_packed* v,
                            float scale, float* out, float* lse) {
  return call([&] {
    kvasir::attend(q, query_heads, some(k, "k").packed, some(v, "v").packed, out, {.scale = scale, .lse = lse});
  });
}

kvasir_status kvasir_kivi_open(const char* device, kvasir_kivi** kivi) {
  return call([&] {
    some(kivi, "kivi");
    Kivi made(device ? device : "cpu");
    std::string name = made.device();
    *kivi = new kvasir_kivi{std::move(made), std::move(name)};
  });
}

void kvasir_kivi_close(kvasir_kivi* kivi) { delete kivi; }
const char* kvasir_kivi_device(const kvasir_kivi* kivi) { return kivi->device.c_str(); }

kvasir_status kvasir_kivi_quantize(kvasir_kivi* kivi, const float* x, const kvasir_kivi_arrays* to) {
  return call([&] { some(kivi, "kivi").kivi.quantize(x, kivi_arrays(some(to, "to"))); });
}

kvasir_status kvasir_kivi_dequantize(kvasir_kivi* kivi, const kvasir_kivi_arrays* from, float* x) {
  return call([&] { some(kivi, "kivi").kivi.dequantize(kivi_arrays(some(from, "from")), x); });
}

kvasir_status kvasir_kivi_multiply(kvasir_kivi* kivi, const float* a, int64_t rows, const kvasir_kivi_arrays* by,
                                   float* out) {
  return call([&] { some(kivi, "kivi").kivi.multiply(a, rows, kivi_arrays(some(by, "by")), out); });
}

}  // extern "C"
