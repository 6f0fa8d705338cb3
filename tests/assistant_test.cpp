// Assistants of Gemma 4: logits of their draft tokens beside those of transformers, and answers with and without them.
#include "model/assistant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "golden_folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "model/forward.hpp"
#include "run/engine.hpp"
#include "run/reuse_fixture.hpp"
#include "weights/mixes.hpp"
#include "weights/requantise.hpp"

namespace kvasir::run {
namespace {

using kvasir::testing::FolderTensor;
using kvasir::testing::PlainJson;
using kvasir::testing::relative_error;
using kvasir::testing::TemporaryPath;
using testing::expect_equal_bits;
using testing::Reply;
using testing::Server;

const std::string kAssistants = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/assistants/";

using Change = std::function<void(PlainJson& config, std::vector<FolderTensor>& tensors)>;

// The folders of a golden model and of its assistant, which `change` was applied to.
struct Pair {
  explicit Pair(const std::string& name, const Change& change_model = {}, const Change& change = {})
      : described(PlainJson::parse(read_text_file(kAssistants + name + ".json"))) {
    write(described["target"], model.path, change_model);
    write(described["assistant"], assistant.path, change);
  }
  static void write(const PlainJson& of, const std::string& path, const Change& change) {
    PlainJson config = of["config"];
    std::vector<FolderTensor> tensors;
    for (const PlainJson& t : of["tensors"]) tensors.push_back(kvasir::testing::golden_tensor(t));
    if (change) change(config, tensors);
    kvasir::testing::write_folder(path, config, tensors);
  }
  DraftOptions drafts() const {
    return {.draft = {"assistant:" + assistant.path}, .draft_tokens = 6, .draft_always = true};
  }

  PlainJson described;
  TemporaryPath model{"assisted-model"}, assistant{"assistant"};
};

std::vector<std::int32_t> text_of(std::int64_t n) {
  const auto ids =
      PlainJson::parse(read_text_file(std::string(KVASIR_SOURCE_DIR) + "/tests/golden/tokens.json"))["tokens"]
          .get<std::vector<std::int32_t>>();
  std::vector<std::int32_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(ids[static_cast<std::size_t>(i) % ids.size()]);
  return out;
}

// kRead: as it was read. kCut: a copy of a text that was longer. kDisk: pages are in a file.
enum class How { kRead, kCut, kDisk };

// Logits of so many draft tokens behind each text, as the drafter computes them. The texts are drafted for together.
std::vector<float> drafted(const std::string& model, const std::string& assistant,
                           const std::vector<std::int64_t>& lengths, int steps, bool exact, const std::string& kv,
                           How how = How::kRead) {
  EngineOptions o;
  o.model = model;
  o.exact = exact;
  o.kv = kv;
  o.threads = 2;
  o.ctx = 1000;
  if (how == How::kDisk) o.kv_memory = "4MiB";
  const auto texts = static_cast<int>(lengths.size());
  Engine engine(o, {.sequences = texts + 1, .pool_tokens = 4000, .logits = 1});
  auto file = weights::open_model_file(assistant);
  model::ModelSpec spec = model::read_assistant(*file, o.ctx);
  const std::vector<kv::ReaderLayer> layers = model::layers_read(spec, engine.model().spec(), assistant);
  const auto loaded = model::Model::load(std::move(spec), std::move(file), engine.team(), {.exact = exact});
  const auto reader = engine.cache().reader(layers, texts);
  model::Forward forward(engine.team(), *loaded, *reader, texts);
  const auto dim = static_cast<std::size_t>(engine.model().spec().dim);
  const auto vocab = static_cast<std::size_t>(engine.model().spec().vocab);
  std::vector<kv::Sequence*> sequences;
  std::vector<std::vector<float>> rows(lengths.size(), std::vector<float>(2 * dim));
  std::vector<std::int32_t> last;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::vector<std::int32_t> ids = text_of(lengths[i] + (how == How::kCut ? 9 : 0));
    const std::int64_t done = lengths[i] - 1;
    kv::Sequence* sequence = engine.cache().create();
    engine.feed(sequence, std::span(ids).first(ids.size() - 1));
    engine.forward().head().state(static_cast<int>((done - 1) % o.chunk), rows[i].data() + dim);
    if (how == How::kCut) {
      kv::Sequence* const copy = engine.cache().fork(*sequence);
      engine.cache().release(sequence);
      engine.cache().truncate(copy, done);
      sequence = copy;
    }
    sequences.push_back(sequence);
    last.push_back(ids[static_cast<std::size_t>(done)]);
  }
  std::vector<float> all(lengths.size() * static_cast<std::size_t>(steps) * vocab);
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> embedded = engine.forward().rows_of(last);
    std::vector<model::Input> inputs;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(embedded.data() + i * dim, dim, rows[i].data());
      inputs.push_back({.sequence = sequences[i], .tokens = {&last[i], 1}, .decode = true, .states = rows[i].data()});
    }
    const std::span<const float> logits = forward.step(inputs);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row = logits.subspan(i * vocab, vocab);
      std::copy(row.begin(), row.end(),
                all.begin() + static_cast<std::ptrdiff_t>(
                                  (i * static_cast<std::size_t>(steps) + static_cast<std::size_t>(step)) * vocab));
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto row =
          std::span(all).subspan((i * static_cast<std::size_t>(steps) + static_cast<std::size_t>(step)) * vocab, vocab);
      last[i] = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
      forward.head().next(static_cast<int>(i), rows[i].data() + dim);
    }
  }
  engine.cache().check_integrity();
  return all;
}

