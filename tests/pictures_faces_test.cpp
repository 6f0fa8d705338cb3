// Pictures through every face: the server's APIs, chats in the terminal, the library.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "base/base64.hpp"
#include "base/file.hpp"
#include "cli/chat_session.hpp"
#include "cli/serving.hpp"
#include "client/web_fixture.hpp"
#include "kvasir/engine.hpp"
#include "kvasir/kvasir.h"
#include "serve/client_fixture.hpp"
#include "serving_fixture.hpp"
#include "store/open.hpp"
#include "text/pictures.hpp"
#include "tiny_model_fixture.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir {
namespace {

using testing::PictureServer;
using testing::TemporaryPath;
using testing::TinyModel;

constexpr const char* kTextTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% "
    "endif "
    "%}";
constexpr const char* kPartsTemplate =
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content "
    "%}{% if p.type == 'image' %}<image>{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{{ '\\n' }}{% endfor "
    "%}{% if add_generation_prompt %}<assistant>{% endif %}";

std::string png(const char* name) { return read_text_file(vision::golden(std::string("pictures/") + name)); }
// An array; braces around one value are a copy for some compilers.
template <class... Items>
Json list(const Items&... items) {
  Json out = Json::array();
  (out.push_back(items), ...);
  return out;
}
Json part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
Json picture(const std::string& file) {
  return {{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64," + to_base64(file)}}}};
}
Json block(const std::string& file) {
  const Json source{{"type", "base64"}, {"media_type", "image/png"}, {"data", to_base64(file)}};
  return {{"type", "image"}, {"source", source}};
}
Json input_image(const std::string& base64) {
  return {{"type", "input_image"}, {"image_url", "data:image/png;base64," + base64}};
}
Json says(const char* role, Json content) { return {{"role", role}, {"content", std::move(content)}}; }

class PictureFaces : public ::testing::TestWithParam<const char*> {
 protected:
  PictureFaces() {
    TinyModel().write(model_.path);
    testing::write_bytes(template_.path, kPartsTemplate);
  }
  void SetUp() override {
    if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  }
  cli::ServingOptions options() const {
    cli::ServingOptions o;
    o.engine.model = model_.path;
    o.engine.ctx = 2048;
    o.engine.threads = 1;
    o.scheduler.running = 2;
    o.serve.name = "tiny";
    o.serve.chat_template = template_.path;
    o.pictures.mmproj = vision::golden(GetParam());
    o.reuse.ram_cache = "64MiB";
    o.server.port = 0;
    return o;
  }

  const TemporaryPath model_{"faces.gguf"}, template_{"faces.jinja"}, cache_{"faces-cache"};
};
INSTANTIATE_TEST_SUITE_P(Encoders, PictureFaces, ::testing::Values("gemma3.gguf", "idefics3.gguf", "lfm2.gguf"));

std::int64_t prompt_tokens(const Json& r) { return r["usage"]["prompt_tokens"]; }
std::int64_t cached(const Json& r) { return r["usage"]["prompt_tokens_details"]["cached_tokens"]; }
Json logprobs(const Json& r) { return r["choices"][0]["logprobs"]; }

TEST_P(PictureFaces, EveryApiTakesTheSamePicture) {
  PictureServer server(options());
  const std::string file = png("64x64.png"), base64 = to_base64(file);
  const Json plain = server.chat(list(says("user", "What?")));
  const Json chat = server.chat(list(says("user", list(picture(file), part("What?")))));
  const std::int64_t tokens = prompt_tokens(chat);
  EXPECT_GT(tokens, prompt_tokens(plain));
  const Json input = says("user", list(input_image(base64), Json{{"type", "input_text"}, {"text", "What?"}}));
  EXPECT_EQ(server.answer("/v1/responses", {{"input", list(input)}, {"max_output_tokens", 6}})["usage"]["input_tokens"],
            tokens);
  const Json messages{{"messages", list(says("user", list(block(file), part("What?"))))}, {"max_tokens", 6}};
  EXPECT_EQ(server.answer("/v1/messages/count_tokens", messages)["input_tokens"], tokens);
  const Json usage = server.answer("/v1/messages", messages)["usage"];
  EXPECT_EQ(usage["input_tokens"].get<std::int64_t>() + usage["cache_read_input_tokens"].get<std::int64_t>() +
                usage["cache_creation_input_tokens"].get<std::int64_t>(),
            tokens);
  const Json asked{{"role", "user"}, {"content", "What?"}, {"images", list(base64)}};
  const Json ollama{{"model", "tiny"}, {"stream", false}, {"messages", list(asked)}};
  EXPECT_EQ(server.answer("/api/chat", ollama)["prompt_eval_count"], tokens);
  const Json generate{{"model", "tiny"}, {"stream", false}, {"prompt", "What?"}, {"images", list(base64)}};
  EXPECT_EQ(server.answer("/api/generate", generate)["prompt_eval_count"], tokens);
  const Json body{{"messages", list(says("user", list(picture(file), part("What?"))))}};
  EXPECT_EQ(server.answer("/tokenize", body)["count"], tokens);
  // What the template writes for pictures went with them.
  EXPECT_EQ(server.answer("/apply-template", body)["prompt"], "<user><image>What?\n<assistant>");
  EXPECT_EQ(server.stats().decoded, 1);
  EXPECT_EQ(server.stats().encoded, 1);
  EXPECT_EQ(server.answer("/v1/models", nullptr)["data"][0]["kvasir"]["vision"], true);
  EXPECT_EQ(server.answer("/props", nullptr)["modalities"]["vision"], true);
  EXPECT_EQ(server.answer("/api/show", {{"model", "tiny"}})["capabilities"].back(), "vision");
}

TEST_P(PictureFaces, OfSeveralModelsEachHasItsEncoder) {
  TinyModel model;
  model.strings["tokenizer.chat_template"] = kPartsTemplate;
  model.write(model_.path);
  cli::ServingOptions o = options();
  o.engine.model.clear();
  o.serve.name.clear();
  o.serve.chat_template.clear();
  o.pictures.mmproj.clear();
  o.serve.memory = "1GiB";
  o.serve.models = {"one=" + model_.path, "two=" + model_.path, "blind=" + model_.path};
  o.serve.encoders = {"two=" + vision::golden("gemma4uv.gguf"), "one=" + vision::golden(GetParam())};
  cli::settle_models(o);
  PictureServer server(o);
  // All say what they read, before one of them is loaded and afterwards.
  const auto expect_vision = [&] {
    const Json models = server.answer("/v1/models", nullptr)["data"];
    for (const Json& m : models) {
      const bool sees = m["id"] != "blind";
      EXPECT_EQ(m["kvasir"]["vision"], sees) << m;
      const bool hears = m["id"] == "two";  // Gemma 4 Unified's file has both
      EXPECT_EQ(m["input_modalities"].size(), 1u + sees + hears) << m;
      EXPECT_EQ(server.answer("/api/show", {{"model", m["id"]}})["capabilities"].back() == "vision", sees) << m;
    }
  };
  expect_vision();
  const Json asked = list(says("user", list(picture(png("64x64.png")), part("What?"))));
  const Json one = server.chat(asked, {{"model", "one"}}), two = server.chat(asked, {{"model", "two"}});
  EXPECT_NE(prompt_tokens(one), prompt_tokens(two));  // 280 rows of Gemma 4's
  EXPECT_EQ(prompt_tokens(server.chat(asked, {{"model", "one"}})), prompt_tokens(one));
  EXPECT_EQ(server.ask("/v1/chat/completions", {{"messages", asked}, {"model", "blind"}}).status, 400);
  expect_vision();
}

TEST_P(PictureFaces, TheTemplatesOwnTokenIsNotDoubled) {
  cli::ServingOptions o = options();
  const std::string file = png("64x64.png");
  std::optional<PictureServer> server(o);
  const Json parts = server->chat(list(says("user", list(part("a "), picture(file), part(" b")))));
  testing::write_bytes(template_.path, kTextTemplate);
  server.emplace(o);
  const Json text = server->chat(list(says("user", list(part("a "), picture(file), part(" b")))));
  EXPECT_EQ(prompt_tokens(parts), prompt_tokens(text));
  EXPECT_EQ(logprobs(parts), logprobs(text));
  // A text that looks like a mark is text.
  const std::string mark = text::picture_mark(file);
  const Json spelled = server->chat(list(says("user", list(picture(file), part(mark)))));
  EXPECT_EQ(prompt_tokens(spelled),
            prompt_tokens(server->chat(list(says("user", list(picture(file), part("\uFFFD" + mark.substr(3))))))));
}

TEST_P(PictureFaces, LaterTurnsReuseAllRowsAlsoAfterARestart) {
  cli::ServingOptions o = options();
  o.reuse.cache_dir = cache_.path;
  o.reuse.cache_size = "64MiB";
  const std::string file = png("64x64.png");
  const std::string question = std::string(150, 'b') + "?";
  const auto asked = [&](const Json& answer) {
    Json messages = list(says("user", list(part("Look: "), picture(file), part(question))));
    if (answer.is_null()) return messages;
    messages.push_back(says("assistant", answer));
    messages.push_back(says("user", "And?"));
    return messages;
  };
  std::optional<PictureServer> server(o);
  const Json first = server->chat(asked(nullptr));
  const Json said = first["choices"][0]["message"]["content"];
  EXPECT_EQ(cached(first), 0);
  EXPECT_EQ(server->stats().encoded, 1);
  const Json second = server->chat(asked(said));
  EXPECT_GE(cached(second), prompt_tokens(first) - 1);
  EXPECT_EQ(server->stats().encoded, 1);
  EXPECT_EQ(server->stats().decoded, 1);
  const Json computed = server->chat(asked(said), {{"reuse", false}});
  EXPECT_EQ(cached(computed), 0);
  EXPECT_EQ(logprobs(computed), logprobs(second));
  EXPECT_EQ(server->stats().encoded, 1);  // its rows are still in memory
  server.emplace(o);
  const Json again = server->chat(asked(said));
  EXPECT_GE(cached(again), prompt_tokens(first) - 1);
  EXPECT_EQ(server->stats().encoded, 0);
  EXPECT_EQ(server->stats().decoded, 1);
  // The answer's own tokens are forgotten, so the prompt is not the second one.
  EXPECT_EQ(logprobs(server->chat(asked(said), {{"reuse", false}})), logprobs(again));
  EXPECT_EQ(server->stats().encoded, 0);  // its rows were kept, too
  server.emplace(options());
  EXPECT_EQ(logprobs(server->chat(asked(said))), logprobs(again));
  EXPECT_EQ(server->stats().encoded, 1);
}

// Where a picture stands behind another text no page of it can be reused, but its rows can, with the bits of computed
// ones, unless what is kept is damaged.
TEST_P(PictureFaces, RowsAreFoundBehindAnotherTextAfterARestart) {
  cli::ServingOptions o = options();
  o.reuse.cache_dir = cache_.path;
  o.reuse.cache_size = "64MiB";
  const std::string file = png("97x53.png");
  const Json here = list(says("user", list(picture(file), part("What?"))));
  const Json elsewhere = list(says("user", list(part(std::string(150, 'x')), picture(file), part("Where?"))));
  std::int64_t rows = 0;
  {
    PictureServer server(o);
    server.chat(here);
    rows = server.stats().rows;
    EXPECT_GT(rows, 0);
    EXPECT_EQ(server.stats().loaded_rows, 0);
  }
  Json loaded;
  {
    PictureServer server(o);
    loaded = server.chat(elsewhere);
    EXPECT_LT(cached(loaded), 150);
    EXPECT_EQ(server.stats().encoded, 0);
    EXPECT_EQ(server.stats().loaded_rows, rows);
    EXPECT_EQ(server.answer("/v1/stats", nullptr)["pictures"]["loaded_rows"], rows);
    EXPECT_NE(server.ask("/metrics", nullptr).body.find(fmt::format("kvasir_picture_rows_loaded_total {}\n", rows)),
              std::string::npos);
  }
  PictureServer fresh(options());
  EXPECT_EQ(logprobs(fresh.chat(elsewhere)), logprobs(loaded));
  EXPECT_EQ(fresh.stats().encoded, 1);
  o.pictures.image_memory = 0;
  // With tiers alone. A server each: a request that has just been answered may still hold its rows.
  for (const Json& message : {here, elsewhere}) {
    PictureServer server(o);
    server.chat(message, {{"reuse", false}});
    EXPECT_EQ(server.stats().encoded, 0);
    EXPECT_EQ(server.stats().loaded_rows, rows);
  }
  // An encoder that computes otherwise has other rows.
  o.engine.exact = true;
  o.engine.kv = "f16";
  PictureServer exact(o);
  exact.chat(here);
  EXPECT_EQ(exact.stats().encoded, 1);
  EXPECT_EQ(exact.stats().loaded_rows, 0);
}

TEST_P(PictureFaces, WithoutMemoryForPicturesTheCacheStillSparesTheEncoder) {
  cli::ServingOptions o = options();
  o.pictures.image_memory = 0;
  PictureServer server(o);
  const Json messages = list(says("user", list(picture(png("64x64.png")), part(std::string(150, 'b')))));
  server.chat(messages);
  EXPECT_GE(cached(server.chat(messages)), 100);
  EXPECT_EQ(server.stats().decoded, 2);
  EXPECT_EQ(server.stats().encoded, 1);
  EXPECT_EQ(server.stats().bytes, 0u);
}

TEST_P(PictureFaces, SwappedPicturesAreNeverTakenForEachOther) {
  PictureServer server(options());
  const std::string a = png("64x64.png"), b = png("97x53.png");
  const std::string text = std::string(140, 'b');
  const auto both = [&](const std::string& one, const std::string& two) {
    return list(says("user", list(part("1: "), picture(one), part(" 2: "), picture(two), part(text))));
  };
  const Json ab = server.chat(both(a, b)), ba = server.chat(both(b, a));
  EXPECT_EQ(prompt_tokens(ab), prompt_tokens(ba));
  EXPECT_LE(cached(ba), 40);  // what stands in front of the first, spelled in bytes
  EXPECT_EQ(logprobs(server.chat(both(b, a), {{"reuse", false}})), logprobs(ba));
  EXPECT_NE(logprobs(ab), logprobs(ba));
  EXPECT_EQ(server.stats().encoded, 2);
  // The same beginning, then another picture.
  const Json aa = server.chat(both(a, a));
  EXPECT_LT(cached(aa), prompt_tokens(aa) - 140);
  EXPECT_EQ(logprobs(server.chat(both(a, a), {{"reuse", false}})), logprobs(aa));
}

// A document that stands behind another text brings its picture with it: nothing is encoded again.
TEST_P(PictureFaces, DocumentsThatMovedBringTheirPictures) {
  PictureServer server(options());
  // Text that does not repeat itself: else its pieces are found at other places of the same text.
  const auto prose = [](std::uint32_t seed, std::size_t n) {
    std::string text;
    std::minstd_rand random(seed);
    for (std::size_t i = 0; i < n; ++i) text += static_cast<char>('b' + random() % 23);
    return text;
  };
  const auto ask = [&](const std::string& front, const char* file, const Json& more) {
    return server.chat(list(says("user", list(part(front + prose(1, 330)), picture(png(file)), part(prose(2, 420))))),
                       more);
  };
  ask("One.", "64x64.png", {{"max_tokens", 2}});
  EXPECT_EQ(server.stats().encoded, 1);
  const Json blends{{"reuse", "blend"}, {"blend", {{"strategy", "first_rows"}, {"first_rows", 4}}}};
  const Json moved = ask("Two, which is longer.", "64x64.png", blends);
  const Json& receipt = moved["kvasir"];
  EXPECT_TRUE(receipt["blend"]["refused"].is_null()) << receipt["blend"];
  EXPECT_GT(receipt["blend"]["relocated_tokens"], 400) << receipt["blend"];
  EXPECT_EQ(receipt["rows"]["reused"], receipt["rows"]["count"]) << moved["kvasir"];
  EXPECT_EQ(server.stats().encoded, 1);
  // Another picture of the same size does not move: what stands around it does.
  const Json other = ask("Three, the longest of all of them.", "97x53.png", blends);
  EXPECT_EQ(other["kvasir"]["rows"]["reused"], 0);
  EXPECT_GT(other["kvasir"]["blend"]["relocated_tokens"], 150) << other["kvasir"]["blend"];
  EXPECT_EQ(server.stats().encoded, 2);
}

TEST_P(PictureFaces, ResultsOfToolsStreamsDraftsBlendingAndShifts) {
  cli::ServingOptions o = options();
  o.drafts.draft = {"lookup"};
  o.scheduler.blend.reuse = "blend";
  o.scheduler.running = 4;
  cli::settle_models(o);
  PictureServer server(o);
  const std::string file = png("64x64.png");
  const Json call{{"id", "call_1"}, {"type", "function"}, {"function", {{"name", "shoot"}, {"arguments", "{}"}}}};
  const Json called{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", list(call)}};
  const Json messages =
      list(says("user", "Take a photo."), called,
           Json{{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", list(part("Done: "), picture(file))}});
  const Json result = server.chat(messages);
  EXPECT_EQ(server.stats().encoded, 1);
  EXPECT_EQ(logprobs(server.chat(messages, {{"reuse", false}, {"draft", false}})), logprobs(result));
  const Json use{{"type", "tool_use"}, {"id", "t1"}, {"name", "shoot"}, {"input", Json::object()}};
  const Json seen{{"type", "tool_result"}, {"tool_use_id", "t1"}, {"content", list(part("Done: "), block(file))}};
  const Json turns = list(says("user", "Take a photo."), says("assistant", list(use)), says("user", list(seen)));
  const Json anthropic = server.answer("/v1/messages", {{"max_tokens", 4}, {"messages", turns}});
  EXPECT_EQ(anthropic["type"], "message");
  const serve::Reply stream = server.ask(
      "/v1/chat/completions", {{"messages", messages}, {"max_tokens", 4}, {"stream", true}, {"temperature", 0}});
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.body.find("[DONE]"), std::string::npos);
  // Longer than the context: the oldest messages go, with their pictures, and the last picture stays.
  Json conversation = Json::array();
  for (int i = 0; i < 6; ++i) {
    conversation.push_back(says("user", list(picture(png("97x53.png")), part(std::string(400, 'c')))));
    conversation.push_back(says("assistant", "yes"));
  }
  conversation.push_back(says("user", list(part("Now "), picture(file))));
  const Json shifted = server.chat(conversation, {{"context_shift", true}});
  EXPECT_LT(prompt_tokens(shifted), 2048);
  EXPECT_GT(shifted["kvasir"]["notes"].size(), 0u) << shifted;
}

TEST_P(PictureFaces, UrlsAreFetchedFromHostsThatTheServerNames) {
  const std::string file = png("64x64.png");
  client::WebFixture web;
  web.put("/a.png", "image/png", file);
  web.put("/page", "text/html", "<html>");
  web.put("/broken.png", "image/png", "no picture");
  cli::ServingOptions o = options();
  o.server.image_urls = {web.host()};
  PictureServer server(o);
  const auto at = [&](const std::string& path) {
    return Json{{"type", "image_url"}, {"image_url", {{"url", web.url(path)}}}};
  };
  const serve::Reply first = server.ask("/tokenize", {{"messages", list(says("user", list(at("/a.png"))))}});
  if (first.body.find("libcurl") != std::string::npos) GTEST_SKIP() << "SKIPPED: this build has no libcurl";
  const Json sent = server.chat(list(says("user", list(part("a "), picture(file), part(" b")))));
  const Json fetched = server.chat(list(says("user", list(part("a "), at("/a.png"), part(" b")))));
  EXPECT_EQ(prompt_tokens(fetched), prompt_tokens(sent));
  EXPECT_GE(cached(fetched), prompt_tokens(sent) - 1);  // it is the same picture
  EXPECT_EQ(logprobs(fetched), logprobs(sent));
  // Twice in a request: fetched once. In the other APIs, too.
  const int before = web.asked();
  server.chat(list(says("user", list(at("/a.png"), part(" and "), at("/a.png")))));
  EXPECT_EQ(web.asked(), before + 1);
  const Json source{{"type", "url"}, {"url", web.url("/a.png")}};
  const Json asked = list(says("user", list(Json{{"type", "image"}, {"source", source}}, part("What?"))));
  const Json counted = server.answer("/v1/messages/count_tokens", {{"max_tokens", 4}, {"messages", asked}});
  const Json sent_one = list(says("user", list(block(file), part("What?"))));
  EXPECT_EQ(counted, server.answer("/v1/messages/count_tokens", {{"max_tokens", 4}, {"messages", sent_one}}));
  const Json input = says("user", list(Json{{"type", "input_image"}, {"image_url", web.url("/a.png")}}));
  const Json request{{"input", list(input)}, {"max_output_tokens", 4}, {"ignore_eos", true}};
  EXPECT_EQ(server.answer("/v1/responses", request)["status"], "incomplete");
  const Json chat{{"messages", list(says("user", list(at("/a.png"), part("What?"))))}};
  EXPECT_EQ(server.answer("/apply-template", chat)["prompt"], "<user><image>What?\n<assistant>");
  EXPECT_GT(server.answer("/tokenize", chat)["count"], 9);
  EXPECT_EQ(server.stats().encoded, 1);
  // What cannot be had names the part.
  for (const auto& [url, why] : {std::pair<std::string, std::string>{web.url("/none"), "answered 404"},
                                 {web.url("/page"), "of the type 'text/html'"},
                                 {web.url("/broken.png"), "is no picture"},
                                 {"http://127.0.0.1:1/a.png", "no host that this server fetches from"},
                                 {"http://localhost:" + std::to_string(web.port()) + "/a.png", "no host that this"}}) {
    const Json image{{"type", "image_url"}, {"image_url", {{"url", url}}}};
    const serve::Reply r =
        server.ask("/v1/chat/completions", {{"messages", list(says("user", list(part("x"), image)))}});
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_NE(r.body.find("messages[0].content[1]"), std::string::npos) << r.body;
    EXPECT_NE(r.body.find(why), std::string::npos) << r.body;
  }
  // A request that waits for its picture ends with the server.
  web.put("/silent", "");
  const int asked_before = web.asked();
  serve::Client client(server.port());
  const Json image{{"type", "image_url"}, {"image_url", {{"url", web.url("/silent")}}}};
  client.send(
      serve::http_text("POST", "/v1/chat/completions", serve::dump({{"messages", list(says("user", list(image)))}})));
  while (web.asked() == asked_before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_P(PictureFaces, AreCounted) {
  PictureServer server(options());
  const auto ask = [&](const char* name, const Json& more = Json::object()) {
    return server.chat(list(says("user", list(picture(png(name)), part(std::string(140, 'b'))))), more);
  };
  const Json cold = ask("64x64.png")["kvasir"]["rows"];
  EXPECT_GT(cold["count"], 0);
  EXPECT_EQ(cold["reused"], 0);
  EXPECT_GE(cold["waited"], 1);
  const Json warm = ask("64x64.png")["kvasir"]["rows"];
  EXPECT_EQ(warm["reused"], warm["count"]);
  EXPECT_EQ(warm["waited"], 0);
  EXPECT_EQ(warm["wait_seconds"], 0);
  ask("97x53.png", {{"max_tokens", 1}});
  EXPECT_FALSE(server.chat(list(says("user", "x")))["kvasir"].contains("rows"));
  const Json stats = server.answer("/v1/stats", nullptr)["pictures"];
  EXPECT_EQ(stats["read"], 3);
  EXPECT_EQ(stats["found"], 1);
  EXPECT_EQ(stats["decoded"], 2);
  EXPECT_EQ(stats["encoded"], 2);
  EXPECT_GT(stats["pixels"], 0);
  EXPECT_GT(stats["seconds"], 0);
  EXPECT_EQ(stats["reused_rows"], warm["count"]);
  const std::string metrics = server.ask("/metrics", nullptr).body;
  EXPECT_NE(metrics.find("kvasir_pictures_encoded_total 2\n"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("kvasir_pictures_found_total 1\n"), std::string::npos);
}

TEST_P(PictureFaces, WhatIsWrongNamesThePart) {
  std::optional<PictureServer> server(options());
  const auto refusal = [&](const std::string& path, const Json& body) {
    const serve::Reply r = server->ask(path, body);
    EXPECT_EQ(r.status, 400) << r.body;
    return r.body;
  };
  const auto has = [](const std::string& text, const std::string& what) {
    EXPECT_NE(text.find(what), std::string::npos) << text << "\nlacks " << what;
  };
  const auto chat = [&](const std::string& url) {
    const Json image{{"type", "image_url"}, {"image_url", {{"url", url}}}};
    return refusal("/v1/chat/completions", {{"messages", list(says("user", list(part("x"), image)))}});
  };
  const std::string here = "messages[0].content[1]";
  for (const auto& [url, why] : {std::pair<std::string, std::string>{"data:image/png;base64,aGk=", "is no picture"},
                                 {"data:image/png;base64,!!!!", "no base64"},
                                 {"data:image/png;base64,", "is empty"},
                                 {"http://127.0.0.1/x.png", "fetches no pictures"},
                                 {"file:///etc/passwd", "expected a URL of the form data:"},
                                 {"data:image/png;base64," + to_base64(png("64x64.png").substr(0, 200)), ""}}) {
    has(chat(url), here);
    has(chat(url), why);
  }
  const auto of_user = [](const char* name, const Json& content) { return Json{{name, list(says("user", content))}}; };
  has(refusal("/v1/chat/completions", of_user("messages", list(Json{{"type", "input_video"}}))),
      "messages[0].content[0].type");
  has(refusal("/v1/chat/completions", of_user("messages", list(Json{{"type", "input_audio"}}))),
      "messages[0].content[0].input_audio");
  Json body = of_user("messages", list(part("a"), part("b"), block("hi")));
  body["max_tokens"] = 4;
  has(refusal("/v1/messages", body), "messages[0].content[2]");
  has(refusal("/v1/responses", of_user("input", list(input_image("aGk=")))), "input[0].content[0]");
  has(refusal("/v1/responses", of_user("input", list(Json{{"type", "input_image"}, {"file_id", "f"}}))), "file_id");
  const Json output{{"type", "function_call_output"}, {"call_id", "c"}, {"output", list(input_image("aGk="))}};
  has(refusal("/v1/responses", {{"input", list(output)}}), "input[0].output[0]");
  const Json asked{{"role", "user"}, {"content", "x"}, {"images", list("aGk=")}};
  has(refusal("/api/chat", {{"model", "tiny"}, {"messages", list(asked)}}), "messages[0].images[0]");
  has(refusal("/api/generate", {{"model", "tiny"}, {"prompt", "x"}, {"images", list("aGk=")}}), "images[0]");
  cli::ServingOptions none = options();
  none.pictures.mmproj.clear();
  server.emplace(none);
  const std::string url = "data:image/png;base64," + to_base64(png("64x64.png"));
  has(chat(url), here);
  has(chat(url), "--mmproj FILE");
  has(refusal("/api/generate", {{"model", "tiny"}, {"prompt", "x"}, {"images", list("aGk=")}}), "images[0]");
  EXPECT_EQ(server->answer("/v1/models", nullptr)["data"][0]["kvasir"]["vision"], false);
}

TEST_P(PictureFaces, ChatsInTheTerminalKeepTheirPictures) {
  cli::LoadedModel model(options(), {store::open_tier("ram:?size=64MiB")}, nullptr);
  run::Request settings;
  settings.max_tokens = 6;
  settings.ignore_eos = true;
  settings.sampling.temperature = 0;
  cli::ChatSession session(model.service(), *model.chat(), settings, Json::object(), model.pictures());
  const cli::ChatAnswer first = session.ask(std::string(140, 'b'), {}, {png("64x64.png")});
  const cli::ChatAnswer second = session.ask("And?", {});
  EXPECT_GE(second.outcome.receipt.reused_tokens, first.outcome.prompt_tokens - 1);
  EXPECT_EQ(model.pictures()->stats().encoded, 1);
  cli::ChatSession other(model.service(), *model.chat(), settings, Json::object(), model.pictures());
  other.load(Json::parse(session.to_json().dump()));
  EXPECT_EQ(other.messages(), session.messages());
  EXPECT_TRUE(other.undo());
  EXPECT_EQ(other.ask("And?", {}).content, second.content);
  cli::ChatSession blind(model.service(), *model.chat(), settings, Json::object());
  EXPECT_THROW(blind.load(session.to_json()), serve::ApiException);
  EXPECT_THROW(session.ask("x", {}, {"no picture"}), serve::ApiException);
  EXPECT_EQ(session.messages().size(), 4u);
}

TEST_P(PictureFaces, TheLibraryTakesThem) {
  // The server's template is a file of its own; the library's is the model's.
  TinyModel tiny;
  tiny.strings["tokenizer.chat_template"] = kPartsTemplate;
  tiny.write(model_.path);
  const Options opened{{"ctx", 2048}, {"threads", 1}, {"mmproj", vision::golden(GetParam())}};
  const Options request{{"n_predict", 6}, {"temperature", 0}, {"ignore_eos", true}};
  Engine engine(model_.path, opened);
  const std::string file = png("64x64.png");
  const std::string messages = list(says("user", list(picture(file), part(std::string(140, 'b'))))).dump();
  const Reply first = engine.chat(messages, request), second = engine.chat(messages, request);
  EXPECT_EQ(first.receipt.reused_tokens, 0);
  EXPECT_GE(second.receipt.reused_tokens, first.prompt_tokens - 1);
  EXPECT_EQ(second.ids, first.ids);
  EXPECT_EQ(engine.chat_prompt(messages), "<user><image>" + std::string(140, 'b') + "\n<assistant>");
  // The same prompt, written out.
  const std::vector<std::string> images{file};
  const Reply written =
      engine.generate_images("<user><image>" + std::string(140, 'b') + "\n<assistant>", images, request);
  EXPECT_EQ(written.ids, first.ids);
  EXPECT_EQ(written.prompt_tokens, first.prompt_tokens);
  EXPECT_THROW(engine.generate_images("<image><image>", images, request), std::invalid_argument);
  EXPECT_THROW(Engine(model_.path, {{"ctx", 512}}).generate_images("x", images, request), std::invalid_argument);
  EXPECT_THROW(Engine(model_.path, {{"ctx", 512}}).chat(messages, request), std::invalid_argument);

  kvasir_engine* c = nullptr;
  const std::string mmproj = "mmproj=" + vision::golden(GetParam());
  const char* const c_options[] = {"ctx=2048", "threads=1", mmproj.c_str(), nullptr};
  ASSERT_EQ(kvasir_engine_open(model_.path.c_str(), c_options, nullptr, nullptr, &c), KVASIR_OK) << kvasir_error();
  const char* const c_request[] = {"n_predict=6", "temperature=0", "ignore_eos=true", nullptr};
  const std::string prompt = "<user><image>" + std::string(140, 'b') + "\n<assistant>";
  const kvasir_image image{file.data(), file.size()};
  kvasir_reply* reply = nullptr;
  ASSERT_EQ(kvasir_generate_images(c, prompt.data(), prompt.size(), &image, 1, c_request, nullptr, nullptr, &reply),
            KVASIR_OK)
      << kvasir_error();
  std::size_t count = 0;
  const std::int32_t* ids = kvasir_reply_ids(reply, &count);
  EXPECT_EQ(std::vector<std::int32_t>(ids, ids + count), first.ids);
  kvasir_reply_free(reply);
  EXPECT_EQ(kvasir_generate_images(c, prompt.data(), prompt.size(), nullptr, 1, c_request, nullptr, nullptr, &reply),
            KVASIR_BAD_INPUT);
  kvasir_engine_close(c);
}

}  // namespace
}  // namespace kvasir
