#include "lab/rag.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "base/error.hpp"
#include "base/file.hpp"
#include "kv/spec.hpp"
#include "run/ask.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "store/open.hpp"
#include "text/prompt.hpp"

namespace kvasir::lab {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kLikeliest = 1000;  // tokens of a distribution that are compared
constexpr std::size_t kQuoted = 8;         // words of a question about a text that has none

struct Document {
  Ids ids;
  std::string question, answer;
};

void append(Ids& to, const Ids& ids) { to.insert(to.end(), ids.begin(), ids.end()); }

// Asks for the word behind some words of the text: nothing else says it.
void ask_for_a_word(const std::string& text, std::mt19937& rng, Document* d) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string w; in >> w;) words.push_back(w);
  if (words.size() < 4 * kQuoted) return;
  const std::size_t at = words.size() / 4 + rng() % (words.size() / 4);
  std::string quoted;
  for (std::size_t i = at; i < at + kQuoted; ++i) quoted += (i > at ? " " : "") + words[i];
  d->question = "Somewhere above the following is written, word by word:\n" + quoted;
  d->answer = words[at + kQuoted];
}

Ids encode(const text::Tokenizer& tokenizer, const std::string& text) {
  return text::encode_prompt(tokenizer, text, {.add_bos = false, .parse_special = false});
}

std::vector<Document> read_documents(const RagOptions& o, const text::Tokenizer& tokenizer, std::int64_t wanted) {
  const std::string file = read_text_file(o.documents);
  std::mt19937 rng(static_cast<unsigned>(o.seed));
  std::vector<Document> documents;
  const auto most = static_cast<std::size_t>(o.tokens);
  const auto full = [&] { return static_cast<std::int64_t>(documents.size()) >= wanted; };
  if (!file.empty() && file[0] == '{') {
    std::istringstream in(file);
    std::int64_t number = 0;
    for (std::string line; !full() && std::getline(in, line);) {
      ++number;
      if (line.empty()) continue;
      const auto row = nlohmann::json::parse(line, nullptr, false);
      if (!row.is_object() || !row.contains("text") || !row["text"].is_string())
        throw Error(Code::kBadInput,
                    "line " + std::to_string(number) + ": expected a JSON object with \"text\", a string", o.documents);
      const std::string text = row["text"];
      Document d{encode(tokenizer, text), row.value("question", ""), row.value("answer", "")};
      if (d.ids.size() > most) d.ids.resize(most);
      if (d.question.empty()) ask_for_a_word(text, rng, &d);
      documents.push_back(std::move(d));
    }
  } else {
    // Pieces that begin and end at white space, long enough to be cut to the wanted number of tokens.
    const std::size_t characters = most * 6;
    for (std::size_t at = 0; !full() && at + characters < file.size(); at += characters) {
      const std::size_t begin = file.find_first_of(" \n", at);
      if (begin == std::string::npos || begin + characters > file.size()) break;
      const std::string text = file.substr(begin + 1, characters);
      Document d{encode(tokenizer, text), {}, {}};
      if (d.ids.size() < most / 2) continue;
      if (d.ids.size() > most) d.ids.resize(most);
      ask_for_a_word(text, rng, &d);
      documents.push_back(std::move(d));
    }
  }
  if (static_cast<std::int64_t>(documents.size()) < o.k + 1)
    throw Error(Code::kBadInput,
                "has " + std::to_string(documents.size()) + " documents of " + std::to_string(o.tokens) +
                    " tokens, expected more than --k, " + std::to_string(o.k),
                o.documents);
  return documents;
}

// KL(a || b) over the likeliest tokens of both, and all others as one: a lower bound of the whole, which it nears.
double divergence(const run::TokenRecord& a, const run::TokenRecord& b) {
  std::unordered_map<std::int32_t, double> there;
  for (const auto& t : b.best) there[t.id] = static_cast<double>(t.logprob);
  double kl = 0, rest_a = 1, rest_b = 1;
  for (const auto& t : a.best) {
    const auto other = there.find(t.id);
    if (other == there.end()) continue;
    const double p = std::exp(static_cast<double>(t.logprob));
    kl += p * (static_cast<double>(t.logprob) - other->second);
    rest_a -= p;
    rest_b -= std::exp(other->second);
  }
  if (rest_a > 1e-9 && rest_b > 1e-9) kl += rest_a * std::log(rest_a / rest_b);
  return std::max(kl, 0.0);
}