class Assistants : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Assistants, ::testing::Values("plain", "ordered"));

// Texts shorter and longer than the window, with pages and without, behind and within page boundaries.
TEST_P(Assistants, AgreeWithTransformers) {
  const Pair pair(GetParam());
  const auto lengths = pair.described["lengths"].get<std::vector<std::int64_t>>();
  const int steps = pair.described["steps"].get<int>();
  const std::string bytes = read_text_file(kAssistants + GetParam() + ".logits.f32");
  std::vector<float> want(bytes.size() / sizeof(float));
  std::memcpy(want.data(), bytes.data(), bytes.size());
  const std::vector<float> got = drafted(pair.model.path, pair.assistant.path, lengths, steps, true, "f32");
  ASSERT_EQ(got.size(), want.size());
  const std::size_t each = got.size() / lengths.size();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto part = [&](const std::vector<float>& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * each);
      return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(each));
    };
    const double error = relative_error(part(got), part(want));
    std::printf("%s, %d tokens: %.2e\n", GetParam(), static_cast<int>(lengths[i]), error);
    EXPECT_LE(error, 1e-4) << lengths[i];
  }
  // As GGUF files that `kvasir quantize` makes of the folders.
  Team team(2);
  TemporaryPath model("assisted-model.gguf"), assistant("assistant.gguf");
  for (const auto& [from, to] : {std::pair(&pair.model, &model), std::pair(&pair.assistant, &assistant)})
    weights::requantise(from->path, to->path, {.mix = &weights::find_mix("F16"), .again = true}, team,
                        [](const weights::Change&) {});
  EXPECT_EQ(drafted(model.path, assistant.path, lengths, steps, true, "f32"), got);
  // Alone as together.
  EXPECT_EQ(drafted(pair.model.path, pair.assistant.path, {lengths[5]}, steps, true, "f32"),
            std::vector<float>(got.begin() + static_cast<std::ptrdiff_t>(5 * each),
                               got.begin() + static_cast<std::ptrdiff_t>(6 * each)));
}

// Behind a copy that was cut, and with pages in a file: the same bits.
TEST_P(Assistants, ReadTextsThatWereCutAndPagesOnADisk) {
  const Pair pair(GetParam());
  for (const char* const kv : {"f16", "balanced"}) {
    const auto read = [&](const std::vector<std::int64_t>& lengths, How how) {
      return drafted(pair.model.path, pair.assistant.path, lengths, 3, false, kv, how);
    };
    EXPECT_EQ(read({90, 330}, How::kCut), read({90, 330}, How::kRead)) << kv;
    EXPECT_EQ(read({600, 330}, How::kDisk), read({600, 330}, How::kRead)) << kv;
  }
}

