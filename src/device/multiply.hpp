// Products of packed weights with prepared activations on an OpenCL device, one program a type of weights.
#pragma once

#include <memory>
#include <vector>

#include "device/driver.hpp"
#include "device/programs.hpp"
#include "device/weight_forms.hpp"

namespace kvasir::device {

class Multiplier {
 public:
  // matrix_units: by NVIDIA's, in its assembler.
  Multiplier(const Context& context, Programs& programs, bool matrix_units, std::string options = kOptions)
      : context_(context), programs_(programs), matrix_units_(matrix_units), options_(std::move(options)) {}

  // Compiles what is needed for weights of this type. Throws as Programs::get.
  void prepare(const WeightForm& form);

  struct Task {
    const WeightForm* form;  // prepared
    const Buffer* weights;   // panels
    std::int64_t k, rows;
    std::int64_t panel_bytes;
    const Buffer* x;  // kernel::Activations::data of `columns` columns
    std::int64_t columns;
    const Buffer* out;
    std::int64_t out_at;  // (columns, rows) from this float on
  };
  // Queues it, behind `after` where there is such an event; `done`, where given, is its end.
  void launch(const Task& task, const Event& after = {}, Event* done = nullptr);

  bool matrix_units() const { return matrix_units_; }

 private:
  const Context& context_;
  Programs& programs_;
  bool matrix_units_;
  std::string options_;
  std::vector<std::pair<const WeightForm*, Kernel>> kernels_;
};

// Rows and columns of a trial; k in blocks of the type.
struct ProductTrial {
  std::int64_t rows = 50;
  std::int64_t blocks = 9;
  std::int64_t columns = 37;
  unsigned seed = 1;
};
// What a trial multiplies, and what the processor makes of it.
struct ProductCase {
  std::int64_t k = 0, panel_bytes = 0;
  std::vector<std::byte> panels;
  std::vector<std::byte> x;
  std::vector<float> expected;  // (columns, rows)
};
ProductCase make_case(const WeightForm& form, const ProductTrial& trial);
// The first number that is another one, as text; empty: there is none.
std::string compare(const WeightForm& form, const ProductTrial& trial, std::span<const float> expected,
                    std::span<const float> got);
std::string check(const Context& context, Multiplier& multiplier, const WeightForm& form, const ProductTrial& trial);

// check() of odd sizes of less and more than a tile of columns. Throws Error(kUnsupported) that says what check said.
void require(const Context& context, Multiplier& multiplier, const WeightForm& form);

}  // namespace kvasir::device
