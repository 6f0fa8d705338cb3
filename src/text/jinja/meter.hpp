// What one render may use: templates come with model files and are not to be trusted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvasir::text::jinja {

struct Limits {
  std::size_t output = std::size_t{64} << 20;   // bytes of the rendered text, and of every text on the way
  std::size_t memory = std::size_t{512} << 20;  // bytes of all values made during the render, freed ones included
  std::uint64_t steps = 20'000'000;             // nodes evaluated, plus what long operations count for
  int depth = 800;                              // nested evaluations: macro calls, blocks, expressions
};

// Counts and throws Error(kBadInput) when a limit is passed. Operations ask before they do.
class Meter {
 public:
  explicit Meter(const Limits& limits) : limits_(limits) {}

  void step(std::uint64_t n = 1) {
    steps_ += n;
    if (steps_ > limits_.steps) too_many_steps();
  }
  // Reading `n` bytes.
  void scan(std::size_t n) { step(n / 64 + 1); }
  // Values of `n` bytes are about to be made.
  void allocate(std::size_t n) {
    if (n > limits_.memory - memory_) too_much_memory();
    memory_ += n;
    step(n / 64);
  }
  // `count` strings or copies of `each` bytes: the product may not fit into a number.
  void allocate(std::size_t count, std::size_t each) {
    if (each != 0 && count > limits_.memory / each) too_much_memory();
    allocate(count * each);
  }
  void check_output(std::size_t n) const {
    if (n > limits_.output) too_much_output();
  }
  void enter() {
    if (++depth_ > limits_.depth) too_deep();
  }
  void leave() { --depth_; }

 private:
  [[noreturn]] void too_many_steps() const;
  [[noreturn]] void too_much_memory() const;
  [[noreturn]] void too_much_output() const;
  [[noreturn]] void too_deep() const;

  Limits limits_;
  std::uint64_t steps_ = 0;
  std::size_t memory_ = 0;
  int depth_ = 0;
};

class Nesting {
 public:
  explicit Nesting(Meter& meter) : meter_(meter) { meter_.enter(); }
  ~Nesting() { meter_.leave(); }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Meter& meter_;
};

}  // namespace kvasir::text::jinja