// FOLDER/NAME/target.gguf and assistant.gguf, made of the folders that tools/golden_assistants.py keeps by llama.cpp's
// converter with --outtype f32, and the folders themselves. The converter leaves the groups of tokens out.
TEST(AssistantFiles, AsTheConverterWritesThem) {
  const char* const folder = std::getenv("KVASIR_CONVERTED_ASSISTANTS");
  if (!folder) GTEST_SKIP() << "KVASIR_CONVERTED_ASSISTANTS is not set";
  const std::string plain = std::string(folder) + "/plain/";
  const std::vector<std::int64_t> lengths = {2, 90, 201, 330};
  const std::vector<float> want = drafted(plain + "target", plain + "assistant", lengths, 4, true, "f32");
  EXPECT_LE(relative_error(drafted(plain + "target.gguf", plain + "assistant.gguf", lengths, 4, true, "f32"), want),
            1e-5);
}

// With rounded weights and packed pages, first draft tokens.
TEST_P(Assistants, ReadPackedPages) {
  const Pair pair(GetParam());
  const std::vector<std::int64_t> lengths = {600};
  const std::vector<float> want = drafted(pair.model.path, pair.assistant.path, lengths, 1, true, "f32");
  for (const auto& [kv, bar] : {std::pair("f16", 2e-3), std::pair("balanced", 0.15)})
    EXPECT_LE(relative_error(drafted(pair.model.path, pair.assistant.path, lengths, 1, true, kv), want), bar) << kv;
}

// A conversation with reuse, a second life over the same disk, and side by side, several beginnings alike: the answers
// are those without drafts, to the bit, in every preset.
TEST_P(Assistants, AnswersAreThoseWithout) {
  const Pair pair(GetParam());
  for (const char* const kv : {"f16", "balanced", "kivi2"}) {
    TemporaryPath store("assistant-store");
    const std::string disk = "lmdb:" + store.path + "?size=256MiB";
    Server plain(kv, {}, {}, pair.model.path);
    std::vector<std::vector<std::int32_t>> prompts;
    std::vector<Reply> wanted;
    std::vector<std::int32_t> prompt = text_of(170);
    for (int turn = 0; turn < 4; ++turn) {
      prompts.push_back(prompt);
      wanted.push_back(plain.ask(prompt, 40, false));
      for (const std::int32_t id : wanted.back().ids()) prompt.push_back(id);
      for (int i = 0; i < 90; ++i) prompt.push_back(3 + (turn * 31 + i * 7) % 120);
    }
    std::int64_t drafts = 0;
    for (int life = 0; life < 2; ++life) {
      Server server(kv, {disk}, {}, pair.model.path, pair.drafts());
      for (std::size_t turn = 0; turn < 2; ++turn) {
        const std::size_t i = static_cast<std::size_t>(life) * 2 + turn;
        const Reply reply = server.ask(prompts[i], 40, true);
        expect_equal_bits(wanted[i], reply);
        drafts += reply.outcome.draft.drafted;
        if (i > 0) {
          EXPECT_GT(reply.outcome.receipt.reused_tokens, 0) << kv;
        }
        EXPECT_GT(reply.outcome.draft.drafted, 0) << kv;
        server.flush();
      }
    }
    Server server(kv, {}, {}, pair.model.path, pair.drafts());
    std::vector<std::shared_ptr<testing::Waiter>> waiting;
    std::vector<ServiceRequest> requests;
    for (std::size_t i = 0; i < 4; ++i) {
      ServiceRequest r;
      r.request.prompt = text_of(150);
      for (std::size_t k = 0; k < 20 + 70 * i; ++k)
        r.request.prompt.push_back(static_cast<std::int32_t>(3 + (k * 11 + i) % 120));
      r.request.max_tokens = 50;
      r.request.sampling.temperature = i % 2 ? 0.8f : 0.0f;
      r.request.sampling.seed = static_cast<std::int64_t>(i);
      r.request.ignore_eos = true;
      r.reuse = true;
      requests.push_back(r);
    }
    for (const ServiceRequest& r : requests) waiting.push_back(server.submit(r));
    for (std::size_t i = 0; i < requests.size(); ++i)
      expect_equal_bits(plain.submit(requests[i])->wait(), waiting[i]->wait());
    EXPECT_GT(drafts, 100) << kv;
  }
}

