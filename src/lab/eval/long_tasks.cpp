#include "lab/eval/long_tasks.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include "base/error.hpp"
#include "run/rng.hpp"

namespace kvasir::lab::eval {
namespace {

using Texts = std::vector<std::string>;

const std::string& one_of_texts(run::Rng* rng, const Texts& all) { return all[rng->next() % all.size()]; }

std::string plain_sentence(run::Rng* rng) {
  static const Texts who{"The miller",     "An old sailor", "Her cousin", "The night nurse", "A young painter",
                         "The postmaster", "His neighbour", "The baker",  "A retired judge", "The lighthouse keeper"};
  static const Texts did{" repaired",    " described", " sold",     " photographed", " inherited",
                         " walked past", " measured",  " borrowed", " remembered",   " insured"};
  static const Texts what{
      " the stone bridge",  " a wooden boat",  " the harbour clock", " an empty barn", " the orchard",
      " a brass telescope", " the mill wheel", " a small chapel",    " the ferry",     " a piano"};
  static const Texts when{" before the storm", " in early spring", " on a Sunday",        " without a word",
                          " at first light",   " after the war",   " during the harvest", " for a friend",
                          " by mistake",       " once again"};
  return one_of_texts(rng, who) + one_of_texts(rng, did) + one_of_texts(rng, what) + one_of_texts(rng, when) + ".";
}

std::string chinese_sentence(run::Rng* rng) {
  static const Texts who{"老船长", "年轻的画家", "邮递员", "邻居", "面包师", "退休的法官", "护士", "音乐家"};
  static const Texts did{"修好了", "描述了", "卖掉了", "拍下了", "记得", "路过", "借走了", "画下了"};
  static const Texts what{"石桥", "一条木船", "港口的钟", "空谷仓", "果园", "望远镜", "水车", "小教堂"};
  static const Texts when{"在暴风雨之前", "在早春", "在星期天", "在黎明", "在战后", "在收获季节", "又一次", "在节日里"};
  return one_of_texts(rng, when) + "，" + one_of_texts(rng, who) + one_of_texts(rng, did) + one_of_texts(rng, what) +
         "。";
}

std::string town_name(run::Rng* rng) {
  static const Texts first{"Al",  "Bren", "Cal", "Dor", "Es",  "Fal", "Gren",
                           "Hol", "Il",   "Kes", "Lor", "Mal", "Nes", "Or"};
  static const Texts middle{"a", "e", "i", "o", "u", "an", "en", "er", "ar", "il"};
  static const Texts last{"burg", "dale", "ford", "ham", "mouth", "port", "ton", "wick", "stead", "field"};
  return one_of_texts(rng, first) + one_of_texts(rng, middle) + one_of_texts(rng, last);
}

std::string person_name(run::Rng* rng) {
  static const Texts given{"Ada",   "Boris", "Clara", "David", "Edith", "Felix", "Greta", "Hugo",  "Irene", "Jonas",
                           "Karla", "Leon",  "Marta", "Nils",  "Olga",  "Peter", "Ruth",  "Simon", "Tilda", "Viktor"};
  static const Texts family{"Abel",  "Brandt", "Castell", "Dorn",   "Ekman", "Falk",   "Gruber",
                            "Holm",  "Ibsen",  "Jensen",  "Keller", "Lund",  "Moreau", "Novak",
                            "Olsen", "Petri",  "Quist",   "Rossi",  "Stein", "Thorn"};
  return one_of_texts(rng, given) + " " + one_of_texts(rng, family);
}

std::string digits(run::Rng* rng) { return std::to_string(10000 + rng->next() % 90000); }

std::string hex_digits(run::Rng* rng) {
  std::string s;
  for (int i = 0; i < 12; ++i) s += "0123456789abcdef"[rng->next() % 16];
  return s;
}

// A text of `size` pieces with a question behind it. More pieces never make it shorter. where: of what is asked for, 0
// to 1.
struct LongSample {
  std::function<LongQuestion(std::int64_t size)> make;
};
using MakeSample = LongSample (*)(double where, std::uint64_t seed);

std::int64_t place_at(double where, std::int64_t size) {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(where * static_cast<double>(size)), 0, size - 1);
}

Texts paragraphs_of(std::uint64_t seed, std::int64_t count, int sentences) {
  run::Rng rng(seed);
  Texts all;
  for (std::int64_t i = 0; i < count; ++i) {
    std::string text;
    for (int s = 0; s < sentences; ++s) text += (s > 0 ? " " : "") + plain_sentence(&rng);
    all.push_back(std::move(text));
  }
  return all;
}

std::string numbered(const Texts& paragraphs) {
  std::string text;
  for (std::size_t i = 0; i < paragraphs.size(); ++i)
    text += "Paragraph " + std::to_string(i + 1) + ": " + paragraphs[i] + "\n\n";
  return text;
}

// The n-th sentence of a paragraph.
std::string sentence_of(const std::string& paragraph, int n) {
  std::size_t begin = 0;
  for (; n > 0; --n) begin = paragraph.find(". ", begin) + 2;
  return paragraph.substr(begin, paragraph.find('.', begin) + 1 - begin);
}

LongSample passages_sample(double where, std::uint64_t seed) {
  return {[=](std::int64_t size) {
    const Texts all = paragraphs_of(seed, size + 2, 4);
    const auto at = static_cast<std::size_t>(place_at(where, size + 2));
    return LongQuestion{.task = "passages",
                        .prompt = "One of these paragraphs is summed up at the end.\n\n" + numbered(all) +
                                  "The abstract.\n\n" + sentence_of(all[at], 2) + " " + sentence_of(all[at], 1) +
                                  "\n\nSay which paragraph it sums up, as in \"Paragraph 7\".\nAnswer: ",
                        .answers = {"Paragraph " + std::to_string(at + 1)},
                        .scorer = Scorer::kParagraph,
                        .first_line = true,
                        .most = 12};
  }};
}

LongSample recite_sample(double where, std::uint64_t seed) {
  return {[=](std::int64_t size) {
    const Texts all = paragraphs_of(seed, size + 2, 3);
    const auto at = static_cast<std::size_t>(place_at(where, size + 2));
    const std::string name = "Paragraph " + std::to_string(at + 1);
    return LongQuestion{.task = "recite",
                        .prompt = "Read these numbered paragraphs.\n\n" + numbered(all) + "Repeat " + name +
                                  " word by word.\n\n" + name + ":",
                        .answers = {all[at]},
                        .scorer = Scorer::kRougeL,
                        .first_line = true,
                        .most = 64};
  }};
}

// Where the person lives and who is mayor there stand half a text apart.
LongSample hops_sample(double where, std::uint64_t seed) {
  return {[=](std::int64_t size) {
    run::Rng rng(seed);
    std::set<std::string> used;
    const auto fresh = [&](std::string (*make)(run::Rng*)) {
      std::string s = make(&rng);
      while (!used.insert(s).second) s = make(&rng);
      return s;
    };
    constexpr std::size_t kTowns = 6;
    Texts towns, mayors, people;
    for (std::size_t i = 0; i < kTowns; ++i) {
      towns.push_back(fresh(town_name));
      mayors.push_back(fresh(person_name));
      people.push_back(fresh(person_name));
    }
    // Facts of all towns; those of the first at `where` and half a text behind it.
    const std::int64_t pieces = size + 2;
    std::vector<Texts> at(static_cast<std::size_t>(pieces));
    for (std::size_t i = 0; i < kTowns; ++i) {
      const double first = i == 0 ? where : rng.uniform();
      const double second = first < 0.5 ? first + 0.5 : first - 0.5;
      at[static_cast<std::size_t>(place_at(first, pieces))].push_back(people[i] + " lives in " + towns[i] + ".");
      at[static_cast<std::size_t>(place_at(second, pieces))].push_back("The mayor of " + towns[i] + " is " + mayors[i] +
                                                                       ".");
    }
    run::Rng words(seed + 1);
    std::string text;
    for (const Texts& facts : at) {
      for (const std::string& fact : facts) text += fact + " ";
      text += plain_sentence(&words) + " ";
    }
    return LongQuestion{.task = "hops",
                        .prompt = text + "\n\nAnswer in a few words.\nQuestion: Who is the mayor of the town where " +
                                  people[0] + " lives?\nAnswer:",
                        .answers = {mayors[0]},
                        .scorer = Scorer::kF1,
                        .first_line = true,
                        .most = 16};
  }};
}

LongSample repeats_sample(double where, std::uint64_t seed) {
  return {[=](std::int64_t size) {
    run::Rng rng(seed);
    const std::int64_t count = size + 2;
    Texts all = paragraphs_of(seed + 1, count, 2);
    const auto other = static_cast<std::int64_t>(where * 3) + 1;  // so many come again, three at most
    const std::int64_t again = std::min(other, count - 1);
    for (std::int64_t i = 0; i < again; ++i)
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(rng.next() % (all.size() + 1)),
                 all[static_cast<std::size_t>(rng.next() % all.size())]);
    return LongQuestion{.task = "count",
                        .prompt = "Some of these paragraphs stand here more than once.\n\n" + numbered(all) +
                                  "Say how many different paragraphs there are, as a number.\nAnswer: ",
                        .answers = {std::to_string(count)},
                        .scorer = Scorer::kCount,
                        .first_line = true,
                        .most = 8};
  }};
}

