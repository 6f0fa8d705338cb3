// One vocabulary: what a request may say is the same on the command line, over HTTP, in C++ and in C, with the same
// ranges and words. (python/tests/test_words.py asks Python by the list that C gives.)
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "cli/run_fixture.hpp"
#include "kvasir/engine.hpp"
#include "kvasir/kvasir.h"
#include "run/blend.hpp"
#include "run/request_options.hpp"
#include "run/sampling_options.hpp"
#include "serve/dialect.hpp"

namespace kvasir {
namespace {

const std::string kFacesModel = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

std::vector<OptionSpec> request_specs() {
  std::vector<OptionSpec> all;
  for (const auto specs : {run::request_table().specs(), run::sampling_table().specs(), run::blend_table().specs()})
    all.insert(all.end(), specs.begin(), specs.end());
  return all;
}

// What another face has instead, and why. Empty: it has the option by its name.
struct Instead {
  const char *command_line = "", *http = "";
};
const std::map<std::string, Instead>& other_forms() {
  static const std::map<std::string, Instead> forms{
      {"add_bos", {.command_line = "--no-bos", .http = "token ids as the prompt"}},
      {"special",
       {.command_line = "--no-special", .http = "special tokens of a client's texts are never read as such"}},
      {"tenant", {.command_line = "one user", .http = "the key says whose request it is"}},
      {"select", {.command_line = "the engine's option: one request, one engine"}},
      {"lora", {.command_line = "the engine's option: one request, one engine"}},
      {"draft", {.command_line = "the engine's option: one request, one engine"}}};
  return forms;
}
Instead instead(const std::string& name) {
  const auto at = other_forms().find(name);
  return at == other_forms().end() ? Instead{} : at->second;
}

// A value that no option of the kind takes; empty: every text is one.
std::string wrong_text(const OptionSpec& s) {
  return s.kind == OptionKind::kString && s.choices.empty() ? "" : s.kind == OptionKind::kStrings ? "" : "quark";
}

std::string said_by_cpp(Engine& engine, const std::string& name, const std::string& value) {
  try {
    engine.generate("x", {{"n_predict", 1}, {name, value}});
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

std::string said_by_c(kvasir_engine* engine, const std::string& name, const std::string& value) {
  const std::string option = name + "=" + value;
  const char* const options[] = {"n_predict=1", option.c_str(), nullptr};
  kvasir_reply* reply = nullptr;
  const kvasir_status status = kvasir_generate(engine, "x", 1, options, nullptr, nullptr, &reply);
  kvasir_reply_free(reply);
  return status == KVASIR_OK ? "" : kvasir_error();
}

TEST(Faces, RequestsHaveTheSameWordsEverywhere) {
  Engine cpp(kFacesModel, {{"ctx", 256}, {"threads", 1}});
  kvasir_engine* c = nullptr;
  const char* const options[] = {"ctx=256", "threads=1", nullptr};
  ASSERT_EQ(kvasir_engine_open(kFacesModel.c_str(), options, nullptr, nullptr, &c), KVASIR_OK) << kvasir_error();
  const cli::Result help = cli::run_captured(std::vector<std::string>{"run", "--help"});
  for (const OptionSpec& s : request_specs()) {
    SCOPED_TRACE(s.name);
    const std::string wrong = wrong_text(s);
    if (!wrong.empty()) {
      // "reuse" and "logprobs" take true and false besides what the table says.
      const std::string message = s.name + ": expected " + s.expects();
      EXPECT_EQ(said_by_cpp(cpp, s.name, wrong).substr(0, message.size()), message);
      EXPECT_EQ(said_by_c(c, s.name, wrong), said_by_cpp(cpp, s.name, wrong));
    }
    const Instead other = instead(s.name);
    if (*other.command_line == '\0') {
      EXPECT_NE(help.out.find(s.flag), std::string::npos);
      if (!wrong.empty() && s.kind != OptionKind::kBool) {
        const cli::Result run = cli::run_captured(std::vector<std::string>{"run", "-m", "x", "-p", "x", s.flag, wrong});
        EXPECT_EQ(run.status, 2);
        EXPECT_NE(run.err.find(s.flag + ": expected " + s.expects()), std::string::npos) << run.err;
      }
    } else if (std::string_view(other.command_line).starts_with("--")) {
      EXPECT_NE(help.out.find(other.command_line), std::string::npos);
    }
  }
  kvasir_engine_close(c);
}

// A field of the wrong type is refused by its name wherever the request is read; so the field is read.
TEST(Faces, EveryDialectReadsTheFields) {
  const serve::RequestLimits limits{.vocabulary = 256};
  const auto refused = [&](const char* path, const Json& body) -> std::string {
    try {
      serve::find_dialect(path)->parse(body, limits);
    } catch (const serve::ApiException& e) {
      return e.error().param;
    }
    return "";
  };
  const Json message{{{"role", "user"}, {"content", "x"}}};
  const std::pair<const char*, Json> bodies[] = {{"/v1/completions", {{"prompt", "x"}}},
                                                 {"/v1/chat/completions", {{"messages", message}}},
                                                 {"/v1/messages", {{"max_tokens", 3}, {"messages", message}}},
                                                 {"/v1/responses", {{"input", "x"}}},
                                                 {"/completion", {{"prompt", "x"}}},
                                                 {"/api/generate", {{"model", "m"}, {"prompt", "x"}}},
                                                 {"/api/chat", {{"model", "m"}, {"messages", message}}}};
  // Their own names of these, or none.
  const std::map<std::pair<std::string, std::string>, std::string> own{
      {{"/v1/messages", "n_predict"}, "max_tokens"},           {{"/v1/messages", "stop"}, "stop_sequences"},
      {{"/v1/messages", "json_schema"}, "output_format"},      {{"/v1/messages", "logprobs"}, ""},
      {{"/v1/responses", "n_predict"}, "max_output_tokens"},   {{"/v1/responses", "json_schema"}, "text"},
      {{"/v1/responses", "logprobs"}, "top_logprobs"},         {{"/completion", "logprobs"}, "n_probs"},
      {{"/v1/chat/completions", "json_schema"}, "json_schema"}};
  for (const auto& [path, plain] : bodies)
    for (const OptionSpec& s : request_specs()) {
      if (*instead(s.name).http != '\0') continue;
      SCOPED_TRACE(std::string(path) + " " + s.name);
      const auto at = own.find({path, s.name});
      std::string field = at == own.end() ? s.name : at->second;
      if (field.empty()) continue;
      Json body = plain;
      const bool ollama = std::string_view(path).starts_with("/api/");
      const std::map<std::string, std::string> options{{"n_predict", "num_predict"},
                                                       {"stop", "stop"},
                                                       {"repetition_penalty", "repeat_penalty"},
                                                       {"penalty_last_n", "repeat_last_n"}};
      const bool sampling = [&] {
        for (const OptionSpec& of : run::sampling_table().specs())
          if (of.name == s.name) return true;
        return options.contains(s.name);
      }();
      if (ollama && s.name == "json_schema") {
        body["format"] = 7;
        field = "format";
      } else if (ollama && sampling) {
        const std::string name = options.contains(s.name) ? options.at(s.name) : s.name;
        body["options"][name] = s.kind == OptionKind::kStrings ? Json(7) : Json("quark");
        field = "options." + name;
      } else {
        // No boolean, number, text or list of the field's.
        body[field] = s.kind == OptionKind::kStrings || s.kind == OptionKind::kString ? Json(7) : Json("quark");
      }
      EXPECT_EQ(refused(path, body), field);
    }
}

TEST(Faces, COptionsAreListedAsTheEngineTakesThem) {
  char* text = nullptr;
  ASSERT_EQ(kvasir_options(&text), KVASIR_OK);
  const Json all = Json::parse(text);
  kvasir_free(text);
  const auto refused = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const auto names = [&](const char* of) {
    std::set<std::string> set;
    for (const Json& o : all[of]) {
      set.insert(o["name"]);
      EXPECT_FALSE(o["help"].get<std::string>().empty()) << o;
    }
    std::string list;
    for (const std::string& name : set) list += (list.empty() ? "" : ", ") + name;
    return "expected one of " + list;
  };
  const std::string of_engine = refused([] { Engine(kFacesModel, {{"zzz", 1}}); });
  EXPECT_NE(of_engine.find(names("engine")), std::string::npos) << of_engine;
  Engine engine(kFacesModel, {{"ctx", 256}, {"threads", 1}});
  const std::string of_request = refused([&] { engine.generate("x", {{"zzz", 1}}); });
  EXPECT_NE(of_request.find(names("request")), std::string::npos) << of_request;
}

}  // namespace
}  // namespace kvasir
