// kvasir quantize IN OUT --type Q4_K_M: the model of one GGUF file in other weight types, with the error of each
// tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/options.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "weights/requantise.hpp"

namespace kvasir::cli::commands_quantize {
namespace {

using weights::Change;

struct QuantizeOptions {
  std::string type = "Q4_K_M";
  std::string importance;
  bool again = false;
  std::int32_t threads = 0;
};

const OptionTable<QuantizeOptions>& quantize_table() {
  static const OptionTable<QuantizeOptions> table{
      "quantize",
      {{"type",
        &QuantizeOptions::type,
        {.help = "mixture of weight types: " + weights::mix_names(), .placeholder = "TYPE"}},
       {"importance",
        &QuantizeOptions::importance,
        {.help = "importance matrix of the model, as llama.cpp's imatrix writes it: errors count by it",
         .placeholder = "FILE"}},
       {"again",
        &QuantizeOptions::again,
        {.help = "also weights that are quantised already; they are rounded twice then"}},
       {"threads", &QuantizeOptions::threads, {.help = "0 takes all processors", .low = 0, .high = 512}}}};
  return table;
}

struct Total {
  std::uint64_t bytes = 0;
  std::int64_t elements = 0, copied = 0, tensors = 0;
  double worst = 0;
  std::string worst_name;

  void add(const Change& c) {
    ++tensors;
    bytes += c.bytes;
    elements += c.elements;
    copied += c.from == c.to;
    if (c.error <= worst) return;
    worst = c.error;
    worst_name = c.name;
  }
  double bits() const { return elements > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(elements) : 0; }
};

std::string percent(double x) { return fmt::format("{:.3f} %", 100 * x); }

void print(const Change& c, bool importance) {
  if (c.from == c.to)
    fmt::print("{:<32} {:>7} {:>11}\n", c.name, c.to, human_bytes(c.bytes));
  else
    fmt::print("{:<32} {:>7} {:>11} {:>10}{}\n", c.name, c.to, human_bytes(c.bytes), percent(c.error),
               !importance  ? ""
               : c.weighted ? fmt::format(" {:>10}", percent(c.weighted_error))
                            : "          -");
}

nlohmann::ordered_json json_of(const Change& c) {
  nlohmann::ordered_json row = {
      {"name", c.name}, {"from", c.from}, {"to", c.to}, {"bytes", c.bytes}, {"error", c.error}};
  if (c.weighted) row["weighted_error"] = c.weighted_error;
  return row;
}

int quantize(const QuantizeOptions& o, const std::string& in, const std::string& out, bool json) {
  const weights::Mix& mix = weights::find_mix(o.type);
  std::optional<weights::Importance> importance;
  if (!o.importance.empty()) importance = weights::Importance::read(o.importance);
  Team team(o.threads > 0 ? o.threads : std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 512));
  const Interrupt interrupt;
  Total total;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    fmt::print("{:<32} {:>7} {:>11} {:>10}{}\n", "tensor", "type", "bytes", "error", importance ? "   weighted" : "");
  }
  const auto poll = [&] {
    if (interrupt.requested().load(std::memory_order_relaxed))
      throw Error(Code::kCancelled, "interrupted; nothing written", out);
  };
  weights::requantise(in, out, {&mix, importance ? &*importance : nullptr, o.again, poll}, team, [&](const Change& c) {
    poll();
    total.add(c);
    if (json)
      rows.push_back(json_of(c));
    else
      print(c, importance.has_value());
  });
  const std::uint64_t bytes = std::filesystem::file_size(out);
  if (json) {
    print_json_row({{"file", out},
                    {"type", mix.name},
                    {"bytes", bytes},
                    {"bits_per_weight", total.bits()},
                    {"worst_error", total.worst},
                    {"worst_tensor", total.worst_name},
                    {"tensors", rows}});
  } else {
    fmt::print("{}: {}, {}, {:.2f} bits per weight; {} of {} tensors as they were; largest error {} ({})\n", out,
               mix.name, human_bytes(bytes), total.bits(), total.copied, total.tensors, percent(total.worst),
               total.worst_name.empty() ? "none" : total.worst_name);
  }
  return kSuccess;
}

Action setup(Flags& flags) {
  struct Arguments {
    QuantizeOptions options;
    std::string in, out;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  flags.value("IN", a->in, "model file to read, or hf:OWNER/REPO[:QUANT]", {.required = true});
  flags.value("OUT", a->out, "GGUF file to write", {.required = true});
  add_options(flags, quantize_table(), a->options);
  flags.flag("--json", a->json, "the result as one JSON object");
  return [a] { return quantize(a->options, local_model(a->in), a->out, a->json); };
}

}  // namespace

const Command entry{"write a model in other weight types, with the error of each tensor", setup};

}  // namespace kvasir::cli::commands_quantize
