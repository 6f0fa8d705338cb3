// GGUF files made for tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "weights/gguf.hpp"
#include "weights/gguf_writer.hpp"

namespace kvasir::weights {

using Bytes = std::vector<std::byte>;

// A file of every value type and some tensors; `filler` strings make the metadata longer.
inline GgufHeader small_header(int filler = 0) {
  GgufHeader h;
  h.set_string("general.architecture", "llama");
  h.set<std::uint32_t>("llama.block_count", 2);
  h.set<float>("llama.epsilon", 1e-5f);
  h.set<bool>("flag", true);
  h.set<std::int8_t>("i8", -8);
  h.set<std::uint8_t>("u8", 200);
  h.set<std::int16_t>("i16", -1600);
  h.set<std::uint16_t>("u16", 65000);
  h.set<std::int32_t>("i32", -3);
  h.set<std::int64_t>("i64", -(std::int64_t{1} << 40));
  h.set<std::uint64_t>("u64", ~std::uint64_t{0});
  h.set<double>("f64", 0.1);
  h.set_array<std::int32_t>("types", std::vector<std::int32_t>{1, -2, 3});
  h.set_array<float>("scores", std::vector<float>{0.5f, -1.f});
  const bool flags[] = {true, false};
  h.set_array<bool>("flags", flags);
  std::vector<std::string> tokens = {"a", "", "ccc"};
  for (int i = 0; i < filler; ++i) tokens.push_back(fmt::format("token {}", i));
  h.set_strings("tokens", tokens);
  h.add_tensor("a.weight", "f32", std::vector<std::int64_t>{3, 5});
  h.add_tensor("b.weight", "q4_0", std::vector<std::int64_t>{64, 7, 2});
  h.add_tensor("c.weight", "q4_k", std::vector<std::int64_t>{256});
  h.add_tensor("d.weight", "bf16", std::vector<std::int64_t>{16, 1, 2, 3});
  return h;
}

// Header and data; the data of tensor i is filled with the byte i + 1.
inline Bytes whole(const GgufHeader& h) {
  Bytes file = h.encode();
  for (std::size_t i = 0; i < h.sizes().size(); ++i) {
    file.insert(file.end(), h.sizes()[i], static_cast<std::byte>(i + 1));
    file.resize((file.size() + h.alignment() - 1) / h.alignment() * h.alignment());
  }
  return file;
}

// What parse_gguf says about a file; empty: nothing.
inline std::string error_of(std::span<const std::byte> file) {
  try {
    parse_gguf(file, "x.gguf");
  } catch (const Error& e) {
    EXPECT_EQ(e.context(), "x.gguf");
    return e.message();
  }
  return "";
}

}  // namespace kvasir::weights