struct QuestionKind {
  const char* name;
  Texts begin, end;
};
const std::vector<QuestionKind>& question_kinds() {
  static const std::vector<QuestionKind> kinds{
      {"Location",
       {"Where is", "In which country lies", "Which river flows past"},
       {" the old harbour", " the longest bridge", " the royal library", " the first observatory", " the salt mine"}},
      {"Person",
       {"Who built", "Who painted", "Who discovered", "Who led"},
       {" the stone tower", " the northern comet", " the expedition", " the city hall", " the revolt"}},
      {"Number",
       {"How many people saw", "How many stairs has", "How many pages has"},
       {" the lighthouse", " the great atlas", " the opera", " the cathedral", " the old diary"}},
      {"Date",
       {"When was", "In what year ended", "On which day opened"},
       {" the siege", " the world fair", " the first railway", " the harbour strike", " the museum"}},
      {"Abbreviation",
       {"What does the abbreviation stand for in", "What is the full form of"},
       {" the term NASA", " the letters UFO", " the sign FAQ", " the name BBC", " the unit RPM"}}};
  return kinds;
}

LongSample classes_sample(double where, std::uint64_t seed) {
  return {[=](std::int64_t size) {
    const auto& kinds = question_kinds();
    run::Rng rng(seed);
    const auto question = [&](const QuestionKind& kind) {
      const std::string begin = one_of_texts(&rng, kind.begin);
      return begin + one_of_texts(&rng, kind.end) + "?";
    };
    const auto right = static_cast<std::size_t>(place_at(where, static_cast<std::int64_t>(kinds.size())));
    const std::string asked = question(kinds[right]);
    std::string text;
    for (std::int64_t i = 0; i < size + 5; ++i) {
      const QuestionKind& kind = kinds[i < 5 ? static_cast<std::size_t>(i) : rng.next() % kinds.size()];
      std::string example = question(kind);
      while (example == asked) example = question(kind);
      text += "Question: " + example + "\nType: " + kind.name + "\n";
    }
    LongQuestion q{.task = "classes",
                   .prompt = "Questions and their types.\n\n" + text + "Question: " + asked + "\nType:",
                   .answers = {kinds[right].name},
                   .scorer = Scorer::kClass,
                   .first_line = true,
                   .most = 8};
    for (const QuestionKind& kind : kinds) q.classes.emplace_back(kind.name);
    return q;
  }};
}