void zero(std::vector<FolderTensor>& tensors, const std::vector<std::string>& ends) {
  for (FolderTensor& t : tensors)
    for (const std::string& end : ends)
      if (t.name.ends_with(end)) std::fill(t.bytes.begin(), t.bytes.end(), '\0');
}

// Layers that add nothing, the same embedding and norm in both, and no use of the state: then what follows a token is
// what the model says, and every draft token is right.
TEST(AssistantDrafts, OfTheModelsOwnWordsAreRight) {
  const std::vector<std::string> adds = {"o_proj.weight", "down_proj.weight"};
  const auto scalars = [](std::vector<FolderTensor>& tensors) {
    for (FolderTensor& t : tensors)
      if (t.name.ends_with("layer_scalar")) t.bytes = std::string("\x00\x3c", 2);  // 1
  };
  const Pair pair(
      "ordered",
      [&](PlainJson&, std::vector<FolderTensor>& tensors) {
        zero(tensors, adds);
        scalars(tensors);
      },
      [&](PlainJson& config, std::vector<FolderTensor>& tensors) {
        config["use_ordered_embeddings"] = false;
        zero(tensors, adds);
        scalars(tensors);
        std::erase_if(tensors, [](const FolderTensor& t) { return t.name.starts_with("masked_embedding."); });
        for (FolderTensor& t : tensors) {
          if (t.name != "pre_projection.weight") continue;
          std::fill(t.bytes.begin(), t.bytes.end(), '\0');
          for (std::size_t i = 0; i < 64; ++i) t.bytes.replace((i * 128 + i) * 2, 2, std::string("\x00\x3c", 2));
        }
      });
  Server server("f16", {}, {}, pair.model.path, pair.drafts());
  Server plain("f16", {}, {}, pair.model.path);
  const Reply reply = server.ask(text_of(150), 120, true);
  expect_equal_bits(plain.ask(text_of(150), 120, false), reply);
  EXPECT_EQ(reply.outcome.draft.accepted, reply.outcome.draft.drafted);
  EXPECT_GT(reply.outcome.draft.tokens_per_step(), 4);
}

TEST(AssistantFiles, WrongPairsAreRefusedByFileAndField) {
  const auto refusal = [](const std::string& model, const std::string& draft) -> std::string {
    try {
      Server server("f16", {}, {}, model, {.draft = {draft}});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  const auto expect = [&](const std::string& said, const std::string& wanted) {
    EXPECT_NE(said.find(wanted), std::string::npos) << said;
  };
  const Pair pair("plain");
  expect(refusal(pair.model.path, "assistant"), "expected assistant:FILE");
  expect(refusal(pair.model.path, "assistant:" + pair.model.path), "expected a model that drafts for another one");
  expect(refusal(testing::kBooks, "assistant:" + pair.assistant.path), "drafts for models of 'gemma4'");
  expect(refusal(pair.assistant.path, "lookup"), "--draft assistant:FILE takes this file");
  const auto with = [&](const Change& change) {
    const Pair other("plain", {}, change);
    return refusal(other.model.path, "assistant:" + other.assistant.path);
  };
  expect(with([](PlainJson& c, auto&) { c["backbone_hidden_size"] = 96; }), "embedding_length_out is 96, expected");
  expect(with([](PlainJson& c, auto&) { c["text_config"]["sliding_window"] = 64; }),
         "attention.sliding_window of layer 0 is 64, expected the model's 200");
  expect(with([](PlainJson& c, auto&) { c["text_config"]["num_key_value_heads"] = 4; }),
         "attention.head_count_kv of layer 0 is 4, expected the model's 2");
  expect(
      with([](PlainJson& c, auto&) { c["text_config"]["rope_parameters"]["sliding_attention"]["rope_theta"] = 5.0; }),
      "rope.freq_base_swa");
  expect(with([](PlainJson& c, auto&) { c["text_config"]["num_kv_shared_layers"] = 1; }), "num_kv_shared_layers");
}

}  // namespace
}  // namespace kvasir::run
