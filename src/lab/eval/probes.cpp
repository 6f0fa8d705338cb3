#include "lab/eval/probes.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/options.hpp"
#include "run/rng.hpp"

namespace kvasir::lab::eval {

std::int64_t Probe::tokens() const {
  std::size_t longest = 0;
  for (const auto& c : candidates) longest = std::max(longest, c.size());
  return static_cast<std::int64_t>(prompt.size() + longest);
}

Probe make_probe(const text::Tokenizer& tokenizer, const std::string& prompt,
                 const std::vector<std::string>& continuations) {
  const text::EncodeOptions with_bos{.add_bos = tokenizer.add_bos() && tokenizer.bos() >= 0};
  Probe probe;
  probe.prompt = tokenizer.encode(prompt, with_bos);
  // Prompt and continuation are tokenised together, and what all of them share is the prompt: where a token would
  // straddle the border, the prompt ends before it.
  std::size_t shared = probe.prompt.size();
  for (const std::string& c : continuations) {
    probe.candidates.push_back(tokenizer.encode(prompt + c, with_bos));
    const auto& ids = probe.candidates.back();
    const auto [p, q] = std::mismatch(probe.prompt.begin(), probe.prompt.end(), ids.begin(), ids.end());
    shared = std::min(shared, static_cast<std::size_t>(p - probe.prompt.begin()));
  }
  probe.prompt.resize(shared);
  for (auto& ids : probe.candidates) ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shared));
  return probe;
}

namespace {

using ProbeJson = nlohmann::json;

// A sample as text: what stands before the records, each record with its value, what stands behind, and how an answer
// is written.
struct Sample {
  std::string head, question;
  std::vector<std::string> records, values;
  std::size_t right = 0;
  std::string join, close;  // between records; behind an answer
};

[[noreturn]] void probes_bad(const std::string& why, const std::string& where) {
  throw Error(Code::kBadInput, why, where);
}

std::string text_field(const ProbeJson& json, const char* key, const std::string& where) {
  if (!json.contains(key) || !json[key].is_string())
    probes_bad(std::string("expected a text under \"") + key + "\"", where);
  return json[key].get<std::string>();
}

// LongChat: records are the lines "line NAME: REGISTER_CONTENT is <NUMBER>" in the middle of the prompt. The prompt is
// closed by the beginning of the line that is asked for, which a model without instruction tuning can go on with, too.
Sample line_sample(const ProbeJson& json, const std::string& where) {
  const std::string prompt = text_field(json, "prompt", where), line = text_field(json, "correct_line", where);
  const std::size_t value = line.find('<');
  if (value == std::string::npos || line.find('>', value) == std::string::npos)
    probes_bad("expected a number in <> in \"correct_line\"", where);
  Sample s;
  s.close = ">";
  bool found = false;
  for (std::size_t begin = 0; begin < prompt.size();) {
    const std::size_t end = std::min(prompt.find('\n', begin), prompt.size() - 1) + 1;
    const std::string record = prompt.substr(begin, end - begin);
    begin = end;
    const std::size_t open = record.find(": REGISTER_CONTENT is <");
    if (!record.starts_with("line ") || open == std::string::npos) {
      (s.records.empty() ? s.head : s.question) += record;
      continue;
    }
    const std::size_t from = record.find('<', open) + 1;
    if (record.find_last_not_of("\n") == line.find_last_not_of("\n") && record.starts_with(line.substr(0, value))) {
      s.right = s.records.size();
      found = true;
    }
    s.records.push_back(record);
    s.values.push_back(record.substr(from, record.find('>', from) - from));
  }
  if (!found) probes_bad("\"prompt\" does not hold \"correct_line\"", where);
  s.question += "\n" + line.substr(0, value + 1);
  return s;
}

// Lost in the Middle: a JSON object of random pairs.
Sample pair_sample(const ProbeJson& json, const std::string& where) {
  const std::string key = text_field(json, "key", where), value = text_field(json, "value", where);
  Sample s{.head = "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{",
           .question = "}\n\nKey: \"" + key + "\"\nCorresponding value: \"",
           .join = ",\n ",
           .close = "\""};
  bool found = false;
  for (const ProbeJson& pair : json["ordered_kv_records"]) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      probes_bad("expected pairs of texts under \"ordered_kv_records\"", where);
    if (pair[0] == key) s.right = s.records.size(), found = true;
    s.records.push_back("\"" + pair[0].get<std::string>() + "\": \"" + pair[1].get<std::string>() + "\"");
    s.values.push_back(pair[1].get<std::string>());
  }
  if (!found || s.values[s.right] != value)
    probes_bad("\"ordered_kv_records\" does not hold \"key\" with \"value\"", where);
  return s;
}

