// The suites of scheduling and reuse under other configurations: the environment variable KVASIR_SUITE, words with
// commas between them, changes the options that these tests make their engines with (cmake/tests.cmake says which run).
//   tiny        the preset of fewest bits in place of `balanced` and `f16`
//   disk        sealed pages in a file, a part of them in memory
//   residual    pages are sealed in the middle of others
//   quest       generated tokens choose blocks of the context
//   device      a device beside the processor folds sealed pages (kv/device_fixture.hpp)
//   opencl      an OpenCL device does, for generated tokens: one that is a processor takes minutes for prompts of thousands
//   prompts     ... and folds for prompts, too, and multiplies them with weights that are rounded to q4_0
//   threads=N   N threads
#pragma once

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "device/driver.hpp"
#include "device/pages.hpp"
#include "kv/device_fixture.hpp"
#include "run/engine.hpp"

namespace kvasir::testing {}

namespace kvasir::run::testing {

using namespace kvasir::testing;  // testing::NAME is a name of either in tests of kvasir::run

inline EngineOptions as_the_suite_says(EngineOptions o) {
  const char* suite = std::getenv("KVASIR_SUITE");
  std::istringstream words(suite ? suite : "");
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "tiny") {
      if (o.kv == "balanced" || o.kv == "f16") o.kv = "tiny";
    } else if (word == "disk") {
      o.kv_memory = "4MiB";
    } else if (word == "residual") {
      o.residual = 40;
    } else if (word == "quest") {
      o.select = "quest:budget=256";
    } else if (word == "opencl") {
      if (device::survey().devices.empty()) {
        std::puts("SKIPPED: no OpenCL device (pocl-opencl-icd ocl-icd-libopencl1)");
        std::exit(77);
      }
      o.device = word;
      o.device_from = 0;
      o.device_weights = "0";
    } else if (word == "prompts") {  // behind opencl
      if (o.weights.empty()) o.weights = "q4_0";
      o.device_weights = "1MiB";  // not all of the bundled model's: some stay there, others come and go
    } else if (word == "device") {
      // see below
    } else if (word.starts_with("threads=")) {
      o.threads = std::atoi(word.c_str() + 8);
    } else {
      throw Error(Code::kBadInput, "unknown word '" + word + "'", "KVASIR_SUITE");
    }
  }
  return o;
}
// Of a device that is asked for the rows of generated tokens alone.
class GeneratedTokens final : public device::Pages {
 public:
  using Pages::Pages;
  std::int64_t from_tokens(int rows) const noexcept override { return rows < 32 ? 0 : kv::DeviceStats::kNever; }
};

inline Engine::Needs as_the_suite_says(Engine::Needs needs) {
  needs.device = kv::fixture::suite_device();
  const char* const suite = std::getenv("KVASIR_SUITE");
  if (const std::string words = suite ? suite : "";
      words.find("opencl") != std::string::npos && words.find("prompts") == std::string::npos)
    if (const device::Survey all = device::survey(); !all.devices.empty())
      needs.device = std::make_shared<GeneratedTokens>(device::choose(all, "opencl"), 0);
  return needs;
}

}  // namespace kvasir::run::testing
