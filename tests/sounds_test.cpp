// Sounds through the faces: command line, server, chats, library; reused over restarts, and never those of another.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/base64.hpp"
#include "cli/chat_session.hpp"
#include "cli/run_fixture.hpp"
#include "cli/serving.hpp"
#include "client/web_fixture.hpp"
#include "kvasir/engine.hpp"
#include "serve/client_fixture.hpp"
#include "serving_fixture.hpp"
#include "sound/golden_fixture.hpp"
#include "text/pictures.hpp"
#include "tiny_model_fixture.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir {
namespace {

using testing::PictureServer;
using testing::TemporaryPath;
using testing::TinyModel;

// As Gemma 4's template, which writes a token of its own for each kind.
constexpr const char* kSoundTemplate =
    "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content "
    "%}{% if p.type == 'image' %}<|image|>{% elif p.type == 'audio' %}<|audio|>{% else %}{{ p.text }}{% endif %}{% "
    "endfor %}{% endif %}{{ '\\n' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

std::string wav(const std::string& name) { return read_text_file(sound::golden_sound("sounds/" + name + ".wav")); }

class SoundFaces : public ::testing::Test {
 protected:
  SoundFaces() {
    TinyModel model;
    model.strings["tokenizer.chat_template"] = kSoundTemplate;
    model.write(model_.path);
  }
  void SetUp() override {
    if (!sound::hears("sounds/frame.wav")) GTEST_SKIP() << "SKIPPED: this build has no libsndfile";
  }
  static std::string encoder() { return sound::golden_sound("gemma4ua.gguf"); }

  cli::Result run(const std::vector<std::string>& sounds, const std::string& prompt, std::vector<std::string> more = {},
                  const std::string& mmproj = encoder()) const {
    std::vector<std::string> all{"run",           "-m",    model_.path, "-p",         prompt, "-n",           "6",
                                 "--temperature", "0",     "--json",    "--logprobs", "0",    "--ignore-eos", "--kv",
                                 "balanced",      "--ctx", "1024"};
    for (const std::string& s : sounds) all.insert(all.end(), {"--audio", sound::golden_sound("sounds/" + s + ".wav")});
    if (!mmproj.empty()) all.insert(all.end(), {"--mmproj", mmproj});
    all.insert(all.end(), more.begin(), more.end());
    return cli::run_captured(all);
  }
  static Json row(const cli::Result& r) {
    EXPECT_EQ(r.status, 0) << r.err;
    return r.status == 0 ? Json::parse(r.out) : Json::object();
  }
  static std::int64_t reused(const Json& row) { return row["receipt"]["reused_tokens"]; }