struct Way {
  std::string name, reuse;
  run::BlendRequest blend;
};

std::vector<Way> ways_of(const RagOptions& o) {
  std::vector<Way> ways{{"cold", "off", {}}};
  if (!o.skip_exact) ways.push_back({"exact", "exact", {}});
  const auto blend = [](const char* strategy) {
    run::BlendRequest b;
    b.reuse = "blend";
    b.strategy = strategy;
    return b;
  };
  ways.push_back({"naive", "blend", blend("none")});
  ways.push_back({"first rows", "blend", blend("first_rows")});
  std::istringstream in(o.ratios);
  for (std::string text; std::getline(in, text, ',');) {
    char* end = nullptr;
    const float ratio = std::strtof(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(ratio >= 0 && ratio <= 1))
      throw Error(Code::kBadInput, "'" + text + "' is no number from 0 to 1", "--ratios");
    if (ratio <= 0) continue;
    ways.push_back({"blend " + text, "blend", blend("blend")});
    ways.back().blend.ratio = ratio;
  }
  return ways;
}

// One way and question.
struct Sample {
  std::string way, refused;
  float ttft = 0, looking = 0, kl = 0;
  std::int64_t prompt_tokens = 0, reused = 0, relocated = 0, repaired = 0;
  bool same_first = false, same_answer = false, right = false, cold_right = false;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sample, way, refused, ttft, looking, kl, prompt_tokens, reused, relocated, repaired,
                                   same_first, same_answer, right, cold_right)

void add(const Sample& s, RagRow* row) {
  row->ttft.push_back(s.ttft);
  row->looking.push_back(s.looking);
  row->kl.push_back(s.kl);
  row->prompt_tokens += s.prompt_tokens;
  row->reused += s.reused;
  row->relocated += s.relocated;
  row->repaired += s.repaired;
  if (!s.refused.empty()) row->refused = s.refused;
  row->same_first += s.same_first;
  row->same_answer += s.same_answer;
  row->right += s.right;
  row->as_good += s.same_answer || s.right == s.cold_right;
  row->worse += s.cold_right && !s.right;
  ++row->asked;
  const double share =
      static_cast<double>(s.reused + s.relocated) / static_cast<double>(std::max<std::int64_t>(1, s.prompt_tokens));
  RagBucket& bucket = row->by_reuse[std::min<std::size_t>(3, static_cast<std::size_t>(4 * share))];
  ++bucket.asked;
  bucket.right += s.right;
  bucket.cold_right += s.cold_right;
  bucket.same_answer += s.same_answer;
}

// What was measured by earlier runs with the same settings.
class Samples {
 public:
  // what: of the settings that a figure depends on. Throws Error(kBadInput) for a line that is none of this file's.
  Samples(const std::string& path, std::string what) : path_(path), what_(std::move(what)) {
    std::error_code none;
    if (path.empty() || !std::filesystem::exists(path, none)) return;
    const std::string text = read_text_file(path);
    const std::size_t whole = text.rfind('\n') + 1;  // 0 without one
    std::istringstream in(text.substr(0, whole));
    std::int64_t number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      try {
        const auto row = nlohmann::json::parse(line);
        if (row.at("settings").get<std::string>() == what_)
          known_[row.at("question").get<std::int64_t>()] = row.at("ways").get<std::vector<Sample>>();
      } catch (const nlohmann::json::exception& e) {
        throw Error(Code::kBadInput,
                    "line " + std::to_string(number) + ": expected a question that was measured: " + e.what(), path);
      }
    }
    if (whole == text.size()) return;
    // A run ended while it wrote. What is no line of ours is not cut off.
    if (!std::string_view(text).substr(whole).starts_with("{\"question\":"))
      throw Error(Code::kBadInput, "line " + std::to_string(number + 1) + ": expected a question that was measured",
                  path);
    std::filesystem::resize_file(path, whole);
  }
  const std::vector<Sample>* find(std::int64_t question) const {
    const auto at = known_.find(question);
    return at == known_.end() ? nullptr : &at->second;
  }
  void keep(std::int64_t question, const std::vector<Sample>& ways) const {
    if (path_.empty()) return;
    std::ofstream out(path_, std::ios::app);
    out << nlohmann::json{{"settings", what_}, {"question", question}, {"ways", ways}}.dump() << std::endl;
    if (!out) throw Error(Code::kIo, "cannot be written", path_);
  }

 private:
  const std::string path_, what_;
  std::map<std::int64_t, std::vector<Sample>> known_;
};

}  // namespace

