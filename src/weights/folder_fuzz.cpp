// libFuzzer target: what lies in a model's folder is read, or an Error. The first byte says which file it is.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "weights/safetensors/config.hpp"
#include "weights/safetensors/shard.hpp"
#include "weights/safetensors/tokenizer_config.hpp"

namespace {

using namespace kvasir;           // NOLINT(google-build-using-namespace)
using namespace kvasir::weights;  // NOLINT(google-build-using-namespace)

void read_shard(std::span<const std::byte> file) {
  unsigned sum = 0;
  std::size_t bytes = 0;
  for (const ShardTensor& t : parse_safetensors(file, "fuzz")) {
    bytes += t.bytes.size();
    for (const std::byte b : t.bytes) sum += std::to_integer<unsigned>(b);
  }
  if (bytes > file.size()) std::abort();
  asm volatile("" : : "r"(sum));  // the reads stay
}

void read_configuration(std::string_view text) {
  Metadata metadata("fuzz");
  const std::string path = "fuzz";
  const Configuration c = read_config(parse_folder_json(text, path), path, metadata);
  if (!c.family || c.heads < 1 || !metadata.has("general.architecture")) std::abort();
}

void read_texts(std::string_view text) {
  Metadata metadata("fuzz");
  const TokenizerFiles files{
      .tokenizer = parse_folder_json(text, "fuzz"), .config = {}, .generation = {}, .model = {}, .chat_template = {}};
  read_tokenizer(files, 64, "fuzz", metadata);
  if (metadata.get_strings("tokenizer.ggml.tokens")->size() != 64) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0:
        read_shard(std::as_bytes(std::span(text)));
        break;
      case 1:
        read_configuration(text);
        break;
      default:
        read_texts(text);
    }
  } catch (const Error& e) {
    if (e.context().substr(0, 4) != "fuzz" || e.message().empty()) std::abort();
  }
  return 0;
}
