#include "cli/bench_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "lab/eval/plot.hpp"

namespace kvasir::cli {
namespace {

// What is read of a row.
constexpr const char* kNumbers[] = {"depth",           "batch",          "prefill_tps",    "decode_tps",
                                    "prefill_tps_cpu", "decode_tps_cpu", "resident_bytes", "disk_bytes_per_token"};
constexpr const char* kTexts[] = {"program", "model", "k_codec", "v_codec", "select"};

// What --draw names, of a row; 0: the row has none.
double drawn(const nlohmann::ordered_json& row, const BenchDrawing& o) {
  const std::string which = o.draw == "prompt" ? "prefill_tps" : "decode_tps";
  const double rate = row.value(o.processor ? which + "_cpu" : which, 0.0);
  if (o.draw == "latency") return rate > 0 ? 1e3 * row.value("batch", 1.0) / rate : 0;
  return o.draw == "memory" ? row.value("resident_bytes", 0.0) / 1048576 : rate;
}

// One point for all that have its x: their median.
void join_runs(std::vector<lab::eval::Point2>& points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const auto& a, const auto& b) { return std::pair(a.x, a.y) < std::pair(b.x, b.y); });
  std::vector<lab::eval::Point2> joined;
  for (auto first = points.begin(); first != points.end();) {
    const auto last = std::find_if(first, points.end(), [&](const auto& p) { return p.x != first->x; });
    const auto count = last - first;
    joined.push_back({first->x, (first[(count - 1) / 2].y + first[count / 2].y) / 2});
    first = last;
  }
  points = std::move(joined);
}

}  // namespace

std::vector<nlohmann::ordered_json> bench_rows(const std::string& path) {
  std::vector<nlohmann::ordered_json> rows;
  std::istringstream lines(read_text_file(path));
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    auto row = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("depth") || !row.contains("decode_tps"))
      throw Error(Code::kBadInput, fmt::format("line {} is no row of kvasir bench", number), path);
    for (const char* key : kNumbers)
      if (row.contains(key) && !row[key].is_number())
        throw Error(Code::kBadInput, fmt::format("line {}: {} is {}, expected a number", number, key, row[key].dump()),
                    path);
    for (const char* key : kTexts)
      if (row.contains(key) && !row[key].is_string())
        throw Error(Code::kBadInput, fmt::format("line {}: {} is {}, expected a text", number, key, row[key].dump()),
                    path);
    rows.push_back(std::move(row));
  }
  return rows;
}

void draw_bench(const std::vector<nlohmann::ordered_json>& rows, const BenchDrawing& o, const std::string& path) {
  using Words = std::vector<std::string>;  // some may be empty
  constexpr std::size_t kSelector = 3;
  const bool by_batch = o.over == "batch";
  std::vector<std::pair<Words, lab::eval::Point2>> points;
  for (const auto& row : rows) {
    const auto text = [&](const char* key) { return row.value(key, std::string()); };
    const double y = drawn(row, o);
    if (y <= 0) continue;
    const std::string select = text("select");
    const auto batch = row.value("batch", std::int64_t{1}), depth = row.value("depth", std::int64_t{0});
    points.push_back({{text("program"), text("model"),
                       text("k_codec") == text("v_codec") ? text("k_codec") : text("k_codec") + "/" + text("v_codec"),
                       select.empty() || select == "all" ? "dense" : select,
                       by_batch    ? fmt::format("{} tokens in the cache", depth)
                       : batch > 1 ? fmt::format("batch {}", batch)
                                   : "",
                       row.value("disk_bytes_per_token", 0.0) > 0 ? "from disk" : ""},
                      {static_cast<double>(by_batch ? batch : depth), y}});
  }
  if (points.empty())
    throw Error(Code::kBadInput, "is '" + o.draw + "', which no row has" + (o.processor ? " by processor time" : ""),
                "--draw");
  const auto sentence = [&](const Words& words, bool common) {
    std::string all;
    for (std::size_t w = 0; w < words.size(); ++w) {
      const bool here = std::all_of(points.begin(), points.end(),
                                    [&](const auto& p) { return p.first[w] == points.front().first[w]; });
      if (here == common && !words[w].empty()) all += (all.empty() ? "" : ", ") + words[w];
    }
    return all;
  };
  const auto [least, most] = std::minmax_element(points.begin(), points.end(),
                                                 [](const auto& a, const auto& b) { return a.second.x < b.second.x; });
  const std::string common = sentence(points.front().first, true);
  const bool latency = o.draw == "latency", memory = o.draw == "memory";
  const std::string over = by_batch ? "sequences that decode together" : "the depth of the cache";
  const std::string y = latency       ? "milliseconds of a step"
                        : memory      ? "MiB of the process"
                        : o.processor ? "tokens per second of processor time"
                                      : "tokens per second";
  lab::eval::Plot plot{.title = (latency              ? "Time of a step over "
                                 : memory             ? "Memory of the process over "
                                 : o.draw == "prompt" ? "Tokens of a prompt per second over "
                                                      : "Generated tokens per second over ") +
                                over,
                       .subtitle = "medians of the runs" + (common.empty() ? "" : "; " + common),
                       .note = "",
                       .x_label = by_batch ? over : "tokens in the cache",
                       .y_label = y,
                       .points = {},
                       .lines = {},
                       .wide = least->second.x > 0 && most->second.x >= 16 * least->second.x};
  for (const auto& [words, point] : points) {
    std::string label = sentence(words, false);
    if (label.empty()) label = words[kSelector];  // a single line
    auto line = std::find_if(plot.lines.begin(), plot.lines.end(), [&](const auto& l) { return l.label == label; });
    if (line == plot.lines.end()) line = plot.lines.insert(plot.lines.end(), {label, {}});
    line->points.push_back(point);
  }
  std::vector<std::vector<std::string>> table{{"what", o.over, y}};
  for (auto& line : plot.lines) {
    join_runs(line.points);
    for (const auto& point : line.points)
      table.push_back({line.label, fmt::format("{:.0f}", point.x), fmt::format("{:.2f}", point.y)});
  }
  lab::eval::write_plot(plot, table, path);
}

}  // namespace kvasir::cli