// Leaves `count` records, evenly spread over the others, the right one at about its relative place.
void thin(Sample* s, std::size_t count) {
  if (count == 0 || count >= s->records.size()) return;
  std::vector<std::string> records, values;
  const std::size_t slot = s->right * count / s->records.size();
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t from = (i * s->records.size() + count - 1) / count;  // rounded up, it cannot meet the right one
    if (i == slot) from = s->right;
    records.push_back(s->records[from]);
    values.push_back(s->values[from]);
  }
  s->records = std::move(records);
  s->values = std::move(values);
  s->right = slot;
}

Probe probes_probe_of(const text::Tokenizer& tokenizer, const Sample& s, int distractors, run::Rng* rng) {
  std::string prompt = s.head;
  for (std::size_t i = 0; i < s.records.size(); ++i) prompt += (i > 0 ? s.join : "") + s.records[i];
  prompt += s.question;
  std::vector<std::string> others;
  for (const std::string& v : s.values)
    if (v != s.values[s.right] && std::find(others.begin(), others.end(), v) == others.end()) others.push_back(v);
  std::vector<std::string> continuations{s.values[s.right] + s.close};
  while (static_cast<int>(continuations.size()) <= distractors && !others.empty()) {
    const std::size_t i = rng->next() % others.size();
    continuations.push_back(others[i] + s.close);
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
  }
  Probe probe = make_probe(tokenizer, prompt, continuations);
  probe.answer = s.values[s.right];
  return probe;
}

}  // namespace

FileProbes file_probes(const text::Tokenizer& tokenizer, const std::string& path, std::int64_t records,
                       std::int64_t samples, const ProbeOptions& options) {
  const std::string text = read_text_file(path);
  if (text.starts_with("\x1f\x8b"))
    probes_bad("is compressed with gzip, expected JSON lines; unpack it first: gzip -dk " + path, path);
  FileProbes out;
  run::Rng rng(options.seed);
  std::int64_t line_number = 0, taken = 0;
  for (std::size_t begin = 0; begin < text.size() && (samples == 0 || taken < samples);) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string where = path + ", line " + std::to_string(++line_number);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const ProbeJson json = parse_json(line, where);
    if (!json.is_object()) probes_bad("expected an object", where);
    const bool pairs = json.contains("ordered_kv_records");
    if (!pairs && !json.contains("correct_line"))
      probes_bad("expected \"ordered_kv_records\" (key-value retrieval) or \"correct_line\" (line retrieval)", where);
    Sample sample = pairs ? pair_sample(json, where) : line_sample(json, where);
    thin(&sample, static_cast<std::size_t>(records));
    if (sample.records.size() < 2) probes_bad("has one record, expected several", where);
    ++taken;
    Probe probe = probes_probe_of(tokenizer, sample, options.distractors, &rng);
    out.shortest_tokens = taken == 1 ? probe.tokens() : std::min(out.shortest_tokens, probe.tokens());
    if (probe.tokens() > options.ctx) {
      ++out.too_long;
      continue;
    }
    probe.group = std::filesystem::path(path).filename().string();
    out.probes.push_back(std::move(probe));
  }
  if (taken == 0) probes_bad("holds no samples", path);
  if (out.probes.empty())
    probes_bad("none of its " + std::to_string(taken) + " samples fits into --ctx " + std::to_string(options.ctx) +
                   ": the shortest takes " + std::to_string(out.shortest_tokens) + " tokens (see --records)",
               path);
  return out;
}

}  // namespace kvasir::lab::eval