const OptionTable<RagOptions>& rag_table() {
  using O = RagOptions;
  static const OptionTable<O> table{
      "rag",
      {{"documents",
        &O::documents,
        {.help = "a text, which is cut into documents, or JSON lines with \"text\" and, if there are, \"question\" and "
                 "\"answer\"",
         .placeholder = "FILE",
         .required = true}},
       {"k", &O::k, {.help = "documents of a prompt", .alias = "--k", .low = 1, .high = 1024}},
       {"tokens", &O::tokens, {.help = "most of a document", .unit = "tokens", .low = 128, .high = 1 << 20}},
       {"questions", &O::questions, {.help = "prompts in all", .low = 1, .high = 1 << 20}},
       {"per_set",
        &O::per_set,
        {.help = "questions about the same documents, in an order of their own each", .low = 1, .high = 1024}},
       {"order",
        &O::order,
        {.help = "what is different from the prompt that was computed before: the order of the documents, one word at "
                 "the beginning, another document in front, or everything, which shows what looking costs",
         .choices = {"shuffled", "edited", "inserted", "unrelated"}}},
       {"ratios",
        &O::ratios,
        {.help = "shares of rows that are computed again, separated by commas", .placeholder = "LIST"}},
       {"answer", &O::answer, {.help = "most of an answer", .unit = "tokens", .low = 1, .high = 4096}},
       {"seed", &O::seed, {.help = "of the orders and questions", .low = 0}},
       {"skip_exact", &O::skip_exact, {.help = "do not ask with exact reuse, whose answers are the cold ones"}},
       {"samples",
        &O::samples,
        {.help = "file to which every question's figures are added; what it has of the same settings is not measured "
                 "again",
         .placeholder = "FILE"}}}};
  return table;
}