LongSample values_sample(double where, std::uint64_t seed) {
  return {[=](std::int64_t size) {
    run::Rng rng(seed);
    const std::int64_t asked = place_at(where, size + 2);
    std::string text, key, value;
    for (std::int64_t i = 0; i < size + 2; ++i) {
      const std::string k = hex_digits(&rng), v = hex_digits(&rng);
      text += (i > 0 ? ",\n \"" : "\"") + k + "\": \"" + v + "\"";
      if (i == asked) key = k, value = v;
    }
    return LongQuestion{.task = "pairs",
                        .prompt = "{" + text + "}\n\nThe value of the key \"" + key + "\" in this JSON object is \"",
                        .answers = {value},
                        .scorer = Scorer::kExact,
                        .first_line = true,
                        .most = 64};
  }};
}

LongSample needle_sample_of(double where, std::uint64_t seed, bool chinese) {
  return {[=](std::int64_t size) {
    run::Rng rng(seed);
    const std::string town =
        chinese ? one_of_texts(&rng, {"云城", "白河镇", "青石村", "北渡口", "松林镇", "东湖城"}) : town_name(&rng);
    const std::string number = digits(&rng);
    const std::int64_t at = place_at(where, size + 2);
    std::string text;
    for (std::int64_t i = 0; i < size + 2; ++i) {
      if (i == at)
        text +=
            chinese ? town + "的特别号码是" + number + "。" : "The special number of " + town + " is " + number + ". ";
      text += chinese ? chinese_sentence(&rng) : plain_sentence(&rng) + " ";
    }
    const std::string asked =
        chinese ? "请记住下面文字里的特别号码。\n\n" + text + "\n\n问题：" + town + "的特别号码是多少？\n答案："
                : "Remember the special number in this text.\n\n" + text +
                      "\n\nQuestion: What is the special number of " + town + "?\nAnswer:";
    return LongQuestion{.task = chinese ? "needle_zh" : "needle",
                        .prompt = asked,
                        .answers = {number},
                        .scorer = Scorer::kExact,
                        .first_line = true,
                        .most = 16};
  }};
}

