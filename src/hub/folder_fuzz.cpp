// libFuzzer target: what lies in a model's folder is read, or an Error. The first byte says which file it is.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "hub/config.hpp"
#include "hub/tokenizer_config.hpp"
#include "text/tokenizer.hpp"
#include "weights/safetensors/int4_rows.hpp"
#include "weights/safetensors/shard.hpp"

namespace {

using namespace kvasir;           // NOLINT(google-build-using-namespace)
using namespace kvasir::weights;  // NOLINT(google-build-using-namespace)
using namespace kvasir::hub;      // NOLINT(google-build-using-namespace)

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
  if (c.family.arch.empty() || c.heads < 1 || !metadata.has("general.architecture")) std::abort();
}

void read_texts(std::string_view text) {
  Metadata metadata("fuzz");
  const TokenizerFiles files{
      .tokenizer = parse_folder_json(text, "fuzz"), .config = {}, .generation = {}, .model = {}, .chat_template = {}};
  read_tokenizer(files, 64, "fuzz", metadata);
  if (metadata.get_strings("tokenizer.ggml.tokens")->size() != 64) std::abort();
  const auto tokenizer = text::make_tokenizer(metadata);
  for (const std::int32_t id : tokenizer->encode("Ab\u0301 \u0930\u093f 12\r\n\xff\u2581"))
    if (id < 0 || id >= 64) std::abort();
}

// The parts of one matrix of 4-bit codes, in each of the three ways.
void read_int4(std::span<const std::byte> file) {
  const std::vector<ShardTensor> tensors = parse_safetensors(file, "fuzz");
  for (const Int4Method method : {Int4Method::kAwq, Int4Method::kGptq, Int4Method::kCompressed})
    for (const std::int64_t group : {0, 32}) {
      std::map<std::string, ShardTensor> parts;
      for (const ShardTensor& t : tensors)
        if (const auto part = int4_part("x." + t.name, method)) parts[part->part] = t;
      try {
        const TensorInfo t = int4_matrix({method, group, group == 32}, parts, "x", "fuzz");
        std::vector<std::byte> row;
        for (std::int64_t r = 0; r < t.rows(); ++r) t.row(r, row);
        if (static_cast<std::int64_t>(row.size()) != t.row_bytes()) std::abort();
      } catch (const Error& e) {
        if (e.context().substr(0, 4) != "fuzz" || e.message().empty()) std::abort();
      }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 4) {
      case 0:
        read_shard(std::as_bytes(std::span(text)));
        break;
      case 1:
        read_configuration(text);
        break;
      case 2:
        read_texts(text);
        break;
      default:
        read_int4(std::as_bytes(std::span(text)));
    }
  } catch (const Error& e) {
    if (e.context().substr(0, 4) != "fuzz" || e.message().empty()) std::abort();
  }
  return 0;
}
