// The tensors of a folder as GGUF has them, each name once, and the floats that are made for them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::hub {

class TensorList {
 public:
  // `folder` names it in messages, and must outlive this.
  explicit TensorList(const std::string& folder) : folder_(folder) {}

  std::vector<weights::TensorInfo> tensors;
  std::vector<std::vector<float>> floats;

  // Throws Error(kBadInput) for a name that is there. `path`: the file that it comes from.
  void push(weights::TensorInfo info, const std::string& path);
  void add_floats(const std::string& name, std::vector<float> values, std::int64_t rows = 1);
  // Rows are looked up where they lie, so those that have to be made are kept.
  void add_rows(const std::string& name, const weights::TensorInfo& info);

  // Of tied models: files may hold the embedding twice. A head of other numbers (a fine-tune of the head alone) stays.
  void drop_tied_head();
  // An embedding of narrow rows, with a matrix behind it (dim, narrow) and one in front of the head (narrow, dim), as
  // an embedding and a head of floats. Nothing where both matrices have no name.
  void widen(const weights::TensorInfo& in, const weights::TensorInfo& out);

 private:
  using Place = std::vector<weights::TensorInfo>::iterator;
  Place find(std::string_view name);
  void erase(Place at);

  const std::string& folder_;
  std::set<std::string> names_;
};

}  // namespace kvasir::hub