  const TemporaryPath model_{"sounds.gguf"}, cache_{"sounds-cache"};
};

TEST_F(SoundFaces, AreReusedAfterARestartAndNeverForAnother) {
  const std::vector<std::string> kept{"--cache-dir", cache_.path};
  const std::string question = std::string(200, 'a') + " b c d e f g";
  const Json cold = row(run({"two"}, question, kept)), warm = row(run({"two"}, question, kept));
  EXPECT_EQ(reused(cold), 0);
  EXPECT_GE(reused(warm), cold["prompt_tokens"].get<std::int64_t>() - 1);
  EXPECT_EQ(warm["logprobs"], cold["logprobs"]);
  EXPECT_EQ(row(run({"two"}, question))["logprobs"], cold["logprobs"]);
  // Another of equal length: only what stands in front of it is known, its mark, which this vocabulary spells in bytes.
  const Json other = row(run({"other"}, question, kept));
  EXPECT_EQ(other["prompt_tokens"], cold["prompt_tokens"]);
  EXPECT_LE(reused(other), 20);
  EXPECT_NE(other["logprobs"], cold["logprobs"]);
  // The folder has the encoder of the file, and is another one: where its tensors lie is what it is known by.
  EXPECT_EQ(row(run({"two"}, question, {}, sound::golden_sound("folder")))["logprobs"], cold["logprobs"]);
}

TEST_F(SoundFaces, StandWhereThePromptSays) {
  const Json front = row(run({"odd"}, "abc"));
  EXPECT_EQ(row(run({"odd"}, "<audio>abc"))["logprobs"], front["logprobs"]);
  EXPECT_NE(row(run({"odd"}, "ab<audio>c"))["logprobs"], front["logprobs"]);
  EXPECT_NE(run({"odd"}, "a<audio>b<audio>").err.find("1 sounds, and the prompt says <audio> at 2 places"),
            std::string::npos);
  if (!vision::reads("pictures/64x64.png")) return;
  // With a picture: each at its own mark; what the prompt has none of is text.
  const std::vector<std::string> image{"--image", vision::golden("pictures/64x64.png")};
  const Json both = row(run({"odd"}, "<image>a<audio>b", image)), turned = row(run({"odd"}, "<audio>a<image>b", image));
  EXPECT_EQ(both["prompt_tokens"], turned["prompt_tokens"]);
  EXPECT_NE(both["logprobs"], turned["logprobs"]);
  EXPECT_EQ(row(run({"odd"}, "ab", image))["logprobs"], row(run({"odd"}, "<image><audio>ab", image))["logprobs"]);
}

TEST_F(SoundFaces, WhatIsWrongIsNamed) {
  const auto error = [](const cli::Result& r) { return r.status == 0 ? "accepted" : r.err; };
  EXPECT_NE(error(run({"none"}, "x")).find("none.wav"), std::string::npos);
  EXPECT_NE(error(run({"odd"}, "x", {}, "")).find("needs --mmproj FILE, the model's encoder of sounds"),
            std::string::npos);
  const std::string deaf = error(run({"odd"}, "x", {}, vision::golden("gemma3.gguf")));
  EXPECT_NE(deaf.find("odd.wav: is a sound, and "), std::string::npos) << deaf;
  EXPECT_NE(deaf.find("has no encoder of sounds"), std::string::npos) << deaf;
  const std::string picture = error(cli::run_captured(std::vector<std::string>{
      "run", "-m", model_.path, "-p", "x", "--mmproj", encoder(), "--audio", vision::golden("pictures/64x64.png")}));
  EXPECT_NE(picture.find("64x64.png: is no sound: expected WAV, FLAC, Ogg or MP3"), std::string::npos) << picture;
}

Json audio(const std::string& file, const char* format = "wav") {
  return {{"type", "input_audio"}, {"input_audio", {{"data", to_base64(file)}, {"format", format}}}};
}
Json text_part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }
Json asked(const Json& first, const std::string& question) {
  Json parts = Json::array();
  parts.push_back(first);
  parts.push_back(text_part(question));
  Json messages = Json::array();
  messages.push_back({{"role", "user"}, {"content", std::move(parts)}});
  return messages;
}

cli::ServingOptions served(const std::string& model, const std::string& mmproj) {
  cli::ServingOptions o;
  o.engine.model = model;
  o.engine.ctx = 2048;
  o.engine.threads = 1;
  o.serve.name = "tiny";
  o.pictures.mmproj = mmproj;
  o.reuse.ram_cache = "64MiB";
  o.server.port = 0;
  return o;
}

