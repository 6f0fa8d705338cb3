/* Kvasir for programs in C, and for bindings of other languages: a model that answers (kvasir/engine.hpp), and the KV
 * cache alone (kvasir/kv_cache.hpp, kvasir/codecs.hpp, kvasir/kivi.hpp), which say more about each call.
 *
 *   const char* const options[] = {"threads=2", "cache_dir=cache", NULL};
 *   kvasir_engine* engine;
 *   if (kvasir_engine_open("model.gguf", options, NULL, NULL, &engine)) return puts(kvasir_error());
 *   const char* const request[] = {"n_predict=64", "temperature=0", NULL};
 *   kvasir_reply* reply;
 *   if (kvasir_generate(engine, "Once upon a time", 16, request, NULL, NULL, &reply)) return puts(kvasir_error());
 *   puts(kvasir_reply_text(reply, NULL));
 *   kvasir_reply_free(reply);
 *   kvasir_engine_close(engine);
 *
 * Every call that can fail returns a status; then nothing was made, results are untouched, and kvasir_error() says
 * what is wrong. Texts are UTF-8 with a length; those that come back also end in a zero byte. Options are texts
 * NAME=VALUE, ended by NULL; NULL itself is no options. Their names are those of kvasir/engine.hpp, the same in every
 * language. Nothing throws, prints or exits. */
#ifndef KVASIR_H
#define KVASIR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvasir_status {
  KVASIR_OK = 0,
  KVASIR_BAD_INPUT = 1,   /* the caller's argument, option or file is wrong */
  KVASIR_IO = 2,          /* the system refused a file or a connection */
  KVASIR_MEMORY = 3,      /* a budget or the machine's memory does not allow it */
  KVASIR_UNSUPPORTED = 4, /* well formed, but this build, machine or state cannot do it */
  KVASIR_CANCELLED = 5,
  KVASIR_BUSY = 6,    /* the same call may succeed later */
  KVASIR_INTERNAL = 7 /* a defect of the library */
} kvasir_status;

/* Of the last call that failed in this thread; good until the next one fails. */
const char* kvasir_error(void);
const char* kvasir_version(void);
/* {"engine": [...], "request": [...]}: every option with name, type, expects, preset, unit and help. */
kvasir_status kvasir_options(char** json);
/* Frees ids and texts that a call made. NULL is fine. */
void kvasir_free(void* memory);

/* ---- A model ------------------------------------------------------------------------------------------------------
 */

typedef struct kvasir_engine kvasir_engine; /* any number of threads */
typedef struct kvasir_reply kvasir_reply;

/* Bytes of the model that are loaded. */
typedef void (*kvasir_on_progress)(int64_t done, int64_t total, void* user);
/* Text of an answer, as it comes, in a thread of the engine; not 0 ends the answer. */
typedef int (*kvasir_on_text)(const char* text, size_t size, void* user);

kvasir_status kvasir_engine_open(const char* model, const char* const* options, kvasir_on_progress on_progress,
                                 void* user, kvasir_engine** engine);
/* REQUIRES: its sessions are closed and no call runs. NULL is fine. */
void kvasir_engine_close(kvasir_engine* engine);
/* JSON with the fields of kvasir::ModelInfo and kvasir::EngineStats; kvasir_free. */
kvasir_status kvasir_engine_info(const kvasir_engine* engine, char** json);
kvasir_status kvasir_engine_stats(const kvasir_engine* engine, char** json);
kvasir_status kvasir_engine_flush(kvasir_engine* engine);
/* Forgets everything that is kept; see kvasir::Engine::reset_cache. */
kvasir_status kvasir_engine_reset_cache(kvasir_engine* engine);

kvasir_status kvasir_generate(kvasir_engine* engine, const char* prompt, size_t size, const char* const* options,
                              kvasir_on_text on_text, void* user, kvasir_reply** reply);
kvasir_status kvasir_generate_ids(kvasir_engine* engine, const int32_t* ids, size_t count, const char* const* options,
                                  kvasir_on_text on_text, void* user, kvasir_reply** reply);
/* Rows of floats in place of tokens, where the prompt's ids are -1; see kvasir::PromptRows. */
typedef struct kvasir_rows {
  int64_t begin;       /* element of the prompt */
  const float* values; /* (count, width of kvasir_engine_info) */
  size_t count;        /* of rows */
} kvasir_rows;
kvasir_status kvasir_generate_rows(kvasir_engine* engine, const int32_t* ids, size_t count, const kvasir_rows* rows,
                                   size_t runs, const char* const* options, kvasir_on_text on_text, void* user,
                                   kvasir_reply** reply);
