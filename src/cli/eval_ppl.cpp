// kvasir eval ppl: perplexity and divergence from an f32 cache, as a table, JSON and a picture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/eval.hpp"
#include "cli/eval_run.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "lab/eval/plot.hpp"
#include "lab/eval/ppl.hpp"

namespace kvasir::cli {

using lab::eval::PplReport;
using lab::eval::PplRow;

void print_table(const std::vector<std::vector<std::string>>& eval_ppl_table) {
  std::vector<std::size_t> width;
  for (const auto& row : eval_ppl_table) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  }
  for (const auto& row : eval_ppl_table) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c)
      line += c == 0 ? fmt::format("{:<{}}", row[c], width[c]) : fmt::format("  {:>{}}", row[c], width[c]);
    fmt::print("{}\n", line);
  }
}

namespace {

struct PplOptions {
  std::string file;
  std::int64_t tokens = 0;
  bool decode = false;
  std::string plot, curve;
  bool json = false;
};

const OptionTable<PplOptions>& eval_ppl_table() {
  using O = PplOptions;
  static const OptionTable<O> t{
      "ppl",
      {{"file", &O::file, {.help = "the text", .letter = 'f', .placeholder = "FILE", .required = true}},
       {"tokens",
        &O::tokens,
        {.help = "use at most this much of the text; 0 is all of it", .unit = "tokens", .low = 0, .high = 1ll << 40}},
       {"decode",
        &O::decode,
        {.help =
             "score token by token with the products on packed bytes that generation uses, not with those of prompts"}},
       {"plot", &O::plot, {.help = "draw divergence against bytes into a .svg, .html or .png", .placeholder = "FILE"}},
       {"curve",
        &O::curve,
        {.help = "score windows from their first token on, and draw the perplexity over the length into such a file",
         .placeholder = "FILE"}},
       {"json", &O::json, {.help = "one object per choice of codecs"}}}};
  return t;
}

struct EvalPplSettings {
  PplOptions ppl;
  lab::eval::SubjectOptions subject;
};

bool is_noise(const PplRow& row) { return row.kv == "f16" || row.kv == "exact"; }

// The list with f16 in front, unless it is there.
std::string with_noise(const std::string& list) {
  for (const std::string& name : lab::eval::split_kv(list))
    if (name == "f16" || name == "exact") return list;
  return (list.find(';') != std::string::npos ? "f16;" : "f16,") + list;
}

std::vector<std::vector<std::string>> eval_ppl_cells(const PplReport& report) {
  std::vector<std::vector<std::string>> t{
      {"kv", "ppl", "change", "+-", "KL mean", "KL 99 %", "top-1", "bits K", "bits V", "B/token", "of f16"}};
  for (const PplRow& r : report.rows)
    t.push_back({r.kv, fmt::format("{:.3f}", r.ppl), fmt::format("{:+.3f} %", 100 * r.ppl_change()),
                 fmt::format("{:.3f}", 100 * r.ppl_change_error()), fmt::format("{:.2e}", r.kl_mean),
                 fmt::format("{:.2e}", r.kl_p99), fmt::format("{:.2f} %", 100 * r.top1),
                 fmt::format("{:.3f}", r.cost.bits_k), fmt::format("{:.3f}", r.cost.bits_v),
                 fmt::format("{:.0f}", r.cost.bytes_per_token),
                 fmt::format("{:.1f} %", 100 * r.cost.bytes_per_token / r.cost.f16_bytes_per_token)});
  return t;
}

std::string eval_ppl_material(const EvalPplSettings& s, const PplReport& r) {
  return fmt::format("{}, {}: {} windows of {} tokens, {} scored{}{}",
                     std::filesystem::path(s.subject.model).filename().string(),
                     std::filesystem::path(s.ppl.file).filename().string(), r.windows, s.subject.ctx, r.scored,
                     s.ppl.decode ? " as generated" : "", r.places.empty() ? "" : ", from the first one on");
}

std::string raw_tokens(const lab::eval::SubjectOptions& o) {
  return fmt::format("{}, sinks {}",
                     o.residual < 0 ? fmt::format("window {}", o.window) : fmt::format("residual {}", o.residual),
                     o.sinks);
}

std::string coverage(const EvalPplSettings& s, const PplReport& r) {
  return fmt::format("{}: {:.1f} % of what the scored tokens read is sealed", raw_tokens(s.subject),
                     100 * r.sealed_share);
}

// What storing in 16 bits changes is noise: rounding of 8-bit activations that another last bit of a key sets off.
void print_noise(const EvalPplSettings& s, const PplReport& r) {
  const PplRow& noise = *std::find_if(r.rows.begin(), r.rows.end(), is_noise);
  const bool hidden = std::any_of(r.rows.begin(), r.rows.end(), [&](const PplRow& row) {
    return &row != &noise && row.kl_mean < 10 * noise.kl_mean;
  });
  const lab::eval::SubjectOptions& o = s.subject;
  if (!hidden || o.exact || o.against_exact || o.arithmetic != "int8") return;
  fmt::print("\n{}: {:.1e} of KL is what any last bit sets off in the rounding of 8-bit activations.\n", noise.kv,
             noise.kl_mean);
  fmt::print("--exact measures caches without it.\n");
}

void eval_ppl_print_report(const EvalPplSettings& s, const PplReport& r) {
  fmt::print("{}\n{}\nf32 keys and values: perplexity {:.3f}\n\n", eval_ppl_material(s, r), coverage(s, r),
             r.baseline_ppl);
  print_table(eval_ppl_cells(r));
  for (const PplRow& row : r.rows)
    if (!row.note.empty()) fmt::print("\n{}: {}\n", row.kv, row.note);
  print_noise(s, r);
}

// A line per window, on stderr because the rows are those of all windows.
void print_so_far(const PplReport& r, std::int64_t windows) {
  std::string line = fmt::format("window {} of {}:", r.windows, windows);
  for (const PplRow& row : r.rows)
    line += fmt::format(" {} {:+.2f} % KL {:.1e}{}", row.kv, 100 * row.ppl_change(), row.kl_mean,
                        &row == &r.rows.back() ? "" : ",");
  fmt::print(stderr, "{}\n", line);
}

void eval_ppl_print_json(const EvalPplSettings& s, const PplReport& report) {
  for (const PplRow& r : report.rows) {
    nlohmann::ordered_json row{{"kv", r.kv},
                               {"ppl", r.ppl},
                               {"ppl_f32", report.baseline_ppl},
                               {"ppl_change", r.ppl_change()},
                               {"ppl_change_error", r.ppl_change_error()},
                               {"nll", r.nll},
                               {"nll_difference", r.nll_difference},
                               {"nll_difference_error", r.nll_difference_error},
                               {"kl_mean", r.kl_mean},
                               {"kl_p99", r.kl_p99},
                               {"top1", r.top1},
                               {"bits_k", r.cost.bits_k},
                               {"bits_v", r.cost.bits_v},
                               {"kv_bytes_per_token", r.cost.bytes_per_token},
                               {"f16_bytes_per_token", r.cost.f16_bytes_per_token},
                               {"held_bytes_per_token", r.cost.held_bytes_per_token},
                               {"sealed_share", report.sealed_share},
                               {"decode", s.ppl.decode},
                               {"ctx", s.subject.ctx},
                               {"windows", report.windows},
                               {"scored", report.scored},
                               {"bos", report.bos},
                               {"window", s.subject.window},
                               {"residual", s.subject.residual},
                               {"sinks", s.subject.sinks},
                               {"model", std::filesystem::path(s.subject.model).filename().string()},
                               {"text", std::filesystem::path(s.ppl.file).filename().string()},
                               {"note", r.note}};
    if (!r.curve.empty())
      row.update({{"places", report.places}, {"nll_by_place", r.curve}, {"nll_by_place_f32", report.baseline_curve}});
    print_json_row(row);
  }
}

void eval_ppl_plot(const EvalPplSettings& s, const PplReport& r) {
  lab::eval::Plot p{.title = "Divergence from an f32 cache against its size",
                    .subtitle = eval_ppl_material(s, r),
                    .note = coverage(s, r),
                    .x_label = "bytes per token, keys and values of all layers",
                    .y_label = "mean KL divergence, nats"};
  for (const PplRow& row : r.rows) p.points.push_back({row.kv, row.cost.bytes_per_token, row.kl_mean});
  write_plot(p, eval_ppl_cells(r), s.ppl.plot);
}

void eval_ppl_draw_curve(const EvalPplSettings& s, const PplReport& r) {
  lab::eval::Plot p{.title = "Perplexity over the length of the text",
                    .subtitle = eval_ppl_material(s, r),
                    .note = "means over sixteenths of the windows; " + raw_tokens(s.subject),
                    .x_label = "tokens before",
                    .y_label = "perplexity"};
  std::vector<std::vector<std::string>> table{{"kv", "up to", "perplexity"}};
  const auto add = [&](const std::string& name, const std::vector<double>& nll) {
    lab::eval::PlotLine line{name, {}};
    for (std::size_t i = 0; i < nll.size(); ++i) {
      line.points.push_back({static_cast<double>(r.places[i]), std::exp(nll[i])});
      table.push_back({name, std::to_string(r.places[i]), fmt::format("{:.3f}", std::exp(nll[i]))});
    }
    p.lines.push_back(std::move(line));
  };
  add("f32", r.baseline_curve);
  for (const PplRow& row : r.rows) add(row.kv, row.curve);
  write_plot(p, table, s.ppl.curve);
}

int run_ppl(EvalPplSettings& s) {
  s.subject.kv = with_noise(s.subject.kv);
  for (const std::string& path : {s.ppl.plot, s.ppl.curve})
    if (!path.empty()) lab::eval::check_plot_path(path);
  if (!s.ppl.curve.empty() && s.subject.ctx < lab::eval::kCurveParts)
    throw Error(Code::kBadInput, "needs windows of 16 tokens or more", "--curve");
  EvalRun run("eval ppl", "scoring");
  lab::eval::Subject subject(s.subject, {});
  const std::vector<std::int32_t> ids = lab::eval::ppl_tokens(subject.tokenizer(), read_text_file(s.ppl.file));
  const std::int64_t windows =
      lab::eval::count_windows(static_cast<std::int64_t>(ids.size()), s.subject.ctx, s.ppl.tokens, s.ppl.file);
  run.load(subject);
  const double start = steady_seconds();
  const auto so_far = [&](const PplReport& r) {
    run.bar().erase();
    if (is_terminal(stderr) && steady_seconds() - start > 2) print_so_far(r, windows);
  };
  const PplReport report =
      measure_ppl(subject, ids, windows, {s.ppl.decode, !s.ppl.curve.empty()}, run.progress(), so_far);
  run.bar().finish();
  s.ppl.json ? eval_ppl_print_json(s, report) : eval_ppl_print_report(s, report);
  if (!s.ppl.plot.empty()) eval_ppl_plot(s, report);
  if (!s.ppl.curve.empty()) eval_ppl_draw_curve(s, report);
  return kSuccess;
}

}  // namespace

Action setup_eval_ppl(Flags& flags) {
  auto settings = std::make_shared<EvalPplSettings>();
  return eval_action(flags, settings, eval_ppl_table(), &EvalPplSettings::ppl, run_ppl);
}

}  // namespace kvasir::cli