struct LongTask {
  const char* name;
  MakeSample make;
};
constexpr LongTask kLongTasks[] = {
    {"passages", passages_sample},
    {"recite", recite_sample},
    {"hops", hops_sample},
    {"count", repeats_sample},
    {"classes", classes_sample},
    {"pairs", values_sample},
    {"needle", [](double where, std::uint64_t seed) { return needle_sample_of(where, seed, false); }},
    {"needle_zh", [](double where, std::uint64_t seed) { return needle_sample_of(where, seed, true); }},
};

std::int64_t question_tokens(const text::Tokenizer& tokenizer, const LongQuestion& q) {
  return static_cast<std::int64_t>(tokenizer.encode(q.prompt).size()) + q.most;
}

// With the most pieces that fit.
LongQuestion fill(const text::Tokenizer& tokenizer, const LongSample& sample, std::int64_t length) {
  LongQuestion best = sample.make(0);
  if (const std::int64_t least = question_tokens(tokenizer, best); least > length)
    throw Error(Code::kBadInput,
                "is " + std::to_string(length) + ", the shortest text of task " + best.task + " and its answer take " +
                    std::to_string(least),
                "--length");
  std::int64_t low = 0, high = 8;
  for (;; high *= 2) {
    LongQuestion q = sample.make(high);
    if (question_tokens(tokenizer, q) > length) break;
    low = high;
    best = std::move(q);
  }
  while (high - low > std::max<std::int64_t>(1, low / 50)) {
    const std::int64_t middle = (low + high) / 2;
    LongQuestion q = sample.make(middle);
    if (question_tokens(tokenizer, q) <= length) {
      low = middle;
      best = std::move(q);
    } else {
      high = middle;
    }
  }
  return best;
}

}  // namespace

const std::vector<std::string>& long_task_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const LongTask& task : kLongTasks) all.emplace_back(task.name);
    return all;
  }();
  return names;
}

std::vector<LongQuestion> make_long_questions(const text::Tokenizer& tokenizer, const std::vector<std::string>& tasks,
                                              std::int64_t length, int samples, std::uint64_t seed) {
  std::vector<LongQuestion> all;
  for (const std::string& name : tasks) {
    const auto* const task =
        std::find_if(std::begin(kLongTasks), std::end(kLongTasks), [&](const LongTask& t) { return name == t.name; });
    if (task == std::end(kLongTasks)) {
      std::string known;
      for (const std::string& n : long_task_names()) known += (known.empty() ? "" : ", ") + n;
      throw Error(Code::kBadInput, "is '" + name + "', expected some of " + known, "--tasks");
    }
    for (int i = 0; i < samples; ++i) {
      const double where = (i + 0.5) / samples;
      all.push_back(fill(tokenizer, task->make(where, seed * 1000003 + static_cast<std::uint64_t>(i)), length));
    }
  }
  return all;
}

std::string without_middle(const text::Tokenizer& tokenizer, const std::string& text, std::int64_t most) {
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (static_cast<std::int64_t>(ids.size()) <= most) return text;
  const auto half = static_cast<std::size_t>(most / 2);
  const std::span<const std::int32_t> all(ids);
  return tokenizer.decode(all.first(half)) + tokenizer.decode(all.last(half));
}

}  // namespace kvasir::lab::eval
