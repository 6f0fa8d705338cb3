// Answers with drafts are the answers without: of every drafter, class of layers and preset, with reuse, in a batch and
// at every kind of end.
#include "run/drafting.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kv/page.hpp"
#include "model/synth.hpp"
#include "run/reuse_fixture.hpp"
#include "run/text_memory.hpp"
#include "tensor/buffer.hpp"
#include "text/json_schema.hpp"
#include "weights/gguf_writer.hpp"

namespace kvasir::run {
namespace {

using namespace testing;

DraftOptions drafts(std::vector<std::string> names, bool always = true, std::int32_t tokens = 6) {
  return {.draft = std::move(names), .draft_tokens = tokens, .draft_always = always};
}
const std::vector<std::vector<std::string>> kDrafters = {
    {"lookup"}, {"store"}, {"model:" + kBooks}, {"store", "lookup", "model:" + kBooks}};

std::vector<std::int32_t> document(const text::Tokenizer& tokenizer, std::size_t from, std::size_t n) {
  const std::vector<std::int32_t> all = tokenizer.encode(read_text_file(kSource + "/docs/results/reasons.md"));
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
  return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

ServiceRequest request(std::vector<std::int32_t> prompt, std::int32_t tokens, float temperature = 0,
                       std::int64_t seed = 1) {
  ServiceRequest r;
  r.request.prompt = std::move(prompt);
  r.request.max_tokens = tokens;
  r.request.sampling.temperature = temperature;
  r.request.sampling.seed = seed;
  r.request.ignore_eos = true;
  r.request.top_logprobs = 3;
  r.reuse = true;
  return r;
}

void expect_stats(const Reply& reply, const std::string& what) {
  const DraftStats& f = reply.outcome.draft;
  EXPECT_EQ(f.tokens, reply.outcome.completion_tokens - 1) << what;
  EXPECT_GE(f.steps + f.accepted, f.tokens) << what;
  std::int64_t drafted = 0, accepted = 0, by_source = 0;
  for (std::size_t i = 0; i < f.drafted_at.size(); ++i) {
    drafted += f.drafted_at[i], accepted += f.accepted_at[i];
    EXPECT_LE(f.accepted_at[i], f.drafted_at[i]) << what;
  }
  for (const auto& s : f.sources) by_source += s.accepted;
  EXPECT_EQ(drafted, f.drafted) << what;
  EXPECT_EQ(accepted, f.accepted) << what;
  EXPECT_EQ(by_source, f.accepted) << what;
}

class Drafts : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, Drafts, ::testing::Values("exact", "balanced", "kivi2"));

// Greedy and drawn with penalties, over several pages.
TEST_P(Drafts, AnswersAreThoseWithout) {
  Server plain(GetParam(), {});
  std::vector<ServiceRequest> requests;
  for (const std::size_t n : {37, 300}) {
    requests.push_back(request(document(plain.tokenizer(), 9 * n, n), 140));
    requests.push_back(request(document(plain.tokenizer(), 7 * n, n), 60, 0.9f, 7));
    requests.back().request.sampling.repetition_penalty = 1.1f;
    requests.push_back(request(document(plain.tokenizer(), 5 * n, n), 60, 0.5f, 8));
    requests.back().request.sampling.top_k = 3;
  }
  std::vector<Reply> wanted;
  for (const ServiceRequest& r : requests) wanted.push_back(plain.submit(r)->wait());
  for (const auto& names : kDrafters) {
    Server server(GetParam(), {}, {}, kBooks, drafts(names));
    const int rounds = names.back() == "store" ? 2 : 1;  // the second time it knows the answers
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const Reply reply = server.submit(requests[i])->wait();
        expect_equal_bits(wanted[i], reply);
        expect_stats(reply, names.back());
        if (round + 1 < rounds) continue;
        EXPECT_GT(reply.outcome.draft.drafted, 0) << names.back();
        if (rounds == 2) {
          EXPECT_GT(reply.outcome.draft.tokens_per_step(), 4);
        }
      }
  }
}

// The draft model is the model: every draft token is right if its cache has no hole, however many were right before.
TEST(DraftModel, OfTheSameWeightsIsAlwaysRight) {
  Server server("exact", {}, {}, kBooks, drafts({"model:" + kBooks}));
  for (const float temperature : {0.0f, 1.0f}) {
    const Reply reply = server.submit(request(document(server.tokenizer(), 900, 200), 150, temperature))->wait();
    EXPECT_EQ(reply.outcome.draft.accepted, reply.outcome.draft.drafted);
    EXPECT_GT(reply.outcome.draft.tokens_per_step(), 4);
  }
}

TEST(DraftModel, AVocabularyOfAnotherModelIsRefused) {
  const std::string folder = ::testing::TempDir() + "kvasir-draft-other-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  Team team(2);
  model::write_synthetic_model(folder + "/m.gguf", model::find_synth_shape("tiny"), "q8_0", 1, team, [](auto, auto) {});
  try {
    Server server("exact", {}, {}, kBooks, drafts({"model:" + folder + "/m.gguf"}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected the model's"), std::string::npos) << e.what();
  }
  std::filesystem::remove_all(folder);
}

class DraftClasses : public ::testing::TestWithParam<const char*> {
 protected:
  DraftClasses() {
    std::filesystem::create_directories(folder_);
    Team team(2);
    model::write_synthetic_model(model_, model::find_synth_shape(GetParam()), "q8_0", 1, team, [](auto, auto) {});
  }
  ~DraftClasses() override { std::filesystem::remove_all(folder_); }
  const std::string folder_ = ::testing::TempDir() + "kvasir-drafts-" + std::to_string(getpid());
  const std::string model_ = folder_ + "/model.gguf";
  std::vector<std::string> drafters() const {
    if (std::string(GetParam()).starts_with("tiny-mtp")) return {"mtp"};
    return {"lookup", "model:" + model_};
  }
  // Not every head size has a preset.
  const char* preset() const { return std::string(GetParam()) == "tiny-mtp-latent" ? "f16" : "balanced"; }
  const std::string disk_ = "lmdb:" + folder_ + "/store?size=256MiB";
};
INSTANTIATE_TEST_SUITE_P(Classes, DraftClasses,
                         ::testing::Values("tiny", "tiny-local", "tiny-states", "tiny-experts", "tiny-loops"));
INSTANTIATE_TEST_SUITE_P(Mtp, DraftClasses,
                         ::testing::Values("tiny-mtp", "tiny-mtp-states", "tiny-mtp-latent", "tiny-mtp-experts"));

// A conversation with reuse, a second life of the server over the same disk, and everything without drafts.
TEST_P(DraftClasses, ConversationsAndRestartsKeepEveryBit) {
  Server plain(preset(), {}, {}, model_);
  const auto all = turns(plain.tokenizer(), 6, 300);
  std::vector<Reply> wanted;
  std::vector<std::int32_t> prompt = document(plain.tokenizer(), 0, 200);
  std::vector<std::vector<std::int32_t>> prompts;
  for (const auto& turn : all) {
    append(prompt, turn);
    prompts.push_back(prompt);
    wanted.push_back(plain.ask(prompt, 40, false));
    append(prompt, wanted.back().ids());
  }
  const DraftOptions options = drafts(drafters());
  std::size_t i = 0;
  std::int64_t drafted = 0;
  for (int life = 0; life < 2; ++life) {
    Server server(preset(), {disk_}, {}, model_, options);
    for (std::size_t turn = 0; turn < 3; ++turn, ++i) {
      const Reply reply = server.ask(prompts[i], 40, true);
      expect_equal_bits(wanted[i], reply);
      expect_stats(reply, GetParam());
      drafted += reply.outcome.draft.drafted;
      if (i > 0) {
        EXPECT_GT(reply.outcome.receipt.reused_tokens, 0) << i;
      }
      server.flush();  // what is still on its way to the disk is not reused
    }
  }
  EXPECT_GT(drafted, 0);
}

// Requests side by side, some that begin alike (forks), of several lengths.
TEST_P(DraftClasses, ABatchIsAsAlone) {
  Server plain(preset(), {}, {}, model_);
  Server server(preset(), {}, {}, model_, drafts(drafters()));
  std::vector<ServiceRequest> requests;
  for (std::size_t i = 0; i < 6; ++i) {
    std::vector<std::int32_t> prompt = document(plain.tokenizer(), 0, 150);
    append(prompt, document(plain.tokenizer(), 400 * i, 20 + 40 * i));
    requests.push_back(request(std::move(prompt), 60 + static_cast<std::int32_t>(i) * 10, i % 2 ? 0.8f : 0.0f,
                               static_cast<std::int64_t>(i)));
  }
  std::vector<std::shared_ptr<Waiter>> waiting;
  for (const ServiceRequest& r : requests) waiting.push_back(server.submit(r));
  for (std::size_t i = 0; i < requests.size(); ++i)
    expect_equal_bits(plain.submit(requests[i])->wait(), waiting[i]->wait());
}

// A block that reads nothing but tokens, in a model of one layer, drafts what the model says: in a conversation,
// in a batch whose beginnings are copies, and after a restart that left the block without rows.
TEST(DraftMtp, ABlockThatIsTheModelIsNearlyAlwaysRight) {
  const std::string folder = ::testing::TempDir() + "kvasir-mtp-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  Team team(2);
  const std::string model = folder + "/m.gguf", disk = "lmdb:" + folder + "/store?size=256MiB";
  model::write_synthetic_model(model, model::find_synth_shape("tiny-mtp"), "q8_0", 1, team, [](auto, auto) {});
  Server plain("exact", {}, {}, model);
  std::vector<std::int32_t> prompt = document(plain.tokenizer(), 900, 200);
  for (int life = 0; life < 2; ++life) {
    Server server("exact", {disk}, {}, model, drafts({"mtp"}));
    for (const float temperature : {0.0f, 1.0f, 0.0f}) {
      const Reply wanted = plain.submit(request(prompt, 150, temperature))->wait();
      const Reply reply = server.submit(request(prompt, 150, temperature))->wait();
      expect_equal_bits(wanted, reply);
      expect_stats(reply, "mtp");
      EXPECT_GT(reply.outcome.draft.drafted, 100);
      if (life == 0) {
        const double right =
            static_cast<double>(reply.outcome.draft.accepted) / static_cast<double>(reply.outcome.draft.drafted);
        EXPECT_GT(right, temperature > 0 ? 0.33 : 0.75);
      }
      append(prompt, reply.ids());
      append(prompt, document(plain.tokenizer(), 1400, 30));
    }
    server.flush();
  }
  std::filesystem::remove_all(folder);
}

// Part of a model's file, with other numbers of layers.
void write_part(const std::string& from, const std::string& to, std::uint32_t layers, std::uint32_t nextn,
                const std::function<bool(const std::string& tensor)>& has) {
  const MappedFile mapped(from);
  const auto model = weights::open_model_file(from);
  const std::string arch = model->metadata().require_string("general.architecture") + ".";
  const std::string keys[] = {arch + "block_count", arch + "nextn_predict_layers"};
  const std::string_view but[] = {keys[0], keys[1]};
  weights::GgufHeader header;
  header.copy_metadata(mapped.bytes(), but);
  header.set(keys[0], layers);
  if (nextn > 0) header.set(keys[1], nextn);
  for (const bool writes : {false, true}) {
    std::optional<weights::GgufWriter> out;
    if (writes) out.emplace(to, header);
    for (const weights::TensorInfo& t : model->tensors()) {
      if (!has(t.name)) continue;
      if (writes)
        out->write(t.bytes);
      else
        header.add_tensor(t.name, t.quant, std::span(t.shape).first(static_cast<std::size_t>(t.rank)));
    }
    if (writes) out->finish();
  }
}

// As the converter writes them with --no-nextn and --mtp: together they are as good as one.
TEST(DraftMtp, AFileOfTheLayersAloneDraftsForTheModel) {
  const std::string folder = ::testing::TempDir() + "kvasir-mtp-file-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  Team team(2);
  const std::string whole = folder + "/whole.gguf", model = folder + "/model.gguf", head = folder + "/mtp.gguf";
  const model::SynthShape& shape = model::find_synth_shape("tiny-mtp");
  model::write_synthetic_model(whole, shape, "q8_0", 1, team, [](auto, auto) {});
  const std::string block = "blk." + std::to_string(shape.layers) + ".";
  const auto layers = static_cast<std::uint32_t>(shape.layers);
  write_part(whole, model, layers, 0, [&](const std::string& name) { return !name.starts_with(block); });
  write_part(whole, head, layers + 1, 1,
             [&](const std::string& name) { return name.starts_with(block) || !name.starts_with("blk."); });
  Server plain("exact", {}, {}, model);
  Server one("exact", {}, {}, whole, drafts({"mtp"})), two("exact", {}, {}, model, drafts({"mtp:" + head}));
  const ServiceRequest asked = request(document(plain.tokenizer(), 900, 200), 150);
  const Reply wanted = plain.submit(asked)->wait(), of_one = one.submit(asked)->wait(),
              reply = two.submit(asked)->wait();
  expect_equal_bits(wanted, reply);
  expect_stats(reply, "mtp");
  EXPECT_GT(reply.outcome.draft.drafted, 100);
  EXPECT_EQ(reply.outcome.draft.drafted, of_one.outcome.draft.drafted);
  EXPECT_EQ(reply.outcome.draft.accepted, of_one.outcome.draft.accepted);
  const auto refusal = [](const std::string& of, const std::string& drafter) -> std::string {
    try {
      Server server("exact", {}, {}, of, drafts({drafter}));
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  EXPECT_NE(refusal(head, "lookup").find("for which --draft mtp:FILE takes this file"), std::string::npos);
  EXPECT_NE(refusal(kBooks, "mtp:" + head).find("expected the model's: "), std::string::npos)
      << refusal(kBooks, "mtp:" + head);
  EXPECT_NE(refusal(whole, "mtp:" + model).find("nextn_predict_layers is missing"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(DraftMtp, AModelWithoutSuchLayersIsRefusedByFileAndField) {
  try {
    Server server("balanced", {}, {}, kBooks, drafts({"mtp"}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("nextn_predict_layers is missing"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(kBooks), std::string::npos) << e.what();
  }
  EXPECT_THROW(Server("balanced", {}, {}, kBooks, drafts({"mtp:2"})), Error);
}

// An end inside the draft tokens: of tokens, by a stop string, by the model, by the context.
TEST(DraftEnds, AreWhereTheyWereWithout) {
  Server plain("balanced", {});
  Server server("balanced", {}, {}, kBooks, drafts({"store", "lookup"}));
  std::vector<ServiceRequest> requests;
  for (const std::int32_t n : {1, 2, 3, 5, 9}) requests.push_back(request(document(plain.tokenizer(), 700, 60), n));
  requests.push_back(request(document(plain.tokenizer(), 700, 60), 200));
  const Reply whole = plain.submit(requests.back())->wait();
  requests.back().request.stop = {std::string(plain.tokenizer().piece(whole.ids()[90]))};
  requests.push_back(request(document(plain.tokenizer(), 700, 60), -1, 1.0f, 3));
  requests.back().request.ignore_eos = false;
  requests.push_back(request(document(plain.tokenizer(), 100, 2960), -1));  // the context has 3000
  requests.push_back(request(document(plain.tokenizer(), 100, 2900), 160));
  requests.back().request.keep = 16;  // goes on behind the context's end
  for (int round = 0; round < 2; ++round)
    for (const ServiceRequest& r : requests) {
      const Reply wanted = plain.submit(r)->wait(), reply = server.submit(r)->wait();
      expect_equal_bits(wanted, reply);
      EXPECT_EQ(reply.outcome.finish, wanted.outcome.finish);
      EXPECT_EQ(reply.outcome.completion_tokens, wanted.outcome.completion_tokens);
      EXPECT_EQ(reply.outcome.shifts, wanted.outcome.shifts);
    }
}

TEST(DraftEnds, GrammarsHoldForDraftsToo) {
  const auto schema = nlohmann::ordered_json::parse(
      R"({"type": "array", "minItems": 5, "maxItems": 9, "items": {"type": "object", "properties": {"name": {"enum": ["one", "two"]}, "n": {"type": "integer"}}, "required": ["name", "n"], "additionalProperties": false}})");
  Server plain("balanced", {});
  Server server("balanced", {}, {}, kBooks, drafts({"lookup", "model:" + kBooks}));
  for (const float temperature : {0.0f, 1.0f}) {
    ServiceRequest r = request(document(plain.tokenizer(), 300, 80), 200, temperature, 5);
    r.request.grammar = text::grammar_of_schema(schema, text::Unknown::kRefuse);
    const Reply reply = server.submit(r)->wait();
    expect_equal_bits(plain.submit(r)->wait(), reply);
    EXPECT_GT(reply.outcome.draft.accepted, 20);
  }
}

TEST(DraftNames, ChooseForOneRequest) {
  Server server("balanced", {}, {}, kBooks, drafts({"lookup", "store"}));
  ServiceRequest r = request(document(server.tokenizer(), 300, 200), 60);
  r.drafters.emplace();
  EXPECT_TRUE(server.submit(r)->wait().outcome.draft.sources.empty());
  r.drafters = {"store"};
  ASSERT_EQ(server.submit(r)->wait().outcome.draft.sources.size(), 1u);
  r.drafters = {"guess"};
  EXPECT_THROW(server.submit(r), Error);
  EXPECT_THROW(Server("balanced", {}, {}, kBooks, drafts({"guess"})), Error);
  EXPECT_THROW(Server("balanced", {}, {}, kBooks, drafts({"lookup:3"})), Error);
  EXPECT_THROW(Server("balanced", {}, {}, kBooks, drafts({"store:x"})), Error);
  EXPECT_THROW(Server("balanced", {}, {}, kBooks, drafts({"model"})), Error);
  EXPECT_THROW(Server("balanced", {}, {}, kBooks, drafts({"store", "store"})), Error);
}

// What other tenants wrote, and what was not to be reused, is never drafted.
TEST(DraftNames, TenantsNeverMeet) {
  Server server("balanced", {}, {}, kBooks, drafts({"store"}));
  ServiceRequest r = request(document(server.tokenizer(), 300, 200), 60);
  r.tenant = "a";
  r.reuse = false;
  server.submit(r)->wait();
  r.reuse = true;
  EXPECT_EQ(server.submit(r)->wait().outcome.draft.drafted, 0);
  r.tenant = "b";
  EXPECT_EQ(server.submit(r)->wait().outcome.draft.drafted, 0);
  r.tenant = "a";
  EXPECT_GT(server.submit(r)->wait().outcome.draft.accepted, 40);
}

class DraftNotes : public ::testing::Test {
 protected:
  DraftNotes() { std::filesystem::create_directories(folder_); }
  ~DraftNotes() override { std::filesystem::remove_all(folder_); }
  static ServiceRequest asked(const Server& server, const std::string& tenant) {
    ServiceRequest r = request(document(server.tokenizer(), 300, 200), 60);
    r.tenant = tenant;
    return r;
  }
  const std::string folder_ = ::testing::TempDir() + "kvasir-draft-notes-" + std::to_string(getpid());
  const std::string disk_ = "lmdb:" + folder_ + "/store?size=256MiB";
};

// Another process with the same store drafts what the first one saw, each tenant its own.
TEST_F(DraftNotes, TextsOutliveARestart) {
  const Reply wanted = [&] {
    Server server("balanced", {disk_}, {}, kBooks, drafts({"store"}));
    Reply reply = server.submit(asked(server, "a"))->wait();
    EXPECT_EQ(reply.outcome.draft.drafted, 0);
    return reply;
  }();
  Server server("balanced", {disk_}, {}, kBooks, drafts({"store"}));
  EXPECT_EQ(server.submit(asked(server, "b"))->wait().outcome.draft.drafted, 0);
  const Reply reply = server.submit(asked(server, "a"))->wait();
  expect_equal_bits(wanted, reply);
  EXPECT_GT(reply.outcome.draft.accepted, 40);
  EXPECT_EQ(reply.outcome.draft.message, "");
  ServiceRequest alone = asked(server, "a");
  alone.reuse = false;
  EXPECT_EQ(server.submit(alone)->wait().outcome.draft.drafted, 0);
}

TEST_F(DraftNotes, WhatCannotBeReadIsIgnoredAndSaid) {
  const auto ids = [](std::initializer_list<std::int32_t> list) {
    std::string text = std::string("KVtx") + std::string("\1\0\0\0", 4);
    for (const std::int32_t id : list) text.append(reinterpret_cast<const char*>(&id), 4);
    return text;
  };
  int n = 0;
  for (const auto& [note, said] :
       std::vector<std::pair<std::string, std::string>>{{"", "version"},
                                                        {"another thing, of a later version", "version"},
                                                        {ids({1, 2, 3}), "damaged"},            // no end
                                                        {ids({1, 2, 3, -1}) + "x", "damaged"},  // no whole number
                                                        {ids({1, 1 << 30, -1}), "damaged"},     // no token
                                                        {ids({1, -5, -1}), "damaged"},          // no token
                                                        {ids({1, 2, 3, -1}), ""}}) {
    const std::string disk = "lmdb:" + folder_ + "/" + std::to_string(n++) + "?size=64MiB";
    {
      Server server("balanced", {disk});
      server.library().notes().keep("texts a", std::as_bytes(std::span(note)), store::Notes::kDear);
      server.flush();
    }
    Server server("balanced", {disk}, {}, kBooks, drafts({"store"}));
    const Reply reply = server.submit(asked(server, "a"))->wait();
    EXPECT_EQ(reply.outcome.error, "");
    const std::string& message = reply.outcome.draft.message;
    EXPECT_EQ(message.empty(), said.empty()) << message;
    EXPECT_NE(message.find(said), std::string::npos) << message;
  }
}

// However much is said, a note is bounded, and the newest texts are in it.
TEST(DraftTexts, NotesHaveTheNewest) {
  TextMemory memory(1 << 12), other(1 << 12);
  std::vector<std::int32_t> text(100);
  for (std::int32_t t = 0; t < 60; ++t) {
    for (std::int32_t i = 0; i < 100; ++i) text[static_cast<std::size_t>(i)] = (t * 7919 + i * i) % 1000;
    memory.add(text);
  }
  for (const std::size_t most :
       {std::size_t{0}, std::size_t{50}, std::size_t{101}, std::size_t{1000}, std::size_t{1} << 20}) {
    const std::vector<std::int32_t> newest = memory.newest(most);
    EXPECT_LE(newest.size(), most);
    EXPECT_EQ(newest.size() % 101, 0u);
    if (most >= 101) {
      EXPECT_TRUE(std::equal(text.begin(), text.end(), newest.end() - 101));
    }
  }
  EXPECT_TRUE(other.add_all(memory.newest(1000), 1000));
  EXPECT_EQ(other.tokens(), 9u * 101);
  EXPECT_EQ(other.find(std::span(text).first(20)).followed[0], text[20]);
  EXPECT_FALSE(other.add_all(memory.newest(1000), 10));
}

// What drafts counts in the plan: as much as it then takes, off the bytes for weights, and in what is refused.
TEST(DraftMemory, IsPartOfTheOneBudget) {
  const std::string folder = ::testing::TempDir() + "kvasir-draft-memory-" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  Team team(2);
  EngineOptions options;
  options.model = folder + "/m.gguf";
  options.ctx = 3000;
  options.threads = 2;
  options.weights_file = folder + "/packed";
  model::write_synthetic_model(options.model, model::find_synth_shape("tiny-mtp-latent"), "q8_0", 1, team,
                               [](auto, auto) {});
  const auto allocated = [] {
    std::int64_t sum = 0;
    for (const auto tag : {tensor::Tag::kWeights, tensor::Tag::kScratch, tensor::Tag::kCache})
      sum += static_cast<std::int64_t>(tensor::allocated_bytes(tag));
    return sum;
  };
  for (const std::string name : {"mtp", "model:"}) {
    const DraftOptions d = drafts({name == "mtp" ? name : name + options.model});
    const Beside planned = drafts_memory(d, options, 2, 6000);
    Engine engine(options, {.sequences = 2, .pool_tokens = 6000, .logits = 2, .drafted = drafted_rows(d, 2)});
    const std::int64_t before = allocated(),
                       weights = static_cast<std::int64_t>(tensor::allocated_bytes(tensor::Tag::kWeights));
    const Drafting drafting(engine, d, 2);
    EXPECT_EQ(static_cast<std::int64_t>(tensor::allocated_bytes(tensor::Tag::kWeights)) - weights, planned.weights)
        << name;
    EXPECT_LE(allocated() - before, planned.weights + planned.others) << name;
    EXPECT_GT(allocated() - before, (planned.weights + planned.others) / 2) << name;
  }
  options.model = folder + "/tiny.gguf";
  model::write_synthetic_model(options.model, model::find_synth_shape("tiny"), "q8_0", 1, team, [](auto, auto) {});
  const Beside beside = drafts_memory(drafts({"model:" + options.model}), options, 1);
  const auto file = weights::open_model_file(options.model);
  const auto memory_with = [&](std::int64_t size, const Beside& taken) {
    options.weights_memory = std::to_string(size);
    return plan_engine(*file, options, 1, 1, 0, taken).residency;
  };
  EXPECT_FALSE(memory_with(2 * beside.weights + 100000, beside).streams());
  EXPECT_LE(memory_with(2 * beside.weights - 100000, beside).memory(), beside.weights - 100000);
  EXPECT_FALSE(memory_with(2 * beside.weights - 100000, {}).streams());
  try {
    memory_with(beside.weights, beside);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kMemory);
    EXPECT_NE(std::string(e.what()).find("--weights-memory"), std::string::npos) << e.what();
  }
  options.weights_memory.clear();
  try {
    Engine engine(options, {.beside = {std::int64_t{1} << 50, 0}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("of what drafts"), std::string::npos) << e.what();
  }
  EXPECT_THROW(drafts_memory(drafts({"guess"}), options, 1), Error);
  std::filesystem::remove_all(folder);
}

// Where draft tokens are mostly wrong few are computed.
TEST(DraftPace, UnlikelyDraftTokensAreNotComputed) {
  Pace pace;
  for (int i = 0; i < 50; ++i) pace.learn(1, 0.010), pace.learn(5, 0.014), pace.learn(9, 0.018);
  EXPECT_NEAR(pace.row_seconds(), 0.001, 1e-4);
  EXPECT_NEAR(pace.seconds(3), 0.012, 3e-4);
  pace.learn(1, 10);  // something else held it up
  EXPECT_NEAR(pace.seconds(3), 0.012, 1e-3);
  Acceptance all({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}), own(&all);
  for (int i = 0; i < 40; ++i) own.learn(2, false), own.learn(3, true);
  EXPECT_LT(own.chance(2), 0.1);
  EXPECT_GT(own.chance(3), 0.9);
  EXPECT_NEAR(own.chance(4), 0.5, 1e-9);
}

}  // namespace
}  // namespace kvasir::run