std::vector<RagRow> measure_rag(run::Engine& engine, const RagOptions& o, const run::BlendOptions& blend,
                                const std::function<bool(std::int64_t, std::int64_t)>& poll) {
  const text::Tokenizer& tokenizer = *engine.tokenizer();
  const bool unrelated = o.order == "unrelated";
  const std::int64_t per_set = unrelated ? 1 : o.per_set;
  const std::int64_t sets = (o.questions + per_set - 1) / per_set;
  const std::vector<Document> documents = read_documents(o, tokenizer, sets * o.k + 1);
  const std::vector<Way> ways = ways_of(o);
  std::vector<RagRow> rows;
  for (const Way& w : ways) rows.push_back({.name = w.name});
  const Samples samples(
      o.samples,
      fmt::format("{} | kv {} ctx {} | {} k {} tokens {} per set {} {} answer {} seed {} | {} exact {} | {} {} {}",
                  engine.options().model, kv::codecs_text(engine.codecs()), engine.context(), o.documents, o.k,
                  o.tokens, per_set, o.order, o.answer, o.seed, o.ratios, o.skip_exact, blend.first_rows,
                  blend.check_layer, blend.second_layer));
  store::Library library(engine.cache(), store::fingerprint_of(run::describe_cache(engine)),
                         {store::open_tier("ram:?size=4GiB")});
  // The model is tested now: requests follow each other, so that nothing would be between them.
  run::SchedulerOptions scheduling{.running = 1, .proves_blend = true};
  scheduling.blend = blend;
  run::Scheduler scheduler(engine, scheduling, "rag", &library);
  std::mt19937 rng(static_cast<unsigned>(o.seed));

  const auto prompt = [&](const std::string& date, const std::vector<std::size_t>& order, const std::string& question) {
    Ids ids = text::encode_prompt(tokenizer, "Today is " + date + ". Read the following texts and answer the question.",
                                  {.add_bos = tokenizer.add_bos(), .parse_special = false});
    const Ids between = encode(tokenizer, "\n\n-----\n\n");
    for (const std::size_t d : order) {
      append(ids, between);
      append(ids, documents[d].ids);
    }
    append(ids, between);
    append(ids, encode(tokenizer, question));
    return ids;
  };
  const auto ask = [&](const Ids& ids, const Way& way, std::int32_t tokens, const std::string& tenant) {
    run::ServiceRequest r;
    r.request.prompt = ids;
    r.request.max_tokens = tokens;
    r.request.sampling.temperature = 0;
    r.request.top_logprobs = kLikeliest;
    r.reuse = way.reuse != "off";
    r.blend = way.blend;
    r.tenant = tenant;
    return run::ask(scheduler, std::move(r));
  };

  std::size_t primed = documents.size();  // the set that was asked before
  for (std::int64_t q = 0; q < o.questions; ++q) {
    const auto set = static_cast<std::size_t>(
        q / per_set % std::max<std::int64_t>(1, static_cast<std::int64_t>(documents.size() - 1) / o.k));
    std::vector<std::size_t> order(static_cast<std::size_t>(o.k));
    std::iota(order.begin(), order.end(), set * static_cast<std::size_t>(o.k));
    const std::vector<std::size_t> as_before = order;
    const Document& about = documents[order[rng() % order.size()]];
    std::string date = "Monday";
    if (o.order == "shuffled") std::shuffle(order.begin(), order.end(), rng);
    if (o.order == "edited") date = q % 2 == 0 ? "Tuesday" : "Friday the 13th";
    if (o.order == "inserted") order.insert(order.begin(), documents.size() - 1);
    if (const std::vector<Sample>* known = samples.find(q); known && known->size() == ways.size()) {
      for (std::size_t w = 0; w < ways.size(); ++w) add((*known)[w], &rows[w]);
      continue;
    }
    if (primed != set && !unrelated) {
      // What was asked before. Exact requests have a store of their own, because they leave pages of every prompt.
      const Ids before = prompt("Monday", as_before,
                                "Which of the texts is the longest one, and what is it about? Answer in one word:");
      const Way exact{"exact", "exact", {}};
      ask(before, exact, 1, "blend");
      if (!o.skip_exact) ask(before, exact, 1, "exact");
      primed = set;
    }
    const Ids ids = prompt(date, order, about.question + (about.answer.empty() ? "\nAnswer:" : ""));
    run::Answered cold;
    std::vector<Sample> measured(ways.size());
    for (std::size_t i = 0; i < ways.size(); ++i) {
      // The cold one first, for comparisons; else in turn, so that a machine that slows down favours none.
      const std::size_t w = i == 0 || !unrelated ? i : 1 + (i - 1 + static_cast<std::size_t>(q)) % (ways.size() - 1);
      if (!poll(q * static_cast<std::int64_t>(ways.size()) + static_cast<std::int64_t>(i),
                std::int64_t{o.questions} * static_cast<std::int64_t>(ways.size())))
        return rows;
      // Of unrelated prompts no way shall find what another one left.
      const run::Answered reply = ask(ids, ways[w], o.answer,
                                      unrelated                  ? ways[w].name
                                      : ways[w].reuse == "exact" ? "exact"
                                                                 : "blend");
      if (w == 0) cold = reply;
      const auto right = [&](const run::Answered& r) {
        return !about.answer.empty() && r.text.find(about.answer) != std::string::npos;
      };
      const run::Receipt& receipt = reply.outcome.receipt;
      const bool both = !reply.records.empty() && !cold.records.empty();
      measured[w] = {.way = ways[w].name,
                     .refused = receipt.blend.refused,
                     .ttft = static_cast<float>(receipt.queue_seconds + receipt.prefill_seconds),
                     .looking = static_cast<float>(receipt.blend.seconds),
                     .kl = both ? static_cast<float>(divergence(cold.records[0], reply.records[0])) : 0,
                     .prompt_tokens = static_cast<std::int64_t>(ids.size()),
                     .reused = receipt.reused_tokens,
                     .relocated = receipt.blend.relocated_tokens,
                     .repaired = receipt.blend.repaired_tokens,
                     .same_first = both && reply.ids[0] == cold.ids[0],
                     .same_answer = reply.ids == cold.ids,
                     .right = right(reply),
                     .cold_right = right(cold)};
    }
    for (std::size_t w = 0; w < ways.size(); ++w) add(measured[w], &rows[w]);
    samples.keep(q, measured);
  }
  return rows;
}

}  // namespace kvasir::lab