/* Pictures, where the prompt says <image> or else in front of it; the engine needs the option mmproj. */
typedef struct kvasir_image {
  const void* data; /* bytes of a JPEG, PNG or WebP file */
  size_t size;
} kvasir_image;
kvasir_status kvasir_generate_images(kvasir_engine* engine, const char* prompt, size_t size, const kvasir_image* images,
                                     size_t count, const char* const* options, kvasir_on_text on_text, void* user,
                                     kvasir_reply** reply);
/* The model's rows of tokens, (count, width): *size numbers; kvasir_free. */
kvasir_status kvasir_rows_of(const kvasir_engine* engine, const int32_t* ids, size_t count, float** values,
                             size_t* size);
/* replies[i] answers prompts[i], of sizes[i] bytes. When one fails there are no replies. */
kvasir_status kvasir_generate_batch(kvasir_engine* engine, const char* const* prompts, const size_t* sizes,
                                    size_t count, const char* const* options, kvasir_reply** replies);
/* Options: pooling, dimensions, raw. The vector has *count numbers; kvasir_free. */
kvasir_status kvasir_embed(kvasir_engine* engine, const char* text, size_t size, const char* const* options,
                           float** vector, size_t* count);
/* The documents' relevance, *scores[i] of documents[i] of sizes[i] bytes; kvasir_free. Option: raw. */
kvasir_status kvasir_rerank(kvasir_engine* engine, const char* query, size_t size, const char* const* documents,
                            const size_t* sizes, size_t count, const char* const* options, double** scores);
/* messages, tools: JSON arrays as in /v1/chat/completions; tools may be NULL. Pictures are parts image_url with data:
 * URLs. */
kvasir_status kvasir_chat(kvasir_engine* engine, const char* messages, const char* tools, const char* const* options,
                          kvasir_on_text on_text, void* user, kvasir_reply** reply);
kvasir_status kvasir_chat_prompt(const kvasir_engine* engine, const char* messages, const char* tools, char** text);
kvasir_status kvasir_warm(kvasir_engine* engine, const char* prompt, size_t size, const char* const* options,
                          int64_t* tokens);

kvasir_status kvasir_tokenize(const kvasir_engine* engine, const char* text, size_t size, int add_bos, int special,
                              int32_t** ids, size_t* count);
kvasir_status kvasir_detokenize(const kvasir_engine* engine, const int32_t* ids, size_t count, char** text,
                                size_t* size);

/* What they return lives as long as the reply; size and count may be NULL. */
const char* kvasir_reply_text(const kvasir_reply* reply, size_t* size);
const int32_t* kvasir_reply_ids(const kvasir_reply* reply, size_t* count);
const char* kvasir_reply_finish(const kvasir_reply* reply);
/* JSON with all of kvasir::Reply. */
const char* kvasir_reply_json(const kvasir_reply* reply);
void kvasir_reply_free(kvasir_reply* reply);

/* ---- A text that grows --------------------------------------------------------------------------------------------
 */

typedef struct kvasir_session kvasir_session; /* one thread at a time; its engine outlives it */

kvasir_status kvasir_session_open(kvasir_engine* engine, const char* tenant, kvasir_session** session);
kvasir_status kvasir_session_load(kvasir_engine* engine, const char* path, kvasir_session** session);
kvasir_status kvasir_session_save(const kvasir_session* session, const char* path);
kvasir_status kvasir_session_fork(const kvasir_session* session, kvasir_session** fork);
void kvasir_session_close(kvasir_session* session);
kvasir_status kvasir_session_append(kvasir_session* session, const char* text, size_t size);
kvasir_status kvasir_session_append_ids(kvasir_session* session, const int32_t* ids, size_t count);
kvasir_status kvasir_session_truncate(kvasir_session* session, int64_t tokens);
kvasir_status kvasir_session_generate(kvasir_session* session, const char* const* options, kvasir_on_text on_text,
                                      void* user, kvasir_reply** reply);
/* Good until the session changes. */
const int32_t* kvasir_session_ids(const kvasir_session* session, size_t* count);
kvasir_status kvasir_session_text(const kvasir_session* session, char** text, size_t* size);

/* ---- The cache of a model that is the caller's ----------------------------------------------------------------------
 */

typedef struct kvasir_cache kvasir_cache; /* one thread at a time */
typedef uint64_t kvasir_sequence;         /* never 0 */

typedef struct kvasir_layer {
  int32_t kv_heads, query_heads, head_dim;
  int32_t head_dim_v; /* 0: head_dim */
  int64_t window;     /* 0: all tokens */
} kvasir_layer;

typedef struct kvasir_slice {
  kvasir_sequence sequence;
  int32_t count;
  int32_t generated; /* not 0: tokens that the model chose */
} kvasir_slice;