TEST_F(SoundFaces, ApisTakeThem) {
  PictureServer server(served(model_.path, encoder()));
  const std::string question = std::string(200, 'q') + "?";
  const Json first = server.chat(asked(audio(wav("two")), question));
  const Json again = server.chat(asked(audio(wav("two")), question));
  const Json other = server.chat(asked(audio(wav("other")), question));
  const auto cached = [](const Json& r) {
    return r["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>();
  };
  const std::int64_t tokens = first["usage"]["prompt_tokens"];
  EXPECT_EQ(cached(again), tokens - 1);
  EXPECT_EQ(again["choices"][0]["logprobs"], first["choices"][0]["logprobs"]);
  EXPECT_LE(cached(other), 40);  // the mark in front, which this vocabulary spells in bytes
  EXPECT_NE(other["choices"][0]["logprobs"], first["choices"][0]["logprobs"]);
  EXPECT_EQ(server.stats().decoded, 2);
  EXPECT_EQ(server.stats().samples, 2 * 5760);
  const Json responses{{"input", asked(audio(wav("two")), question)}, {"max_output_tokens", 6}};
  Json input = responses;
  input["input"][0]["content"][1]["type"] = "input_text";
  EXPECT_EQ(server.answer("/v1/responses", input)["usage"]["input_tokens"], tokens);
  // What the template writes for sounds went with them.
  EXPECT_EQ(server.answer("/apply-template", {{"messages", asked(audio(wav("two")), "What?")}})["prompt"],
            "<user><|audio|>What?\n<assistant>");
  EXPECT_EQ(server.answer("/props", nullptr)["modalities"]["audio"], true);
  const Json models = server.answer("/v1/models", nullptr)["data"][0];
  EXPECT_EQ(models["kvasir"]["audio"], true);
  EXPECT_EQ(models["input_modalities"], Json::parse(R"(["text", "image", "audio"])"));
  const auto refused = [&](const Json& part, const char* field, const char* why) {
    const serve::Reply r = server.ask("/v1/chat/completions", {{"messages", asked(part, "?")}});
    EXPECT_EQ(r.status, 400);
    EXPECT_NE(r.body.find(field), std::string::npos) << r.body;
    EXPECT_NE(r.body.find(why), std::string::npos) << r.body;
  };
  refused(audio("no sound"), "messages[0].content[0]", "is no sound: expected WAV, FLAC, Ogg or MP3");
  refused(audio(wav("two"), "aac"), "messages[0].content[0]", "the format 'aac' is not read");
  refused({{"type", "input_audio"}}, "messages[0].content[0].input_audio", "is missing");
  refused({{"type", "input_audio"}, {"input_audio", {{"data", "*"}}}}, "messages[0].content[0]", "no base64");
  refused(audio(wav("two").substr(0, 5000)), "messages[0].content[0]", "is cut off");
}

Json audio_url(const std::string& url) { return {{"type", "audio_url"}, {"audio_url", {{"url", url}}}}; }
std::string data_url(const std::string& file) { return "data:audio/wav;base64," + to_base64(file); }

// Ollama has no field of its own for sounds: they stand among `images`. vLLM's audio_url is what its clients send.
TEST_F(SoundFaces, OtherApisTakeThemInTheirForm) {
  PictureServer server(served(model_.path, encoder()));
  const std::int64_t tokens = server.chat(asked(audio(wav("two")), "What?"))["usage"]["prompt_tokens"];
  const std::int64_t others = server.chat(asked(text_part("x"), "What?"))["usage"]["prompt_tokens"];
  EXPECT_GT(tokens, others);
  const std::string base64 = to_base64(wav("two"));
  for (const std::string& sent : {base64, data_url(wav("two"))}) {
    const Json message{{"role", "user"}, {"content", "What?"}, {"images", Json::array({sent})}};
    Json body{{"model", "tiny"}, {"stream", false}, {"messages", Json::array({message})}};
    EXPECT_EQ(server.answer("/api/chat", body)["prompt_eval_count"], tokens);
    body = {{"model", "tiny"}, {"stream", false}, {"prompt", "What?"}, {"images", Json::array({sent})}};
    EXPECT_EQ(server.answer("/api/generate", body)["prompt_eval_count"], tokens);
  }
  EXPECT_EQ(server.chat(asked(audio_url(data_url(wav("two"))), "What?"))["usage"]["prompt_tokens"], tokens);
  EXPECT_EQ(server.chat(
                asked({{"type", "audio_url"}, {"audio_url", data_url(wav("two"))}}, "What?"))["usage"]["prompt_tokens"],
            tokens);
  Json input = asked(audio_url(data_url(wav("two"))), "What?");
  input[0]["content"][1]["type"] = "input_text";
  EXPECT_EQ(server.answer("/v1/responses", {{"input", input}, {"max_output_tokens", 6}})["usage"]["input_tokens"],
            tokens);
  EXPECT_EQ(server.stats().decoded, 1);  // all the same sound
  if (vision::reads("pictures/64x64.png")) {
    const std::string png = read_text_file(vision::golden("pictures/64x64.png"));
    const Json both{{"role", "user"}, {"content", "?"}, {"images", Json::array({to_base64(png), base64})}};
    server.answer("/api/chat", {{"model", "tiny"}, {"stream", false}, {"messages", Json::array({both})}});
    EXPECT_GT(server.stats().pixels, 0);
  }
  const auto refused = [&](const char* path, const Json& body, const char* field, const char* why) {
    const serve::Reply r = server.ask(path, body);
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_NE(r.body.find(field), std::string::npos) << r.body;
    EXPECT_NE(r.body.find(why), std::string::npos) << r.body;
  };
  const Json cut{{"role", "user"}, {"content", "?"}, {"images", Json::array({to_base64(wav("two").substr(0, 5000))})}};
  refused("/api/chat", {{"model", "tiny"}, {"messages", Json::array({cut})}}, "messages[0].images[0]", "is cut off");
  for (const Json& part : {audio(wav("two")), audio_url(data_url(wav("two")))})
    refused("/v1/messages", {{"messages", asked(part, "?")}, {"max_tokens", 4}}, "messages[0].content[0].type",
            "this API has no sounds, send them to /v1/chat/completions as input_audio");
  const auto chat = [&](const Json& part, const char* field, const char* why) {
    refused("/v1/chat/completions", {{"messages", asked(part, "?")}}, field, why);
  };
  chat({{"type", "audio_url"}}, "messages[0].content[0].audio_url", "is missing");
  chat(audio_url("data:audio/wav;base64,"), "messages[0].content[0]", "is empty, expected a sound");
  chat(audio_url("file:///etc/passwd"), "messages[0].content[0]", "expected a URL of the form data:audio/wav");
  chat(audio_url("http://127.0.0.1/a.wav"), "messages[0].content[0]", "fetches no sounds from other servers");
}

TEST_F(SoundFaces, UrlsAreFetchedFromHostsThatTheServerNames) {
  client::WebFixture web;
  web.put("/two.wav", "audio/x-wav", wav("two"));
  web.put("/any", "application/octet-stream", wav("two"));
  web.put("/page", "text/html", "<html>");
  web.put("/picture", "image/png", "a picture");
  web.put("/broken.wav", "audio/wav", "no sound");
  cli::ServingOptions o = served(model_.path, encoder());
  o.server.image_urls = {web.host()};
  PictureServer server(o);
  const serve::Reply first = server.ask("/tokenize", {{"messages", asked(audio_url(web.url("/two.wav")), "?")}});
  if (first.body.find("libcurl") != std::string::npos) GTEST_SKIP() << "SKIPPED: this build has no libcurl";
  const std::string question = std::string(100, 'q');
  const Json sent = server.chat(asked(audio(wav("two")), question));
  for (const Json& part : {audio_url(web.url("/two.wav")), audio_url(web.url("/any")),
                           Json{{"type", "input_audio"}, {"input_audio", {{"data", web.url("/two.wav")}}}}}) {
    const Json fetched = server.chat(asked(part, question));
    EXPECT_EQ(fetched["usage"]["prompt_tokens"], sent["usage"]["prompt_tokens"]);
    EXPECT_EQ(fetched["choices"][0]["logprobs"], sent["choices"][0]["logprobs"]);
  }
  EXPECT_EQ(server.stats().decoded, 1);
  for (const auto& [url, why] :
       {std::pair<std::string, std::string>{web.url("/none"), "answered 404"},
        {web.url("/page"), "of the type 'text/html', expected audio/wav"},
        {web.url("/picture"), "of the type 'image/png', expected audio/wav"},
        {web.url("/broken.wav"), "is no sound"},
        {"http://127.0.0.1:1/a.wav", "no host that this server fetches from"},
        {"http://localhost:" + std::to_string(web.port()) + "/two.wav", "no host that this"}}) {
    const serve::Reply r = server.ask("/v1/chat/completions", {{"messages", asked(audio_url(url), "?")}});
    EXPECT_EQ(r.status, 400) << r.body;
    EXPECT_NE(r.body.find("messages[0].content[0]"), std::string::npos) << r.body;
    EXPECT_NE(r.body.find(why), std::string::npos) << r.body;
  }
  // A sound at the URL of a picture is none.
  const Json image{{"type", "image_url"}, {"image_url", {{"url", web.url("/two.wav")}}}};
  const serve::Reply r = server.ask("/v1/chat/completions", {{"messages", asked(image, "?")}});
  EXPECT_NE(r.body.find("of the type 'audio/x-wav', expected image/jpeg"), std::string::npos) << r.body;
}

TEST_F(SoundFaces, ModelsWithoutSoundSaySo) {
  {
    PictureServer server(served(model_.path, vision::golden("gemma3.gguf")));
    const serve::Reply r = server.ask("/v1/chat/completions", {{"messages", asked(audio(wav("two")), "?")}});
    EXPECT_EQ(r.status, 400);
    EXPECT_NE(r.body.find("is a sound, and this model has no encoder of sounds"), std::string::npos) << r.body;
    EXPECT_EQ(server.answer("/props", nullptr)["modalities"]["audio"], false);
  }
  PictureServer server(served(model_.path, "none"));
  const serve::Reply r = server.ask("/v1/chat/completions", {{"messages", asked(audio(wav("two")), "?")}});
  EXPECT_EQ(r.status, 400);
  EXPECT_NE(r.body.find("is a sound, and this model has no encoder of sounds"), std::string::npos) << r.body;
}

TEST_F(SoundFaces, TheLibraryTakesThem) {
  const Options options{{"mmproj", encoder()}, {"ctx", 1024}, {"threads", 1}};
  Engine engine(model_.path, options);
  const Options greedy{{"temperature", 0.0}, {"n_predict", 6}, {"ignore_eos", true}};
  const std::string two = asked(audio(wav("two")), "What?").dump(), other = asked(audio(wav("other")), "What?").dump();
  const Reply first = engine.chat(two, greedy), again = engine.chat(two, greedy);
  EXPECT_EQ(again.text, first.text);
  EXPECT_EQ(engine.chat(other, greedy).prompt_tokens, first.prompt_tokens);
  EXPECT_EQ(engine.chat(asked(audio_url(data_url(wav("two"))), "What?").dump(), greedy).ids, first.ids);
  EXPECT_EQ(engine.chat_prompt(two, ""), "<user><|audio|>What?\n<assistant>");
  const auto error = [&](Engine& e, const Json& part) -> std::string {
    try {
      e.chat(asked(part, "?").dump(), greedy);
    } catch (const std::exception& thrown) {
      return thrown.what();
    }
    return "accepted";
  };
  EXPECT_NE(error(engine, {{"type", "input_audio"}, {"input_audio", 1}}).find("expected input_audio.data"),
            std::string::npos);
  EXPECT_NE(error(engine, audio("x")).find("messages[0].content[0]: is no sound"), std::string::npos);
  Engine deaf(model_.path, {{"ctx", 1024}, {"threads", 1}});
  EXPECT_NE(error(deaf, audio(wav("two"))).find("is a sound, and the engine reads none"), std::string::npos);
}

TEST(SoundMarks, AreNotThoseOfPictures) {
  EXPECT_NE(text::sound_mark("x"), text::picture_mark("x"));
  EXPECT_NE(text::sound_mark("x"), text::sound_mark("y"));
  EXPECT_TRUE(text::is_sound_mark(text::sound_mark("x")));
  EXPECT_FALSE(text::is_sound_mark(text::picture_mark("x")));
  EXPECT_EQ(text::marks_in("a" + text::sound_mark("x")).size(), 1u);
}

}  // namespace
}  // namespace kvasir
