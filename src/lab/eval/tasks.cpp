#include "lab/eval/tasks.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.hpp"
#include "run/rng.hpp"

namespace kvasir::lab::eval {
namespace {

// A text of `size` pieces around what is asked for; more pieces never make it shorter.
struct Sample {
  std::function<std::string(std::int64_t size)> prompt;
  std::vector<std::string> continuations;  // the right one first
  std::string answer;
};

const char* pick(run::Rng* rng, std::initializer_list<const char*> words) {
  return words.begin()[rng->next() % words.size()];
}

std::string varied_sentence(run::Rng* rng) {
  std::string s = pick(rng, {"The old baker", "A quiet teacher", "My neighbour", "The young captain", "Her brother",
                             "A tired doctor", "The gardener", "An honest clerk", "The night watchman", "A musician"});
  s += pick(rng, {" walked along", " painted", " remembered", " described", " looked for", " left", " returned to",
                  " drew a map of", " wrote about", " dreamt of"});
  s += pick(rng, {" the narrow bridge", " a wooden house", " the harbour", " an empty market", " the orchard",
                  " a stone tower", " the railway station", " a crowded library", " the river bank", " a snowy field"});
  s += pick(rng, {" in early spring", " before sunrise", " with great care", " after the long storm", " on a Sunday",
                  " without a word", " for many years", " under heavy clouds", " once again", " during the festival"});
  return s + ".\n";
}

std::string city(run::Rng* rng) {
  std::string s = pick(rng, {"Bel", "Cor", "Dan", "Fel", "Gor", "Hal", "Jun", "Kor", "Lan", "Mar", "Nor", "Pel", "Ros",
                             "Sel", "Tor", "Val", "Wen", "Zan"});
  s += pick(rng, {"a", "e", "i", "o", "u", "an", "en", "in", "on", "er", "ar", "al"});
  s += pick(rng, {"bach", "burg", "dale", "ford", "ham", "holm", "mont", "port", "stad", "ton", "ville", "wick"});
  return s;
}

std::string number(run::Rng* rng) { return std::to_string(10000 + rng->next() % 90000); }

std::vector<std::string> distinct(run::Rng* rng, int count, const std::function<std::string(run::Rng*)>& draw) {
  std::vector<std::string> all;
  std::set<std::string> seen;
  while (static_cast<int>(all.size()) < count)
    if (std::string one = draw(rng); seen.insert(one).second) all.push_back(std::move(one));
  return all;
}

std::string fact(const std::string& place, const std::string& value) {
  return "The special number of " + place + " is " + value + ".\n";
}

// `facts` other cities' numbers are spread over the filler; where there is no filler they are all there is.
Sample needle_sample(std::int64_t depth, int others, bool filler, int distractors, run::Rng* rng) {
  const int pool = std::max(others, distractors) + 1;
  const std::vector<std::string> places = distinct(rng, pool, city);
  const std::vector<std::string> values = distinct(rng, pool, number);
  const std::uint64_t seed = rng->next();
  Sample s;
  for (int i = 0; i <= distractors; ++i) s.continuations.push_back(" " + values[static_cast<std::size_t>(i)]);
  s.answer = values.front();
  s.prompt = [=](std::int64_t size) {
    run::Rng words(seed);
    std::string text = "Remember the special numbers of the places in this text. You will be asked for one of them.\n";
    const std::int64_t at = size * depth / 100;
    // Other facts stand at even distances, the first ones nearest to the beginning.
    std::set<std::string> used(places.begin(), places.end());
    int told = 1;
    for (std::int64_t i = 0; i <= size; ++i) {
      if (i == at) text += fact(places[0], values[0]);
      if (i == size) break;
      if (filler) {
        if (others > 0 && told <= others && i * (others + 1) >= told * size)
          text += fact(places[static_cast<std::size_t>(told)], values[static_cast<std::size_t>(told)]), ++told;
        text += varied_sentence(&words);
        continue;
      }
      std::string place = city(&words);
      while (!used.insert(place).second) place += pick(&words, {"a", "o", " North", " South", " East", " West"});
      text += fact(place, number(&words));
    }
    return text + "What is the special number of " + places[0] + "? The special number of " + places[0] + " is";
  };
  return s;
}

std::string hexadecimal(run::Rng* rng) {
  std::string s;
  for (int i = 0; i < 12; ++i) s += "0123456789abcdef"[rng->next() % 16];
  return s;
}

Sample pair_sample(std::int64_t depth, int distractors, run::Rng* rng) {
  const std::string key = hexadecimal(rng);
  const std::vector<std::string> values = distinct(rng, distractors + 1, hexadecimal);
  const std::uint64_t seed = rng->next();
  Sample s;
  for (const std::string& v : values) s.continuations.push_back(v + "\"");
  s.answer = values.front();
  s.prompt = [=](std::int64_t size) {
    run::Rng words(seed);
    std::string text =
        "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{";
    const std::int64_t at = size * depth / 100;
    const auto add = [&](const std::string& k, const std::string& v) {
      text += (text.ends_with('{') ? "\"" : ",\n \"") + k + "\": \"" + v + "\"";
    };
    for (std::int64_t i = 0; i <= size; ++i) {
      if (i == at) add(key, values[0]);
      if (i == size) break;
      const std::string other = hexadecimal(&words);
      add(other, hexadecimal(&words));
    }
    return text + "}\n\nKey: \"" + key + "\"\nCorresponding value: \"";
  };
  return s;
}

Sample count_sample(int distractors, run::Rng* rng) {
  const std::string animal = pick(rng, {"elephant", "penguin", "tiger", "parrot", "dolphin", "camel"});
  const auto right = static_cast<std::int64_t>(1 + rng->next() % 9);
  const std::uint64_t seed = rng->next();
  Sample s;
  s.answer = std::to_string(right);
  s.continuations.push_back(" " + s.answer);
  for (std::int64_t n = 1; n <= 9 && static_cast<int>(s.continuations.size()) <= distractors; ++n)
    if (n != right) s.continuations.push_back(" " + std::to_string(n));
  s.prompt = [=](std::int64_t size) {
    run::Rng words(seed);
    std::string text = "Count how often a " + animal + " is seen in this text.\n";
    std::int64_t told = 0;
    const auto see = [&] { text += "Then a " + animal + " was seen.\n", ++told; };
    for (std::int64_t i = 0; i < size; ++i) {
      if (told < right && (i + 1) * (right + 1) >= (told + 1) * (size + 1)) see();
      text += varied_sentence(&words);
    }
    while (told < right) see();
    return text + "How often was a " + animal + " seen, as a number? Answer:";
  };
  return s;
}

Sample make_sample(const std::string& task, std::int64_t depth, int distractors, run::Rng* rng) {
  constexpr int kOthers = 7;
  if (task == "needle") return needle_sample(depth, 0, true, distractors, rng);
  if (task == "needles") return needle_sample(depth, kOthers, true, distractors, rng);
  if (task == "hard") return needle_sample(depth, 0, false, distractors, rng);
  if (task == "pairs") return pair_sample(depth, distractors, rng);
  return count_sample(distractors, rng);
}

// The longest prompt of the sample that fits into `length` tokens.
Probe fitted(const text::Tokenizer& tokenizer, const Sample& sample, std::int64_t length) {
  const std::vector<std::string> first{sample.continuations.front()};  // the others are about as long
  const auto probe_of = [&](std::int64_t size) { return make_probe(tokenizer, sample.prompt(size), first); };
  std::int64_t low = 0, high = 1;  // low fits
  if (const std::int64_t least = probe_of(0).tokens(); least > length)
    throw Error(Code::kBadInput,
                "has " + std::to_string(length) + ", the question alone takes " + std::to_string(least), "--lengths");
  // A piece takes about as many tokens as in a text of a few.
  const std::int64_t some = 64;
  const double each = static_cast<double>(probe_of(some).tokens() - probe_of(0).tokens()) / some;
  low = std::max<std::int64_t>(
      0, static_cast<std::int64_t>(0.95 * static_cast<double>(length - probe_of(0).tokens()) / each));
  while (low > 0 && probe_of(low).tokens() > length) low = low * 9 / 10;
  high = low + std::max<std::int64_t>(2, low / 8);
  while (probe_of(high).tokens() <= length) low = high, high += std::max<std::int64_t>(2, high / 8);
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (probe_of(middle).tokens() <= length ? low : high) = middle;
  }
  for (;; --low) {
    Probe probe = make_probe(tokenizer, sample.prompt(low), sample.continuations);
    if (low == 0 || probe.tokens() <= length) return probe;
  }
}

}  // namespace

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names{"passkey", "needle", "needles", "hard", "pairs", "count"};
  return names;
}

