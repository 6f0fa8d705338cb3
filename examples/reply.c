/* An answer and all that is said about it, as JSON.
 *
 * usage: example_reply_c MODEL.gguf TEXT [ENGINE-OPTION=VALUE...] [-- REQUEST-OPTION=VALUE...]
 *        --quick: the bundled model and few tokens, for tests */
#include <stdio.h>
#include <string.h>

#include "kvasir/kvasir.h"

enum { kMost = 64 };

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, kvasir_error());
  return 1;
}

int main(int argc, char** argv) {
  const int quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
  const char* model = quick ? KVASIR_EXAMPLE_MODEL : argv[1];
  const char* text = quick ? "It was a dark and stormy night, and" : argv[2];
  const char* engine_options[kMost] = {"threads=2"};
  const char* request_options[kMost] = {"logprobs=true", "temperature=0", "n_predict=16"};
  size_t engine_count = 1;
  size_t request_count = 3;
  int behind = 0;
  int i;
  kvasir_engine* engine = NULL;
  kvasir_reply* reply = NULL;
  int status = 0;
  if (!quick && argc < 3) {
    fprintf(stderr, "usage: %s MODEL.gguf TEXT [ENGINE-OPTION=VALUE...] [-- REQUEST-OPTION=VALUE...]\n", argv[0]);
    return 2;
  }
  for (i = 3; i < argc && engine_count < kMost - 1 && request_count < kMost - 1; ++i) {
    if (strcmp(argv[i], "--") == 0)
      behind = 1;
    else if (behind)
      request_options[request_count++] = argv[i];
    else
      engine_options[engine_count++] = argv[i];
  }
  if (kvasir_engine_open(model, engine_options, NULL, NULL, &engine)) return fail("open");
  if (kvasir_generate(engine, text, strlen(text), request_options, NULL, NULL, &reply))
    status = fail("generate");
  else
    puts(kvasir_reply_json(reply));
  kvasir_reply_free(reply);
  kvasir_engine_close(engine);
  return status;
}
