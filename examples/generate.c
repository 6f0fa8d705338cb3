/* The smallest program in C that lets a model write.
 *
 * usage: example_generate_c [MODEL.gguf [TEXT]]     --quick: the bundled model and few tokens, for tests */
#include <stdio.h>
#include <string.h>

#include "kvasir/kvasir.h"

static int print(const char* text, size_t size, void* user) {
  (void)user;
  fwrite(text, 1, size, stdout);
  fflush(stdout);
  return 0;
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, kvasir_error());
  return 1;
}

int main(int argc, char** argv) {
  const int quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
  const char* model = argc > 1 && !quick ? argv[1] : KVASIR_EXAMPLE_MODEL;
  const char* text = argc > 2 ? argv[2] : "It was a dark and stormy night, and";
  const char* const options[] = {"threads=2", "ctx=1024", NULL};
  const char* const request[] = {quick ? "n_predict=16" : "n_predict=64", "temperature=0", NULL};
  kvasir_engine* engine = NULL;
  kvasir_reply* reply = NULL;
  int status = 0;
  if (kvasir_engine_open(model, options, NULL, NULL, &engine)) return fail("open");
  printf("%s", text);
  if (kvasir_generate(engine, text, strlen(text), request, print, NULL, &reply)) {
    status = fail("generate");
  } else {
    printf("\n\nfinish: %s\n", kvasir_reply_finish(reply));
  }
  kvasir_reply_free(reply);
  kvasir_engine_close(engine);
  return status;
}