std::vector<Probe> task_probes(const text::Tokenizer& tokenizer, const std::string& task,
                               const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& depths,
                               int trials, const ProbeOptions& options) {
  if (task == "passkey") return passkey_probes(tokenizer, lengths, depths, trials, options);
  if (std::find(task_names().begin(), task_names().end(), task) == task_names().end()) {
    std::string all;
    for (const std::string& name : task_names()) all += (all.empty() ? "" : ", ") + name;
    throw Error(Code::kBadInput, "is '" + task + "', expected one of " + all, "--task");
  }
  std::vector<Probe> probes;
  run::Rng rng(options.seed);
  for (const std::int64_t length : lengths) {
    if (length > options.ctx)
      throw Error(Code::kBadInput,
                  "has " + std::to_string(length) + ", expected at most --ctx, " + std::to_string(options.ctx),
                  "--lengths");
    for (const std::int64_t depth : depths)
      for (int trial = 0; trial < trials; ++trial) {
        const Sample sample = make_sample(task, depth, options.distractors, &rng);
        Probe probe = fitted(tokenizer, sample, length);
        probe.answer = sample.answer;
        probe.group = std::to_string(length);
        probe.depth = task == "count" ? -1 : static_cast<int>(depth);
        probes.push_back(std::move(probe));
      }
  }
  return probes;
}

}  // namespace kvasir::lab::eval
