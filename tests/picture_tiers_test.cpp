// Rows of pictures kept in Redis, in one server and in a cluster: what one machine encoded, another one loads, with the
// bits that it would have computed; and a store that ends costs an encoding, not an answer.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/base64.hpp"
#include "base/file.hpp"
#include "base/patience_fixture.hpp"
#include "serving_fixture.hpp"
#include "store/open.hpp"
#include "store/redis_fixture.hpp"
#include "tiny_model_fixture.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir {
namespace {

using testing::PictureServer;

constexpr const char* kPlainTemplate =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% "
    "endif %}";

class PictureTiers : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!vision::reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
    if (!store::RedisServer::available())
      GTEST_SKIP() << "SKIPPED: redis-server and redis-cli are missing (Debian package redis-server)";
    try {
      store::open_tier("redis:127.0.0.1:1");
    } catch (const Error& e) {
      GTEST_SKIP() << "SKIPPED: " << e.what();
    }
    testing::TinyModel model;
    model.strings["tokenizer.chat_template"] = kPlainTemplate;
    model.write(model_.path);
  }
  // Another machine: nothing is its own but the memory for pictures that it read.
  std::unique_ptr<PictureServer> machine(const std::string& tier) const {
    cli::ServingOptions o;
    o.engine.model = model_.path;
    o.engine.ctx = 2048;
    o.engine.threads = 1;
    o.serve.name = "tiny";
    o.pictures.mmproj = vision::golden(GetParam());
    if (!tier.empty()) o.reuse.tiers = {tier};
    o.server.port = 0;
    return std::make_unique<PictureServer>(o);
  }
  // Where the picture stands behind another text no page of it fits: its rows alone are found.
  static Json behind(const std::string& text, const char* name) {
    const std::string file = read_text_file(vision::golden(std::string("pictures/") + name));
    const Json image{{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64," + to_base64(file)}}}};
    Json parts = Json::array();
    parts.push_back({{"type", "text"}, {"text", text}});
    parts.push_back(image);
    Json messages = Json::array();
    messages.push_back({{"role", "user"}, {"content", std::move(parts)}});
    return messages;
  }
  static Json said(PictureServer& server, const Json& messages) {
    return server.chat(messages)["choices"][0]["logprobs"];
  }
  void expect_rows_travel(const std::string& tier) const {
    std::int64_t rows = 0;
    {
      const auto first = machine(tier);
      for (const char* name : {"64x64.png", "97x53.png"}) said(*first, behind("Here: ", name));
      EXPECT_EQ(first->stats().encoded, 2);
      rows = first->stats().rows;
    }
    const auto second = machine(tier), alone = machine("");
    for (const char* name : {"97x53.png", "64x64.png"})
      EXPECT_EQ(said(*second, behind("Somewhere else, there is ", name)),
                said(*alone, behind("Somewhere else, there is ", name)));
    EXPECT_EQ(second->stats().encoded, 0);
    EXPECT_EQ(second->stats().loaded_rows, rows);
    EXPECT_EQ(alone->stats().encoded, 2);
    // A third picture is neither of them.
    EXPECT_EQ(said(*second, behind("And ", "307x19.png")), said(*alone, behind("And ", "307x19.png")));
    EXPECT_EQ(second->stats().encoded, 1);
  }

  const testing::TemporaryPath model_{"tiers.gguf"};
};
INSTANTIATE_TEST_SUITE_P(Encoders, PictureTiers, ::testing::Values("gemma3.gguf", "idefics3.gguf"));

TEST_P(PictureTiers, RowsAreLoadedByAnotherMachine) {
  const store::RedisServer redis;
  expect_rows_travel("redis:" + redis.address());
}

TEST_P(PictureTiers, RowsAreFoundInACluster) {
  std::vector<std::unique_ptr<store::RedisServer>> nodes;
  std::vector<int> buses;
  constexpr int kBounds[] = {0, 5461, 10923, 16384};
  for (int i = 0; i < 3; ++i) {
    buses.push_back(store::free_port());
    nodes.push_back(std::make_unique<store::RedisServer>(
        std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-port", std::to_string(buses.back()),
                                 "--cluster-node-timeout", "2000", "--cluster-config-file", "nodes.conf"}));
    nodes.back()->cli("CLUSTER ADDSLOTSRANGE " + std::to_string(kBounds[i]) + " " + std::to_string(kBounds[i + 1] - 1));
    nodes.back()->cli("CLUSTER SET-CONFIG-EPOCH " + std::to_string(i + 1));
  }
  for (std::size_t i = 1; i < nodes.size(); ++i)
    nodes[0]->cli("CLUSTER MEET 127.0.0.1 " + std::to_string(nodes[i]->port()) + " " + std::to_string(buses[i]));
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const auto joined = [](const auto& node) {
    const std::string info = node->cli("CLUSTER INFO");
    return info.find("cluster_state:ok") != info.npos && info.find("cluster_known_nodes:3") != info.npos;
  };
  while (!std::all_of(nodes.begin(), nodes.end(), joined)) {
    ASSERT_LT(std::chrono::steady_clock::now(), until) << nodes[0]->cli("CLUSTER INFO");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string tier = "redis:";
  for (const auto& node : nodes) tier += (tier.back() == ':' ? "" : ",") + node->address();
  expect_rows_travel(tier);
  int holding = 0;
  for (const auto& node : nodes) holding += node->cli("DBSIZE") != "0";
  EXPECT_GE(holding, 2);  // records are spread over the servers
}

TEST_P(PictureTiers, AStoreThatEndsCostsAnEncoding) {
  store::RedisServer redis;
  const std::string tier = "redis:" + redis.address();
  const auto server = machine(tier), alone = machine("");
  said(*server, behind("Here: ", "64x64.png"));
  redis.kill();
  const Json other = behind("There: ", "97x53.png");
  EXPECT_EQ(said(*server, other), said(*alone, other));
  EXPECT_EQ(server->stats().encoded, 2);
  EXPECT_EQ(server->stats().loaded_rows, 0);
}

}  // namespace
}  // namespace kvasir
