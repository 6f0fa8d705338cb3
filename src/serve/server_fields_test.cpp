// The tables of request fields (tests/fields, made with tools/api-fields): the server treats each field as its row
// says.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.hpp"
#include "serve/client_fixture.hpp"
#include "serve/template_chat.hpp"

namespace kvasir::serve {
namespace {

// What a request asks of the engine, as a text.
std::string asked_of(const run::ServiceRequest& r) {
  const run::SamplingOptions& s = r.request.sampling;
  Json bias = Json::array();
  for (const auto& [id, value] : s.logit_bias) bias.push_back({id, value});
  return Json{{"prompt", r.request.prompt},
              {"temperature", s.temperature},
              {"top_p", s.top_p},
              {"top_k", s.top_k},
              {"min_p", s.min_p},
              {"presence", s.presence_penalty},
              {"frequency", s.frequency_penalty},
              {"repetition", s.repetition_penalty},
              {"last", s.penalty_last_n},
              {"seed", s.seed},
              {"bias", bias},
              {"max", r.request.max_tokens},
              {"stop", r.request.stop},
              {"grammar", r.request.grammar != nullptr},
              {"logprobs", r.request.top_logprobs},
              {"reuse", r.reuse},
              {"pin", r.pin}}
      .dump();
}

TEST(ApiFields, AreTreatedAsTheTablesSay) {
  const TemplateChat chat(
      text::ChatTemplate("{% if tools %}{{ tools|tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
                         "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}"
                         "</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
                         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
                         "", "<|im_end|>"));
  int rows = 0;
  for (const auto& file : std::filesystem::directory_iterator(KVASIR_SOURCE_DIR "/tests/fields")) {
    const Json table = Json::parse(read_text_file(file.path().string()));
    const std::string path = table["path"].get<std::string>();
    FakeOptions fake;
    fake.fills_gaps = true;
    TestServer s(std::move(fake), {}, false, &chat);
    const auto ask = [&](const Json& patch, Reply& reply) {
      Json body = table["body"];
      body.merge_patch(patch);
      const std::size_t before = s.service.requests().size();
      reply = s.ask("POST", path, dump(body));
      const auto requests = s.service.requests();
      return requests.size() > before ? asked_of(requests.back()) : std::string();
    };
    Reply reply;
    const std::string plain = ask(Json::object(), reply);
    ASSERT_EQ(reply.status, 200) << file.path() << " " << reply.body;
    for (const auto& [name, row] : table["fields"].items()) {
      const std::string mark = row[0].get<std::string>(), where = path + " " + name + " is " + mark;
      EXPECT_TRUE(mark == "done" || mark == "refused" || mark == "warned" || mark == "noted" || mark == "harmless")
          << where;
      if (row.size() < 2 || row[1].is_null()) continue;  // as the field around it
      ++rows;
      const std::string asked = ask(row[1], reply);
      const std::string outer = name.substr(0, name.find_first_of(".["));
      if (mark == "refused") {
        EXPECT_EQ(reply.status, 400) << where << " " << reply.body;
        EXPECT_NE(reply.body.find(outer), std::string::npos) << where << " " << reply.body;
        continue;
      }
      EXPECT_EQ(reply.status, 200) << where << " " << reply.body;
      if (mark == "noted") {
        EXPECT_NE(reply.body.find("are left out"), std::string::npos) << where << " " << reply.body;
        continue;
      }
      const std::size_t warnings = reply.body.find("\"warnings\"");
      const bool warned = warnings != std::string::npos && reply.body.find(outer, warnings) != std::string::npos;
      EXPECT_EQ(warned, mark == "warned") << where << " " << reply.body;
      if (mark == "harmless") {
        EXPECT_EQ(asked, plain) << where;
      }
    }
  }
  EXPECT_GT(rows, 100);
}

}  // namespace
}  // namespace kvasir::serve
