#include "cli/replay_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::cli {
namespace {

using lab::ReplayTurn;

nlohmann::ordered_json replay_row(const ReplayRun& run, const ReplayTurn& t) {
  return {{"bench", "replay"},
          {"what", run.what},
          {"compared", run.compared},
          {"turn", t.turn},
          {"ttft", t.ttft},
          {"plain_ttft", t.plain_ttft},
          {"seconds", t.seconds},
          {"load", t.load},
          {"prompt_tokens", t.prompt_tokens},
          {"reused_tokens", t.reused_tokens},
          {"reusable_tokens", t.reusable_tokens},
          {"tokens_by_source", t.tokens_by_source},
          {"loaded_bytes", t.loaded_bytes},
          {"same_bits", t.same_bits},
          {"prompt_only", t.prompt_only},
          {"same_bits_prompt_only", t.same_bits_prompt_only},
          {"same_text", t.same_text},
          {"largest_difference", t.largest_difference},
          {"above_milli", t.above_milli},
          {"plain_reused", t.plain_reused}};
}

ReplayTurn replay_turn(const nlohmann::json& row) {
  ReplayTurn t;
  row.at("turn").get_to(t.turn);
  row.at("ttft").get_to(t.ttft);
  row.at("plain_ttft").get_to(t.plain_ttft);
  row.at("seconds").get_to(t.seconds);
  row.at("load").get_to(t.load);
  row.at("prompt_tokens").get_to(t.prompt_tokens);
  row.at("reused_tokens").get_to(t.reused_tokens);
  row.at("reusable_tokens").get_to(t.reusable_tokens);
  row.at("tokens_by_source").get_to(t.tokens_by_source);
  row.at("loaded_bytes").get_to(t.loaded_bytes);
  row.at("same_bits").get_to(t.same_bits);
  row.at("prompt_only").get_to(t.prompt_only);
  row.at("same_bits_prompt_only").get_to(t.same_bits_prompt_only);
  row.at("same_text").get_to(t.same_text);
  row.at("largest_difference").get_to(t.largest_difference);
  row.at("above_milli").get_to(t.above_milli);
  row.at("plain_reused").get_to(t.plain_reused);
  if (t.turn < 1 || t.ttft.empty() || (!t.plain_ttft.empty() && t.plain_ttft.size() > t.ttft.size()))
    throw Error(Code::kBadInput, "expected a turn with requests");
  return t;
}

}  // namespace

void append_replay(const std::string& path, const ReplayRun& run) {
  std::ofstream out(path, std::ios::app);
  for (const ReplayTurn& t : run.turns)
    out << replay_row(run, t).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  out.flush();
  if (!out) throw Error(Code::kIo, "cannot be written", path);
}

std::vector<ReplayRun> read_replays(const std::string& path) {
  std::istringstream in(read_text_file(path));
  std::vector<ReplayRun> runs;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      const auto row = nlohmann::json::parse(line);
      const std::string what = row.at("what").get<std::string>();
      const ReplayTurn turn = replay_turn(row);
      auto run = std::find_if(runs.begin(), runs.end(), [&](const ReplayRun& r) { return r.what == what; });
      if (run == runs.end()) run = runs.insert(runs.end(), {.what = what});
      if (turn.turn == 1) run->turns.clear();  // of a later run
      row.at("compared").get_to(run->compared);
      run->turns.push_back(turn);
    } catch (const std::exception& e) {
      throw Error(Code::kBadInput, fmt::format("line {} is no turn of kvasir bench replay: {}", number, e.what()),
                  path);
    }
  }
  return runs;
}

}  // namespace kvasir::cli
