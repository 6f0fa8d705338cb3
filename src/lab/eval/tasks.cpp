#include "lab/eval/tasks.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.hpp"
#include "run/rng.hpp"

namespace kvasir::lab::eval {
namespace {

// What is asked for in a text; it stands at `depth` per cent.
struct Question {
  std::int64_t depth = 0;
  std::vector<std::string> continuations;  // the right one first
  std::string answer;
};

// A text of `size` pieces around all that its questions ask for, and one of the questions behind it. More pieces never
// make it shorter.
struct TaskSample {
  std::function<std::string(std::int64_t size, std::size_t question)> prompt;
  std::vector<Question> questions;
};

// Between facts of one depth stand this many pieces, towards the middle.
constexpr std::int64_t kApart = 1;

std::int64_t place_of(std::int64_t size, std::int64_t depth, std::int64_t nth) {
  const std::int64_t step = depth <= 50 ? kApart : -kApart;
  return std::clamp<std::int64_t>(size * depth / 100 + nth * step, 0, size);
}

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

// What a text says of places, and asks.
struct Wording {
  const char* beginning;
  std::string (*fact)(const std::string& place, const std::string& value);
  std::string (*question)(const std::string& place);
  std::string (*filler)(run::Rng* rng);
};

constexpr Wording kSpecialNumbers{
    "Remember the special numbers of the places in this text. You will be asked for one of them.\n",
    [](const std::string& place, const std::string& value) {
      return "The special number of " + place + " is " + value + ".\n";
    },
    [](const std::string& place) {
      return "What is the special number of " + place + "? The special number of " + place + " is";
    },
    varied_sentence};

// The text of passkey_probes with keys of several places.
constexpr Wording kPassKeys{
    kPasskeyTask,
    [](const std::string& place, const std::string& value) {
      return "The pass key of " + place + " is " + value + ". Remember it. " + value + " is the pass key of " + place +
             ".\n";
    },
    [](const std::string& place) { return "What is the pass key of " + place + "? The pass key of " + place + " is"; },
    [](run::Rng*) { return std::string(kPasskeyFiller); }};

// Which facts stand in front of piece i, for all pieces up to `size`.
std::vector<std::vector<std::size_t>> places_of(const std::vector<Question>& questions, std::int64_t size) {
  std::vector<std::vector<std::size_t>> at(static_cast<std::size_t>(size) + 1);
  std::int64_t nth = 0;
  for (std::size_t q = 0; q < questions.size(); ++q) {
    nth = q > 0 && questions[q].depth == questions[q - 1].depth ? nth + 1 : 0;
    at[static_cast<std::size_t>(place_of(size, questions[q].depth, nth))].push_back(q);
  }
  return at;
}

// `others` more cities' numbers are spread over the filler; where there is no filler they are all there is.
TaskSample needle_sample(const Wording& wording, const std::vector<std::int64_t>& depths, int others, bool filler,
                         int distractors, run::Rng* rng) {
  const std::size_t asked = depths.size();
  const int pool = static_cast<int>(asked) + std::max(others, distractors);
  const std::vector<std::string> places = distinct(rng, pool, city);
  const std::vector<std::string> values = distinct(rng, pool, number);
  const std::uint64_t seed = rng->next();
  TaskSample s;
  for (std::size_t q = 0; q < asked; ++q) {
    Question one{.depth = depths[q], .continuations = {}, .answer = values[q]};
    for (std::size_t i = 0; i <= static_cast<std::size_t>(distractors); ++i)
      one.continuations.push_back(" " + values[(q + i) % values.size()]);
    s.questions.push_back(std::move(one));
  }
  s.prompt = [=, questions = s.questions](std::int64_t size, std::size_t question) {
    run::Rng words(seed);
    std::string text = wording.beginning;
    const auto at = places_of(questions, size);
    // Other facts stand at even distances, the first ones nearest to the beginning.
    std::set<std::string> used(places.begin(), places.end());
    int told = 1;
    for (std::int64_t i = 0; i <= size; ++i) {
      for (const std::size_t q : at[static_cast<std::size_t>(i)]) text += wording.fact(places[q], values[q]);
      if (i == size) break;
      if (filler) {
        if (others > 0 && told <= others && i * (others + 1) >= told * size) {
          const std::size_t other = asked + static_cast<std::size_t>(told++) - 1;
          text += wording.fact(places[other], values[other]);
        }
        text += wording.filler(&words);
        continue;
      }
      std::string place = city(&words);
      while (!used.insert(place).second) place += pick(&words, {"a", "o", " North", " South", " East", " West"});
      text += wording.fact(place, number(&words));
    }
    return text + wording.question(places[question]);
  };
  return s;
}

std::string hexadecimal(run::Rng* rng) {
  std::string s;
  for (int i = 0; i < 12; ++i) s += "0123456789abcdef"[rng->next() % 16];
  return s;
}

TaskSample tasks_pair_sample(const std::vector<std::int64_t>& depths, int distractors, run::Rng* rng) {
  const std::size_t asked = depths.size();
  const std::vector<std::string> keys = distinct(rng, static_cast<int>(asked), hexadecimal);
  const std::vector<std::string> values = distinct(rng, static_cast<int>(asked) + distractors, hexadecimal);
  const std::uint64_t seed = rng->next();
  TaskSample s;
  for (std::size_t q = 0; q < asked; ++q) {
    Question one{.depth = depths[q], .continuations = {}, .answer = values[q]};
    for (std::size_t i = 0; i <= static_cast<std::size_t>(distractors); ++i)
      one.continuations.push_back(values[(q + i) % values.size()] + "\"");
    s.questions.push_back(std::move(one));
  }
  s.prompt = [=, questions = s.questions](std::int64_t size, std::size_t question) {
    run::Rng words(seed);
    std::string text =
        "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{";
    const auto at = places_of(questions, size);
    const auto add = [&](const std::string& k, const std::string& v) {
      text += (text.ends_with('{') ? "\"" : ",\n \"") + k + "\": \"" + v + "\"";
    };
    for (std::int64_t i = 0; i <= size; ++i) {
      for (const std::size_t q : at[static_cast<std::size_t>(i)]) add(keys[q], values[q]);
      if (i == size) break;
      const std::string other = hexadecimal(&words);
      add(other, hexadecimal(&words));
    }
    return text + "}\n\nKey: \"" + keys[question] + "\"\nCorresponding value: \"";
  };
  return s;
}

TaskSample count_sample(int distractors, run::Rng* rng) {
  const std::string animal = pick(rng, {"elephant", "penguin", "tiger", "parrot", "dolphin", "camel"});
  const auto right = static_cast<std::int64_t>(1 + rng->next() % 9);
  const std::uint64_t seed = rng->next();
  Question one{.depth = -1, .continuations = {" " + std::to_string(right)}, .answer = std::to_string(right)};
  for (std::int64_t n = 1; n <= 9 && static_cast<int>(one.continuations.size()) <= distractors; ++n)
    if (n != right) one.continuations.push_back(" " + std::to_string(n));
  TaskSample s;
  s.questions.push_back(std::move(one));
  s.prompt = [=](std::int64_t size, std::size_t) {
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

TaskSample make_sample(const std::string& task, const std::vector<std::int64_t>& depths, int distractors,
                       run::Rng* rng) {
  constexpr int kOthers = 7;
  if (task == "passkey") return needle_sample(kPassKeys, depths, 0, true, distractors, rng);
  if (task == "needle") return needle_sample(kSpecialNumbers, depths, 0, true, distractors, rng);
  if (task == "needles") return needle_sample(kSpecialNumbers, depths, kOthers, true, distractors, rng);
  if (task == "hard") return needle_sample(kSpecialNumbers, depths, 0, false, distractors, rng);
  if (task == "pairs") return tasks_pair_sample(depths, distractors, rng);
  return count_sample(distractors, rng);
}

// The most pieces with which the question's prompt fits into `length` tokens, but for the tokens by which one answer
// is longer than the first.
std::int64_t fitting_size(const text::Tokenizer& tokenizer, const TaskSample& sample, std::size_t question,
                          std::int64_t length) {
  const std::vector<std::string> first{sample.questions[question].continuations.front()};
  const auto tokens_of = [&](std::int64_t size) {
    return make_probe(tokenizer, sample.prompt(size, question), first).tokens();
  };
  if (const std::int64_t least = tokens_of(0); least > length)
    throw Error(
        Code::kBadInput,
        "has " + std::to_string(length) + ", what is asked for and the question alone take " + std::to_string(least),
        "--lengths");
  // A piece takes about as many tokens as in a text of a few.
  const std::int64_t some = 64, least = tokens_of(0);
  const double each = static_cast<double>(tokens_of(some) - least) / some;
  auto low = std::max<std::int64_t>(0, static_cast<std::int64_t>(0.95 * static_cast<double>(length - least) / each));
  while (low > 0 && tokens_of(low) > length) low = low * 9 / 10;
  std::int64_t high = low + std::max<std::int64_t>(2, low / 8);
  while (tokens_of(high) <= length) low = high, high += std::max<std::int64_t>(2, high / 8);
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (tokens_of(middle) <= length ? low : high) = middle;
  }
  return low;
}

// A probe per question, all behind the longest text with which each fits into `length` tokens.
std::vector<Probe> fitted(const text::Tokenizer& tokenizer, const TaskSample& sample, std::int64_t length) {
  std::int64_t size = fitting_size(tokenizer, sample, 0, length);
  for (;; --size) {
    std::vector<Probe> probes;
    std::int64_t longest = 0;
    for (std::size_t q = 0; q < sample.questions.size(); ++q) {
      const Question& question = sample.questions[q];
      Probe probe = make_probe(tokenizer, sample.prompt(size, q), question.continuations);
      longest = std::max(longest, probe.tokens());
      probe.answer = question.answer;
      probe.group = std::to_string(length);
      probe.depth = static_cast<int>(question.depth);
      probes.push_back(std::move(probe));
      if (longest > length && size > 0) break;
    }
    if (size == 0 || longest <= length) return probes;
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
  if (options.questions > 1 && task == "count")
    throw Error(Code::kBadInput,
                "is " + std::to_string(options.questions) + ", expected 1: a text of " + task + " has one answer",
                "--questions");
  if (task == "passkey" && options.questions == 1) return passkey_probes(tokenizer, lengths, depths, trials, options);
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
    const auto add = [&](const std::vector<std::int64_t>& asked) {
      const TaskSample sample = make_sample(task, asked, options.distractors, &rng);
      for (Probe& probe : fitted(tokenizer, sample, length)) probes.push_back(std::move(probe));
    };
    if (options.questions == 1) {
      for (const std::int64_t depth : depths)
        for (int trial = 0; trial < trials; ++trial) add({depth});
      continue;
    }
    std::vector<std::int64_t> asked;
    for (const std::int64_t depth : depths)
      asked.insert(asked.end(), static_cast<std::size_t>(options.questions), depth);
    for (int trial = 0; trial < trials; ++trial) add(asked);
  }
  return probes;
}

}  // namespace kvasir::lab::eval
