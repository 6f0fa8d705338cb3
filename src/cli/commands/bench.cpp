// kvasir bench: speed at several depths beside what the machine can do.
#include "lab/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/rss.hpp"
#include "cli/bench.hpp"
#include "cli/bench_plot.hpp"
#include "cli/command.hpp"
#include "cli/config.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/numbers.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "kv/spec.hpp"
#include "lab/eval/plot.hpp"
#include "lab/eval/subject.hpp"
#include "model/cache_shape.hpp"
#include "model/hparams.hpp"
#include "run/auto_kv.hpp"
#include "run/selection.hpp"
#include "run/weights_stats.hpp"
#include "weights/model_file.hpp"

namespace kvasir::cli::commands_bench {
namespace {

struct BenchCliOptions {
  std::string kv;
  std::int32_t prefill = 512;
  std::int32_t decode = 64;
  std::string depth = "0";
  std::string batch = "1";
  std::int32_t runs = 5;
  bool fill = false;
  std::string out;
  std::string plot;
  std::string draw = "speed";
  std::string over = "depth";
  bool processor = false;
  std::string rows;
  bool json = false;
};

const OptionTable<BenchCliOptions>& table() {
  using O = BenchCliOptions;
  static const OptionTable<O> t{
      "bench",
      {{"kv",
        &O::kv,
        {.help = "how the cache is stored: presets, codecs or KEYS/VALUES, a list, measured one after the other: "
                 "f16,balanced,int4_channel/int4_token (see `kvasir registries`); default as in `kvasir run`",
         .placeholder = "LIST"}},
       {"prefill",
        &O::prefill,
        {.help = "tokens of a prefill run; 0 leaves it out", .unit = "tokens", .low = 0, .high = 1 << 20}},
       {"decode",
        &O::decode,
        {.help = "tokens of a decode run; 0 leaves it out", .unit = "tokens", .low = 0, .high = 1 << 20}},
       {"depth", &O::depth, {.help = "tokens already in the cache, a list: 0,4096,16384", .placeholder = "LIST"}},
       {"batch",
        &O::batch,
        {.help = "sequences that decode together, forks of one, a list: 1,8", .placeholder = "LIST"}},
       {"runs", &O::runs, {.help = "runs of each kind; the median is printed", .low = 1, .high = 1000}},
       {"fill",
        &O::fill,
        {.help = "fill the cache with copies of a few computed pages: as fast to read, made in seconds at any depth"}},
       {"out", &O::out, {.help = "append the rows as JSON to this file, too", .placeholder = "FILE"}},
       {"plot",
        &O::plot,
        {.help = "draw the rows into a .svg, .html or .png (--draw, --over); with --out also those that the file had "
                 "before",
         .placeholder = "FILE"}},
       {"draw",
        &O::draw,
        {.help =
             "what --plot draws: generated tokens per second, a prompt's tokens per second, milliseconds of a step, or "
             "the memory of the process",
         .choices = {"speed", "prompt", "latency", "memory"}}},
       {"over",
        &O::over,
        {.help = "over the tokens in the cache, or over the sequences that decode together",
         .choices = {"depth", "batch"}}},
       {"processor", &O::processor, {.help = "draw speeds by the seconds of the processor instead of the clock's"}},
       {"rows", &O::rows, {.help = "draw the rows of a file again, and measure nothing", .placeholder = "FILE"}},
       {"json", &O::json, {.help = "one object per row"}}}};
  return t;
}

void print_head(const run::Engine& e, const lab::Machine& m, double load_seconds) {
  fmt::print("{}, {} ({}), KV {}, {} threads, {}; loaded in {}\n",
             std::filesystem::path(e.options().model).filename().string(), e.model().quant(),
             human_bytes(static_cast<std::uint64_t>(e.model().bytes_per_token())), kv::codecs_text(e.codecs()),
             m.threads, simd::label(m.isa), human_seconds(load_seconds));
  const std::string tiles =
      m.int8_tiles.median > 0
          ? fmt::format(", tiles int8 {:.0f}, bf16 {:.0f}", m.int8_tiles.median * 1e-9, m.bf16_tiles.median * 1e-9)
          : "";
  fmt::print("machine: read {}, peaks int8 {:.0f}, bf16 {:.0f}, f32 {:.0f}{} GOP/s{}\n",
             human_bandwidth(m.read_bytes.median), m.int8_ops.median * 1e-9, m.bf16_ops.median * 1e-9,
             m.f32_ops.median * 1e-9, tiles,
             m.threads > 1 ? fmt::format(", threads meet in {:.2f} us", m.meeting * 1e6) : "");
  const double share =
      std::min({m.read_bytes.cpu_share, m.int8_ops.cpu_share, m.bf16_ops.cpu_share, m.f32_ops.cpu_share});
  if (share < lab::kUndisturbed)
    fmt::print(
        "Other work was running: the threads got {:.0f} % of their processors. Fractions below are not reliable.\n",
        100 * share);
  fmt::print("\n{:>7} {:>20} {:>9} {:>7} {:>5} {:>20} {:>12} {:>9} {:>7} {:>7}\n", "depth", "prefill tok/s", "GOP/s",
             "peak", "batch", "decode tok/s", "MB/token", "GB/s", "read", "floor");
}

void print_row(const lab::BenchRow& r) {
  const std::string prefill =
      r.prefill.tps > 0
          ? fmt::format("{:>11.1f} +-{:>4.0f} % {:>9.1f} {:>5.0f} %", r.prefill.tps, 50 * r.prefill.spread,
                        r.ops_per_token * r.prefill.tps * 1e-9, 100 * r.peak_fraction)
          : "";
  fmt::print("{:>7} {:>38} {:>5} {:>11.2f} +-{:>4.0f} % {:>12.1f} {:>9.2f} {:>7} {:>5.0f} %{}\n", r.depth, prefill,
             r.batch, r.decode.tps, 50 * r.decode.spread, r.bytes_per_token * 1e-6, r.bandwidth * 1e-9,
             r.bandwidth_fraction <= 1 ? fmt::format("{:.0f} %", 100 * r.bandwidth_fraction) : "cached",
             100 * r.decode_floor_fraction,
             (r.filled ? std::string(" filled") : std::string()) +
                 (r.read_fraction < 1 ? fmt::format(", {:.2f} % of the tokens read, choosing {:.1f} % of the time",
                                                    100 * r.read_fraction, 100 * r.choosing_fraction)
                                      : std::string()) +
                 (r.disk_bytes > 0 ? fmt::format(", {:.1f} MB per token from disk ({:.0f} % of the pages in memory), "
                                                 "{:.1f} ms waiting",
                                                 r.disk_bytes * 1e-6, 100 * r.disk_hits, 1e3 * r.disk_stall)
                                   : std::string()));
  const auto by_cpu = [](const lab::Rate& rate, int digits, double share) {
    return rate.cpu_tps > 0 ? fmt::format("{:.{}f} tok ({:.0f} % of the floor)", rate.cpu_tps, digits, 100 * share)
                            : "-";
  };
  fmt::print("        per second of processor time, all threads together: prefill {}, decode {}\n",
             by_cpu(r.prefill, 1, r.peak_fraction_cpu), by_cpu(r.decode, 2, r.decode_floor_fraction_cpu));
  if (r.streamed.any())
    fmt::print("        weights: {}; {:.2f} GB/s of the time, peak memory {}\n", run::weights_line(r.streamed),
               static_cast<double>(r.streamed.bytes_read) * 1e-9 / r.streamed_seconds,
               human_bytes(find_process_rss().value_or(Rss{}).peak));
  std::fflush(stdout);
}

nlohmann::ordered_json json_row(const run::Engine& e, const lab::Machine& m, const lab::BenchRow& r) {
  nlohmann::ordered_json row{
      {"model", std::filesystem::path(e.options().model).filename().string()},
      {"weights", e.model().quant()},
      {"k_codec", kv::codecs_text(e.codecs(), kv::Side::kKeys)},
      {"v_codec", kv::codecs_text(e.codecs(), kv::Side::kValues)},
      {"threads", m.threads},
      {"depth", r.depth},
      {"batch", r.batch},
      {"filled", r.filled},
      {"prefill_tps", r.prefill.tps},
      {"decode_tps", r.decode.tps},
      {"prefill_spread", r.prefill.spread},
      {"decode_spread", r.decode.spread},
      {"prefill_tps_cpu", r.prefill.cpu_tps},
      {"decode_tps_cpu", r.decode.cpu_tps},
      {"bytes_per_token", r.bytes_per_token},
      {"bandwidth_gbps", r.bandwidth * 1e-9},
      // null: the processor's caches hold what is read
      {"bandwidth_fraction",
       r.bandwidth_fraction <= 1 ? nlohmann::ordered_json(r.bandwidth_fraction) : nlohmann::ordered_json()},
      {"decode_floor_fraction", r.decode_floor_fraction},
      {"decode_floor_fraction_cpu", r.decode_floor_fraction_cpu},
      {"select", run::selection_of(e.options())},
      {"read_fraction", r.read_fraction},
      {"choosing_fraction", r.choosing_fraction},
      {"disk_bytes_per_token", r.disk_bytes},
      {"disk_stall_ms", r.disk_stall * 1e3},
      {"disk_hits", r.disk_hits},
      {"ops_per_token", r.ops_per_token},
      {"peak_fraction", r.peak_fraction},
      {"peak_fraction_cpu", r.peak_fraction_cpu},
      {"kv_bytes_per_token", r.kv_bytes_per_token},
      {"ttft_ms", r.ttft * 1e3},
      {"resident_bytes", r.resident_bytes},
      {"machine_read_gbps", r.machine.read_bytes * 1e-9},
      {"machine_int8_gops", r.machine.int8_ops * 1e-9},
      {"machine_bf16_gops", r.machine.bf16_ops * 1e-9},
      {"machine_f32_gops", r.machine.f32_ops * 1e-9},
      {"machine_int8_tile_gops", r.machine.int8_tiles * 1e-9},
      {"machine_bf16_tile_gops", r.machine.bf16_tiles * 1e-9},
      {"machine_meeting_us", r.machine.meeting * 1e6},
      {"machine_cpu_share", std::min(m.read_bytes.cpu_share, m.int8_ops.cpu_share)},
      {"cpu", m.host.cpu},
      {"isa", simd::label(m.isa)},
      {"version", version()},
      {"commit", commit()}};
  if (r.streamed.any()) {
    row["streamed"] = run::weights_json(r.streamed);
    row["streamed"]["seconds"] = r.streamed_seconds;
    row["streamed"]["steps"] = r.streamed_steps;
    row["streamed"]["reads"] = e.model().layers().reads_name();
    row["streamed"]["peak_bytes"] = find_process_rss().value_or(Rss{}).peak;
  }
  return row;
}

void append(const std::string& path, const nlohmann::ordered_json& row) {
  std::FILE* f = std::fopen(path.c_str(), "a");
  const std::string line = row.dump() + "\n";
  if (!f || std::fwrite(line.data(), 1, line.size(), f) != line.size() || std::fclose(f) != 0)
    throw Error(Code::kIo, std::string("cannot append: ") + std::strerror(errno), path);
}

// One set of options for each choice that --kv names, all of them checked against the model before one is measured.
std::vector<run::EngineOptions> choices(const std::string& list, const run::EngineOptions& options, int sequences) {
  std::vector<run::EngineOptions> all;
  const std::unique_ptr<weights::ModelFile> file = weights::open_model_file(options.model);
  for (const std::string& kv : list.empty() ? std::vector<std::string>{""} : lab::eval::split_kv(list)) {
    if (kv == run::kAuto)
      throw Error(Code::kBadInput, "is 'auto', which chooses by a text; expected codecs to measure", "--kv");
    all.push_back(options);
    all.back().kv = kv;
    run::plan_engine(*file, all.back(), sequences, sequences);
  }
  return all;
}

void measure(const BenchCliOptions& o, const run::EngineOptions& engine_options,
             const std::vector<std::int64_t>& depths, const std::vector<std::int64_t>& batches,
             const std::function<bool()>& poll, std::vector<nlohmann::ordered_json>* rows) {
  const std::int64_t widest = *std::max_element(batches.begin(), batches.end());
  ProgressBar loading("loading");
  const double start = steady_seconds();
  run::Engine engine(engine_options,
                     {.sequences = static_cast<int>(1 + widest),
                      .pool_tokens = engine_options.ctx + widest * (std::max(o.prefill, o.decode) + 512),
                      .logits = static_cast<int>(widest),
                      .progress = [&](std::int64_t done, std::int64_t total) {
                        loading.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
                      }});
  const double load_seconds = steady_seconds() - start;
  loading.finish();
  const lab::Machine machine = lab::measure_machine(engine.team());
  if (!o.json) print_head(engine, machine, load_seconds);
  lab::bench(
      engine, {.prefill = o.prefill, .decode = o.decode, .runs = o.runs, .fill = o.fill, .batches = batches}, depths,
      [&](const lab::BenchRow& row) {
        const auto json = json_row(engine, machine, row);
        if (!o.out.empty()) append(o.out, json);
        rows->push_back(json);
        o.json ? print_json_row(json) : print_row(row);
      },
      poll);
}

int redraw(const BenchCliOptions& o) {
  if (o.plot.empty()) throw Error(Code::kBadInput, "is missing: --rows draws into a file", "--plot");
  lab::eval::check_plot_path(o.plot);
  const std::vector<nlohmann::ordered_json> rows = bench_rows(o.rows);
  if (rows.empty()) throw Error(Code::kBadInput, "has no rows", o.rows);
  draw_bench(rows, {.draw = o.draw, .over = o.over, .processor = o.processor}, o.plot);
  return kSuccess;
}

int bench(const BenchCliOptions& o, run::EngineOptions engine_options) {
  const std::vector<std::int64_t> depths = parse_numbers(o.depth, 0, 1 << 24, "--depth");
  const std::vector<std::int64_t> batches = parse_numbers(o.batch, 1, 512, "--batch");
  const std::int64_t widest = *std::max_element(batches.begin(), batches.end());
  if (o.prefill == 0 && o.decode == 0)
    throw Error(Code::kBadInput, "is 0 and --decode too: nothing to measure", "--prefill");
  if (engine_options.ctx == 0) {
    // Room for the base, one fork's run and the warm-up.
    const std::int64_t deepest = *std::max_element(depths.begin(), depths.end());
    std::int64_t seed = 0;
    if (o.fill) {
      const auto file = weights::open_model_file(engine_options.model);
      seed = lab::fill_seed(engine_options, model::cache_shape(model::read_spec(*file)));
    }
    engine_options.ctx = static_cast<std::int32_t>(
        std::min<std::int64_t>(deepest + 2 * std::max(o.prefill, o.decode) + 512 + seed, 1 << 24));
  }
  if (!o.plot.empty()) lab::eval::check_plot_path(o.plot);
  std::vector<nlohmann::ordered_json> rows;
  if (!o.plot.empty() && std::filesystem::exists(o.out)) rows = bench_rows(o.out);
  Interrupt interrupt;
  const auto go_on = [&] { return !interrupt.requested().load(std::memory_order_relaxed); };
  bool first = true;
  for (const run::EngineOptions& choice : choices(o.kv, engine_options, static_cast<int>(1 + widest))) {
    if (!go_on()) break;
    if (!first && !o.json) fmt::print("\n");
    first = false;
    measure(o, choice, depths, batches, go_on, &rows);
  }
  if (!o.plot.empty() && !rows.empty())
    draw_bench(rows, {.draw = o.draw, .over = o.over, .processor = o.processor}, o.plot);
  return go_on() ? kSuccess : kFailure;
}

Action setup(Flags& flags) {
  struct Settings {
    BenchCliOptions bench;
    run::EngineOptions engine;
  };
  auto settings = std::make_shared<Settings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, run::engine_table(), settings->engine, {"kv"});
  config->add(flags, table(), settings->bench);
  config->make_optional("--model");
  Flags& replay = flags.command("replay", "conversations turn by turn, with reuse and without it");
  const Action play = setup_bench_replay(replay);
  Flags& load = flags.command("load", "many clients at once against a server");
  const Action press = setup_bench_load(load);
  Flags& rag = flags.command("rag", "prompts of known documents in another order, exactly and blended");
  const Action retrieve = setup_bench_rag(rag);
  Flags& draft = flags.command("draft", "generation with draft tokens and without");
  const Action guess = setup_bench_draft(draft);
  Flags& beside = flags.command("beside", "an answer beside a long prompt, and a short prompt behind it");
  const Action stand = setup_bench_beside(beside);
  return [settings, config, &flags, &replay, play, &load, press, &rag, retrieve, &draft, guess, &beside, stand] {
    if (replay.chosen()) return play();
    if (rag.chosen()) return retrieve();
    if (load.chosen()) return press();
    if (draft.chosen()) return guess();
    if (beside.chosen()) return stand();
    if (!config->resolve()) return kSuccess;
    if (!settings->bench.rows.empty()) {
      check_unused(flags, {run::engine_table().title()}, "cannot be used with --rows, which measures nothing");
      return redraw(settings->bench);
    }
    if (settings->engine.model.empty())
      throw Error(Code::kBadInput, "is required, here or as engine.model in --config", "--model");
    settings->engine.model = local_model(settings->engine.model);
    return bench(settings->bench, settings->engine);
  };
}

}  // namespace

const Command entry{"measure prefill and decode speed against the machine's limits", setup};

}  // namespace kvasir::cli::commands_bench
