// A folder's tensors, one by one, as GGUF has them. Matrices stay where they are: what lies otherwise there is made row
// by row when it is asked for. Norms and other vectors, which are small, become floats.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hub/config.hpp"
#include "hub/tensor_list.hpp"
#include "weights/model_file.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::hub {

// Of layers that are not computed, or a tensor that nobody needs.
bool unused(const Configuration& c, const Place& place);

class Translation {
 public:
  // Both must outlive it. `folder` names it in messages.
  Translation(const Configuration& configuration, const std::string& folder)
      : configuration_(configuration), folder_(folder), list_(folder) {}

  // A tensor of the file `path`. Throws Error naming file, tensor and expectation.
  void add(const weights::ShardTensor& tensor, const std::string& path);
  // The weight or the bias of a module that vectors of texts go through, `number` of them before it.
  void add_dense(std::size_t number, const weights::ShardTensor& tensor, const std::string& path);
  // Behind the last one: what is made of several.
  void finish();

  std::vector<weights::TensorInfo>& tensors() { return list_.tensors; }
  std::vector<std::vector<float>>& floats() { return list_.floats; }
  std::map<std::string, std::vector<double>> numbers;              // of each layer, by key
  std::map<std::string, std::vector<std::int64_t>> whole_numbers;  // Make::kNumbers, by key

 private:
  void add_int4(const std::string& stem, const std::map<std::string, weights::ShardTensor>& parts);
  void add_coded(const std::string& stem, const std::map<std::string, weights::ShardTensor>& parts);
  void add_f8(const weights::ShardTensor& tensor);
  void add_mxfp4();
  // A matrix, or matrices, of whichever type.
  void put(const std::string& name, weights::TensorInfo info, const std::string& path);
  void put_number(const Place& place, const weights::ShardTensor& t, std::string_view quant, const std::string& path);
  void put_vector(const Place& place, const weights::TensorInfo& info, const std::string& path);
  void place_matrix(const Place& place, weights::TensorInfo info, const std::string& path);
  void place_gate_and_up(const Place& place, weights::TensorInfo info, const std::string& path);
  void check_numbers() const;
  void join_parts();
  void stack_experts();
  void join_shards();

  const Configuration& configuration_;
  const std::string& folder_;
  std::map<std::string, std::map<std::string, weights::ShardTensor>> int4_parts_, coded_parts_;  // by stem
  std::map<std::string, std::map<std::int64_t, float>> factors_;  // of whole matrices, by name in GGUF and expert
  std::vector<weights::ShardTensor> f8_;
  std::map<std::string, weights::ShardTensor> f8_scales_;                               // by stem
  std::map<std::string, std::pair<weights::ShardTensor, weights::ShardTensor>> mxfp4_;  // blocks and scales, by stem
  std::map<std::string, std::map<std::int64_t, weights::TensorInfo>> experts_;          // by name in GGUF
  std::map<std::string, std::map<std::int64_t, weights::TensorInfo>> shards_;           // likewise, Make::kShard
  std::map<std::string, std::map<char, weights::TensorInfo>> parts_;  // of rows, by name in GGUF and number
  weights::TensorInfo widen_in_, widen_out_;  // OPT's narrow embedding: (dim, narrow) and (narrow, dim)
  TensorList list_;
};

}  // namespace kvasir::hub
