// Pictures of the rows of `kvasir bench`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvasir::cli {

struct BenchDrawing {
  std::string draw = "speed";  // speed, prompt, latency or memory
  std::string over = "depth";  // or batch
  bool processor = false;      // speeds by the seconds of the processor
};

// Rows that earlier runs appended, or that say the same of another program, whose name is in "program". Throws
// kBadInput with the number of the line for what is no such row.
std::vector<nlohmann::ordered_json> bench_rows(const std::string& path);

// A line for every program, model, cache, selector, and batch or depth; of runs with one x the median. What all have in
// common stands below the title. Throws kBadInput when no row has what is asked for.
void draw_bench(const std::vector<nlohmann::ordered_json>& rows, const BenchDrawing& o, const std::string& path);

}  // namespace kvasir::cli