/* Options: codecs, window, residual, sinks, max_tokens, max_sequences, step_tokens, threads, device. */
kvasir_status kvasir_cache_open(const kvasir_layer* layers, size_t count, const char* const* options,
                                kvasir_cache** cache);
void kvasir_cache_close(kvasir_cache* cache);
kvasir_status kvasir_cache_create(kvasir_cache* cache, kvasir_sequence* sequence);
kvasir_status kvasir_cache_fork(kvasir_cache* cache, kvasir_sequence sequence, kvasir_sequence* fork);
kvasir_status kvasir_cache_release(kvasir_cache* cache, kvasir_sequence sequence);
kvasir_status kvasir_cache_reset(kvasir_cache* cache);
kvasir_status kvasir_cache_length(const kvasir_cache* cache, kvasir_sequence sequence, int64_t* tokens,
                                  int64_t* sealed_tokens);
kvasir_status kvasir_cache_truncate(kvasir_cache* cache, kvasir_sequence sequence, int64_t tokens);
kvasir_status kvasir_cache_begin(kvasir_cache* cache, const kvasir_slice* slices, size_t count);
/* Arrays as of kvasir::KvCache::attend. scale 0: 1 / sqrt(head_dim); soft_cap 0: none; slopes and sinks may be NULL. */
kvasir_status kvasir_cache_attend(kvasir_cache* cache, int32_t layer, const float* q, const float* k, const float* v,
                                  float* out, float scale, float soft_cap, const float* slopes, const float* sinks);
kvasir_status kvasir_cache_commit(kvasir_cache* cache);
kvasir_status kvasir_cache_abort(kvasir_cache* cache);
kvasir_status kvasir_cache_save(const kvasir_cache* cache, kvasir_sequence sequence, void** bytes, size_t* size);
kvasir_status kvasir_cache_restore(kvasir_cache* cache, const void* bytes, size_t size, kvasir_sequence* sequence);
/* JSON with the fields of kvasir::KvCacheStats; kvasir_free. */
kvasir_status kvasir_cache_stats(const kvasir_cache* cache, char** json);

/* ---- Packed arrays ------------------------------------------------------------------------------------------------
 */

typedef struct kvasir_packed kvasir_packed;

/* x [batch][heads][tokens][head_dim] by `codec` ("int4_channel", "rq3"); values: 0 for keys, 1 for values. */
kvasir_status kvasir_pack(const char* codec, int values, const float* x, int32_t batch, int32_t heads, int64_t tokens,
                          int32_t head_dim, kvasir_packed** packed);
void kvasir_packed_free(kvasir_packed* packed);
size_t kvasir_packed_bytes(const kvasir_packed* packed);
kvasir_status kvasir_unpack(const kvasir_packed* packed, float* x);
/* As kvasir::attend; scale 0: 1 / sqrt(head_dim); lse may be NULL. */
kvasir_status kvasir_attend(const float* q, int32_t query_heads, const kvasir_packed* k, const kvasir_packed* v,
                            float scale, float* out, float* lse);

/* ---- KIVI's arrays ------------------------------------------------------------------------------------------------
 */

typedef struct kvasir_kivi kvasir_kivi; /* any number of threads */

/* As kvasir::KiviArrays, whose names these are. */
typedef struct kvasir_kivi_arrays {
  int32_t values;         /* 0: keys, 1: values */
  int32_t float32_scales; /* 0: IEEE halves */
  int32_t bits;           /* 2, 4, 8 */
  int32_t group;
  int64_t heads, tokens, head_dim;
  void *codes, *scales, *minima;
} kvasir_kivi_arrays;

/* device: cpu (or NULL), gpu, xpu, cuda, opencl, opencl:N, sycl, sycl:NAME (docs/gpu.md); all have the same bits. */
kvasir_status kvasir_kivi_open(const char* device, kvasir_kivi** kivi);
void kvasir_kivi_close(kvasir_kivi* kivi);
/* "cpu", or the name of the device that was found; good until it is closed. */
const char* kvasir_kivi_device(const kvasir_kivi* kivi);
kvasir_status kvasir_kivi_quantize(kvasir_kivi* kivi, const float* x, const kvasir_kivi_arrays* to);
kvasir_status kvasir_kivi_dequantize(kvasir_kivi* kivi, const kvasir_kivi_arrays* from, float* x);
/* q K^T of keys, p V of values. */
kvasir_status kvasir_kivi_multiply(kvasir_kivi* kivi, const float* a, int64_t rows, const kvasir_kivi_arrays* by,
                                   float* out);

#ifdef __cplusplus
}
#endif
#endif
