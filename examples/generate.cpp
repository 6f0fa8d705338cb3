// A story told in two ways: the model loaded, a text continued, the beginning reused.
//
// usage: example_generate [MODEL.gguf [TEXT]]     --quick: the bundled model and few tokens, for tests
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "kvasir/engine.hpp"

namespace {

bool print(std::string_view text) {
  std::printf("%.*s", static_cast<int>(text.size()), text.data());
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) try {
  const bool quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const std::string model = argc > 1 && !quick ? argv[1] : KVASIR_EXAMPLE_MODEL;
  const std::string text = argc > 2 ? argv[2] : "It was a dark and stormy night, and";
  kvasir::Engine engine(model, {{"threads", 2}, {"ctx", 1024}});

  kvasir::Session story(engine);
  story.append(text);
  kvasir::Session other = story.fork();
  const int n = quick ? 16 : 64;
  std::printf("%s", text.c_str());
  story.generate({{"n_predict", n}, {"temperature", 0}}, print);
  std::printf("\n\n%s", text.c_str());
  const kvasir::Reply reply = other.generate({{"n_predict", n}, {"temperature", 0.8}, {"seed", 7}}, print);
  std::printf("\n\n%lld of %lld prompt tokens were reused, the first new one came after %.1f ms\n",
              static_cast<long long>(reply.receipt.reused_tokens), static_cast<long long>(reply.prompt_tokens),
              1e3 * reply.first_token_seconds);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
