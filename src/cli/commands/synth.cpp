// kvasir synth --shape NAME --quant TYPE OUT.gguf: a model of a real shape with random weights.
#include "model/synth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/error.hpp"
#include "base/options.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "weights/quant.hpp"

namespace kvasir::cli::commands_synth {
namespace {

struct SynthOptions {
  std::string shape = "tiny";
  std::string quant = "q4_0";
  std::int32_t layers = 0;  // 0: the shape's
  std::int64_t seed = 0;
  std::int32_t threads = 0;
};

const OptionTable<SynthOptions>& synth_table() {
  static const OptionTable<SynthOptions> table = [] {
    OptionInfo shape{.help = "model whose shape is taken", .placeholder = "NAME"};
    for (const auto& s : model::synth_shapes()) shape.choices.emplace_back(s.name);
    return OptionTable<SynthOptions>{
        "synth",
        {{"shape", &SynthOptions::shape, shape},
         {"quant",
          &SynthOptions::quant,
          {.help = "weight type of the matrices: " + names(weights::quants()), .placeholder = "TYPE"}},
         {"layers",
          &SynthOptions::layers,
          {.help = "more or fewer layers than the shape has; 0 is the shape's own", .low = 0, .high = 1024}},
         {"seed", &SynthOptions::seed, {.help = "of the random weights; the same seed gives the same file", .low = 0}},
         {"threads", &SynthOptions::threads, {.help = "0 takes all processors", .low = 0, .high = 512}}}};
  }();
  return table;
}

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

int synth(const SynthOptions& o, const std::string& path, bool json) {
  const auto start = std::chrono::steady_clock::now();
  Team team(o.threads > 0 ? o.threads : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 512));
  const Interrupt interrupt;
  ProgressBar bar("writing " + path);
  const std::string quant = lower(o.quant);
  model::SynthShape shape = model::find_synth_shape(o.shape);
  if (o.layers > 0) shape.layers = o.layers;
  const auto result = model::write_synthetic_model(
      path, shape, quant, static_cast<std::uint64_t>(o.seed), team, [&](std::uint64_t done, std::uint64_t total) {
        if (interrupt.requested().load(std::memory_order_relaxed))
          throw Error(Code::kCancelled, "interrupted; nothing written", path);
        bar.update(done, total);
      });
  bar.finish();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (json) {
    print_json_row({{"file", path},
                    {"shape", o.shape},
                    {"quant", quant},
                    {"seed", o.seed},
                    {"bytes", result.bytes},
                    {"parameters", result.parameters},
                    {"seconds", seconds}});
  } else {
    fmt::print("{}: {} with random {} weights, {:.1f} M parameters, {} in {}\n", path, o.shape, quant,
               static_cast<double>(result.parameters) * 1e-6, human_bytes(result.bytes), human_seconds(seconds));
  }
  return kSuccess;
}

Action setup(Flags& flags) {
  struct Arguments {
    SynthOptions options;
    std::string path;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  flags.value("OUT", a->path, "file to write", {.required = true});
  add_options(flags, synth_table(), a->options);
  flags.flag("--json", a->json, "the result as one JSON object");
  return [a] { return synth(a->options, a->path, a->json); };
}

}  // namespace

const Command entry{"write a model of a real shape with random weights, for speed work", setup};

}  // namespace kvasir::cli::commands_synth
