// For tests: the bundled model with further metadata, as a file of its own.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.hpp"
#include "weights/gguf_writer.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run::testing {

class ModelWithKeys {
 public:
  // set(header) adds the keys.
  template <class Set>
  explicit ModelWithKeys(Set&& set)
      : path_(std::filesystem::temp_directory_path() / ("kvasir-keys-" + std::to_string(getpid()) + ".gguf")) {
    const std::string books = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
    const auto model = weights::open_model_file(books);
    const std::string bytes = read_text_file(books);
    weights::GgufHeader header;
    set(header);
    header.copy_metadata({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, {});
    for (const weights::TensorInfo& t : model->tensors())
      header.add_tensor(t.name, t.quant, {t.shape.data(), static_cast<std::size_t>(t.rank)});
    weights::GgufWriter out(path_, header);
    for (const weights::TensorInfo& t : model->tensors()) out.write(t.bytes);
    out.finish();
  }
  ~ModelWithKeys() { std::filesystem::remove(path_); }
  ModelWithKeys(const ModelWithKeys&) = delete;
  ModelWithKeys& operator=(const ModelWithKeys&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace kvasir::run::testing
