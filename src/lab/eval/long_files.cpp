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

constexpr const char* kPassages =
    "Answer the question based on the given passages. Only give me the answer and do not output any other words.\n\n"
    "The following are given passages.\n{context}\n\n"
    "Answer the question based on the given passages. Only give me the answer and do not output any other words.\n\n"
    "Question: {input}\nAnswer:";

// LongBench's dataset2prompt.json, dataset2maxlen.json and eval.py; InfiniteBench's prompt templates.
constexpr Published kPublished[] = {
    {"narrativeqa", Scorer::kF1, 128, false,
     "You are given a story, which can be either a novel or a movie script, and a question. Answer the question as "
     "concisely as you can, using a single phrase if possible. Do not provide any explanation.\n\nStory: {context}\n\n"
     "Now, answer the question based on the story as concisely as you can, using a single phrase if possible. Do not "
     "provide any explanation.\n\nQuestion: {input}\n\nAnswer:"},
    {"qasper", Scorer::kF1, 128, false,
     "You are given a scientific article and a question. Answer the question as concisely as you can, using a single "
     "phrase or sentence if possible. If the question cannot be answered based on the information in the article, "
     "write \"unanswerable\". If the question is a yes/no question, answer \"yes\", \"no\", or \"unanswerable\". Do "
     "not "
     "provide any explanation.\n\nArticle: {context}\n\n Answer the question based on the above article as concisely "
     "as you can, using a single phrase or sentence if possible. If the question cannot be answered based on the "
     "information in the article, write \"unanswerable\". If the question is a yes/no question, answer \"yes\", "
     "\"no\", "
     "or \"unanswerable\". Do not provide any explanation.\n\nQuestion: {input}\n\nAnswer:"},
    {"multifieldqa_en", Scorer::kF1, 64, false,
     "Read the following text and answer briefly.\n\n{context}\n\nNow, answer the following question based on the "
     "above text, only give me the answer and do not output any other words.\n\nQuestion: {input}\nAnswer:"},
    {"hotpotqa", Scorer::kF1, 32, false, kPassages},
    {"2wikimqa", Scorer::kF1, 32, false, kPassages},
    {"musique", Scorer::kF1, 32, false, kPassages},
    {"trec", Scorer::kClass, 64, true,
     "Please determine the type of the question below. Here are some examples of questions.\n\n{context}\n{input}"},
    {"triviaqa", Scorer::kF1, 32, true,
     "Answer the question based on the given passage. Only give me the answer and do not output any other words. The "
     "following are some examples.\n\n{context}\n\n{input}"},
    {"samsum", Scorer::kRougeL, 128, true,
     "Summarize the dialogue into a few short sentences. The following are some examples.\n\n{context}\n\n{input}"},
    {"passage_retrieval_en", Scorer::kParagraph, 32, false,
     "Here are 30 paragraphs from Wikipedia, along with an abstract. Please determine which paragraph the abstract is "
     "from.\n\n{context}\n\nThe following is an abstract.\n\n{input}\n\nPlease enter the number of the paragraph that "
     "the abstract is from. The answer format must be like \"Paragraph 1\", \"Paragraph 2\", etc.\n\nThe answer is: "},
    {"passage_count", Scorer::kCount, 32, false,
     "There are some paragraphs below sourced from Wikipedia. Some of them may be duplicates. Please carefully read "
     "these paragraphs and determine how many unique paragraphs there are after removing duplicates. In other words, "
     "how many non-repeating paragraphs are there in total?\n\n{context}\n\nPlease enter the final count of unique "
     "paragraphs after removing duplicates. The output format should only contain the number, such as 1, 2, 3, and so "
     "on.\n\nThe final answer is: "},
    {"passkey", Scorer::kExact, 6, false,
     "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz you "
     "about the important information.\n\n{context}\n\n{input}\n\nThe pass key is"},
    {"number_string", Scorer::kExact, 12, false,
     "There is an important info hidden inside a lot of irrelevant text. Find it. I will quiz you about the important "
     "information there.\n\n{context}\n\n{input}\n\nThe sequence of digits is"},
    {"kv_retrieval", Scorer::kExact, 50, false,
     "Extract the value corresponding to the specified key in the JSON object below.\n\n{context}\n\n{input}"},
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

LongQuestion question_of(const std::string& line, const std::string& stem, const std::string& where) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) bad_line("expected a JSON object", where);
  const bool longbench = json.contains("answers");
  const Published& task = published(longbench ? text_of(json, "dataset", where) : stem, where);
  LongQuestion q{.task = task.name,
                 .prompt = filled(task.prompt, text_of(json, "context", where), text_of(json, "input", where)),
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

}  // namespace

std::vector<LongQuestion> read_long_questions(const std::string& path, std::int64_t samples) {
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
    all.push_back(question_of(line, stem, path + " line " + std::to_string(number)));
  }
  if (all.empty()) throw Error(Code::kBadInput, "has no questions, expected JSON lines", path);
  return all;
}

}  // namespace kvasir::lab::eval
