// LongBench's and InfiniteBench's files.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "lab/eval/long_tasks.hpp"

namespace kvasir::lab::eval {
namespace {

struct Published {
  const char* name;
  Scorer scorer;
  int most;  // tokens of an answer
  bool first_line;
  const char* prompt;  // with {context} and {input}
};

// In words of our own: those of a file (`prompts`) make scores that may stand beside others'.
constexpr const char* kAsk = "{context}\n\nAnswer in a few words.\nQuestion: {input}\nAnswer:";
constexpr const char* kExamples = "{context}\n{input}";

// Lengths of answers and first lines as LongBench has them (config/dataset2maxlen.json, eval.py); those of samsum and
// of InfiniteBench's tasks suffice for their answers.
constexpr Published kPublished[] = {
    {"narrativeqa", Scorer::kF1, 128, false, kAsk},
    {"qasper", Scorer::kF1, 128, false,
     "{context}\n\nAnswer in a few words, with \"yes\" or \"no\" where that is asked, and with \"unanswerable\" where "
     "the "
     "text does not say it.\nQuestion: {input}\nAnswer:"},
    {"multifieldqa_en", Scorer::kF1, 64, false, kAsk},
    {"hotpotqa", Scorer::kF1, 32, false, kAsk},
    {"2wikimqa", Scorer::kF1, 32, false, kAsk},
    {"musique", Scorer::kF1, 32, false, kAsk},
    {"trec", Scorer::kClass, 64, true, kExamples},
    {"triviaqa", Scorer::kF1, 32, true, kExamples},
    {"samsum", Scorer::kRougeL, 128, true, kExamples},
    {"passage_retrieval_en", Scorer::kParagraph, 32, false,
     "{context}\n\nAn abstract of one of these paragraphs:\n{input}\n\nSay which one it is, as in \"Paragraph "
     "7\".\nAnswer:"},
    {"passage_count", Scorer::kCount, 32, false,
     "{context}\n\nSome of these paragraphs stand there more than once. Say how many different ones there are, as a "
     "number.\nAnswer:"},
    {"passkey", Scorer::kExact, 6, false, "{context}\n\n{input}\nThe pass key is"},
    {"number_string", Scorer::kExact, 12, false, "{context}\n\n{input}\nThe sequence of digits is"},
    {"kv_retrieval", Scorer::kExact, 50, false, "{context}\n\n{input}"},
};

[[noreturn]] void bad_line(const std::string& what, const std::string& where) {
  throw Error(Code::kBadInput, what, where);
}

std::string text_of(const nlohmann::json& line, const char* field, const std::string& where) {
  if (!line.contains(field) || !line[field].is_string())
    bad_line(std::string("expected a text \"") + field + "\"", where);
  return line[field].get<std::string>();
}

// A list of texts, or one.
std::vector<std::string> texts_of(const nlohmann::json& line, const char* field, const std::string& where) {
  std::vector<std::string> all;
  const nlohmann::json value = line.value(field, nlohmann::json());
  if (value.is_string()) return {value.get<std::string>()};
  for (const auto& one : value) {
    if (!one.is_string()) bad_line(std::string("expected texts in \"") + field + "\"", where);
    all.push_back(one.get<std::string>());
  }
  return all;
}

const Published& published(const std::string& name, const std::string& where) {
  std::string known;
  for (const Published& p : kPublished) {
    if (name == p.name) return p;
    known += (known.empty() ? "" : ", ") + std::string(p.name);
  }
  bad_line("the task is '" + name + "', expected one of " + known, where);
}

std::string filled(std::string_view pattern, const std::string& context, const std::string& input) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size();) {
    const std::string_view rest = pattern.substr(i);
    if (rest.starts_with("{context}")) {
      text += context;
      i += 9;
    } else if (rest.starts_with("{input}")) {
      text += input;
      i += 7;
    } else {
      text += pattern[i++];
    }
  }
  return text;
}

LongQuestion question_of(const std::string& line, const std::string& stem, const nlohmann::json& prompts,
                         const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) bad_line("expected a JSON object", where);
  const bool longbench = json.contains("answers");
  const Published& task = published(longbench ? text_of(json, "dataset", where) : stem, where);
  LongQuestion q{.task = task.name,
                 .prompt = filled(prompts.value(task.name, task.prompt), text_of(json, "context", where),
                                  text_of(json, "input", where)),
                 .answers = texts_of(json, longbench ? "answers" : "answer", where),
                 .classes = {},
                 .scorer = task.scorer,
                 .first_line = task.first_line,
                 .most = task.most};
  if (q.answers.empty()) bad_line("expected answers", where);
  if (task.scorer == Scorer::kClass && (q.classes = texts_of(json, "all_classes", where)).empty())
    bad_line("expected \"all_classes\"", where);
  return q;
}

// Texts by task, each with {context}; "": none.
nlohmann::json read_prompts(const std::string& path) {
  if (path.empty()) return nlohmann::json::object();
  const nlohmann::json all = nlohmann::json::parse(read_text_file(path), nullptr, false);
  if (!all.is_object()) bad_line("expected a JSON object of prompts by task", path);
  for (const auto& [task, text] : all.items())
    if (!text.is_string() || text.get_ref<const std::string&>().find("{context}") == std::string::npos)
      bad_line("expected a text with {context} for '" + task + "'", path);
  return all;
}

}  // namespace

std::vector<LongQuestion> read_long_questions(const std::string& path, std::int64_t samples,
                                              const std::string& prompts) {
  const nlohmann::json texts = read_prompts(prompts);
  const std::string text = read_text_file(path);
  const std::string stem = std::filesystem::path(path).stem().string();
  std::vector<LongQuestion> all;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size() && (samples == 0 || std::ssize(all) < samples);) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    all.push_back(question_of(line, stem, texts, path + " line " + std::to_string(number)));
  }
  if (all.empty()) throw Error(Code::kBadInput, "has no questions, expected JSON lines", path);
  return all;
}

}  // namespace kvasir::lab::eval
