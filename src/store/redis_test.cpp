// What only the tier `redis` promises: passwords, clusters with their redirections, servers that stop, stall and
// return. Servers are started by the tests, on the loopback interface.
#include <gtest/gtest.h>

#include <map>

#include "store/redis/slot.hpp"
#include "store/store_fixture.hpp"

namespace kvasir::store {
namespace {

class Redis : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!RedisServer::available())
      GTEST_SKIP()
          << "the tier redis is not tested: redis-server and redis-cli are missing (Debian package redis-server)";
    try {
      open_tier("redis:127.0.0.1:1");
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
  static void put_all(Tier& tier, const TestChain& chain) {
    for (std::size_t i = 0; i < chain.keys.size(); ++i) tier.put(chain.keys[i], chain.records[i]);
    tier.flush(within(5s));
  }
};

TEST(RedisSlot, IsThatOfTheSpecification) {
  EXPECT_EQ(redis::slot_of("foo"), 12182);
  EXPECT_EQ(redis::slot_of("{user1000}.following"), redis::slot_of("user1000"));
  EXPECT_EQ(redis::slot_of("foo{}{bar}"), redis::crc16("foo{}{bar}") % redis::kSlots);
  EXPECT_EQ(redis::slot_of("foo{{bar}}zap"), redis::slot_of("{bar"));
  EXPECT_EQ(redis::slot_of("foo{bar}{zap}"), redis::slot_of("bar"));
}

TEST_F(Redis, AddressesAndOptionsAreChecked) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      open_tier(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "opened";
  };
  EXPECT_EQ(message("redis:"),
            "redis:: HOST:PORT is missing, as in "
            "redis:HOST:PORT[,HOST:PORT...]?password_file=FILE&prefix=kvasir&ttl=7d");
  EXPECT_EQ(message("redis:a:1,b"), "redis:a:1,b: expected HOST:PORT, found 'b'");
  EXPECT_EQ(message("redis:a:70000"), "redis:a:70000: expected HOST:PORT, found 'a:70000'");
  EXPECT_EQ(message("redis:a:1?prefix={x}"),
            "redis:a:1 prefix: expected letters, digits, '_', '.', ':', '-', found '{x}'");
  EXPECT_EQ(message("redis:a:1?user=x"), "redis:a:1 user: a user needs a password");
  EXPECT_EQ(message("redis:a:1?password_env=KVASIR_NO_SUCH"),
            "redis:a:1 password_env: the environment has no KVASIR_NO_SUCH");
}

TEST_F(Redis, NeedsTheRightPassword) {
  RedisServer server({"--requirepass", "se&cret"});
  const std::string base = "redis:" + server.address() + "?timeout=2s&backoff=1ms";
  const TestChain a(1, 3, 5000);
  for (const std::string& wrong : {base, base + "&password=other"}) {
    auto tier = open_tier(wrong);
    put_all(*tier, a);
    for (const Found& f : tier->get(a.keys).take()) EXPECT_EQ(f.outcome, Outcome::kFailed);
    EXPECT_EQ(tier->stats().dropped, 3u);
    EXPECT_EQ(tier->stats().last_error.find("secret"), std::string::npos);
    EXPECT_NE(tier->stats().last_error.find(wrong == base ? "NOAUTH" : "WRONGPASS"), std::string::npos)
        << tier->stats().last_error;
  }
  auto tier = open_tier(base + "&password=se%26cret");
  EXPECT_EQ(tier->name().find("cret"), std::string::npos);
  put_all(*tier, a);
  EXPECT_EQ(count_found(tier->get(a.keys).take()), 3);
}

TEST_F(Redis, RecordsHaveNamesAndEnds) {
  RedisServer server;
  auto tier = open_tier("redis:" + server.address() + "?timeout=2s&prefix=mine&ttl=100s");
  const TestChain a(1, 1, 5000);
  put_all(*tier, a);
  const std::string name = "mine:" + to_hex(a.keys[0]);
  EXPECT_EQ(server.cli("STRLEN " + name), std::to_string(a.records[0].bytes.size()));
  const int ttl = std::atoi(server.cli("TTL " + name).c_str());
  EXPECT_TRUE(ttl > 90 && ttl <= 100) << ttl;
  server.cli("SET other:x 1");
  server.cli("SET mine:not-a-key 1");
  int listed = 0;
  EXPECT_TRUE(tier->list([&](const Listed&) { return ++listed > 0; }).ok());
  EXPECT_EQ(listed, 1);
  EXPECT_TRUE(tier->clear().ok());
  EXPECT_EQ(server.cli("GET other:x"), "1") << "clear erases its own only";
}

TEST_F(Redis, AFullServerRefuses) {
  RedisServer server({"--maxmemory", "3mb", "--maxmemory-policy", "noeviction"});
  auto tier = open_tier("redis:" + server.address() + "?timeout=2s");
  for (std::uint64_t seed = 0; seed < 40; ++seed) put_all(*tier, TestChain(seed, 1, 200000));
  const Stats s = tier->stats();
  EXPECT_GT(s.refused, 10u);
  EXPECT_GT(s.inserts, 1u);
  EXPECT_EQ(s.dropped, 0u);
  EXPECT_EQ(s.usage.budget, 3u << 20);
  EXPECT_EQ(count_found(tier->get(TestChain(0, 1, 200000).keys).take()), 1);
}

// A server that stalls costs one deadline, then nothing until it is tried again; then it is used again.
TEST_F(Redis, AStalledServerHoldsNobodyUp) {
  RedisServer server;
  auto tier = open_tier("redis:" + server.address() + "?timeout=100ms&backoff=300ms");
  const TestChain a(1, 3, 50000);
  put_all(*tier, a);
  ASSERT_EQ(count_found(tier->get(a.keys).take()), 3);
  server.signal(SIGSTOP);
  for (int i = 0; i < 10; ++i) {
    const auto begin = Clock::now();
    EXPECT_EQ(count_found(tier->get(a.keys, {.deadline = within(150ms)}).take()), 0);
    EXPECT_LT(Clock::now() - begin, 1s);
  }
  const auto begin = Clock::now();
  put_all(*tier, TestChain(2, 3, 50000));
  EXPECT_LT(Clock::now() - begin, 6s);
  server.signal(SIGCONT);
  int found = 0;
  for (int i = 0; i < 100 && found < 3; ++i) {
    std::this_thread::sleep_for(50ms);
    found = count_found(tier->get(a.keys).take());
  }
  EXPECT_EQ(found, 3);
  EXPECT_GT(tier->stats().errors, 0u);
}

TEST_F(Redis, AKilledServerIsMissedAndFoundAgain) {
  RedisServer server;
  auto tier = open_tier("redis:" + server.address() + "?timeout=5s&backoff=10ms");
  const TestChain a(1, 3, 50000);
  put_all(*tier, a);
  ASSERT_EQ(count_found(tier->get(a.keys).take()), 3);
  server.kill();
  for (int i = 0; i < 20; ++i) {
    const auto begin = Clock::now();
    for (const Found& f : tier->get(a.keys).take()) EXPECT_EQ(f.outcome, Outcome::kFailed);
    EXPECT_LT(Clock::now() - begin, 1s);
    put_all(*tier, a);
  }
  EXPECT_GT(tier->stats().dropped, 0u);
  EXPECT_NE(tier->stats().last_error, "");
  server.start();
  int found = 0;
  for (int i = 0; i < 200 && found < 3; ++i) {
    std::this_thread::sleep_for(50ms);
    put_all(*tier, a);
    found = count_found(tier->get(a.keys).take());
  }
  EXPECT_EQ(found, 3);
}

// The connection that a server closed while nobody used it is no failure.
TEST_F(Redis, AnIdleConnectionThatWasClosedIsMadeAgain) {
  RedisServer server;
  auto tier = open_tier("redis:" + server.address() + "?timeout=1s");
  const TestChain a(1, 3, 5000);
  put_all(*tier, a);
  server.cli("CLIENT KILL TYPE normal");
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(count_found(tier->get(a.keys).take()), 3);
  EXPECT_EQ(tier->stats().errors, 0u) << tier->stats().last_error;
}

TEST_F(Redis, ReadersAndWritersWhileTheServerComesAndGoes) {
  RedisServer server;
  auto tier = open_tier("redis:" + server.address() + "?timeout=200ms&backoff=5ms");
  std::vector<TestChain> chains;
  for (std::uint64_t seed = 0; seed < 10; ++seed) chains.emplace_back(seed, 4, 60000);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, found{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t state = t; !stop;) {
        const TestChain& c = chains[splitmix64(state) % chains.size()];
        for (std::size_t i = 0; i < 4; ++i) tier->put(c.keys[i], c.records[i]);
        const auto answers = tier->get(c.keys).take();
        for (std::size_t i = 0; i < 4; ++i) {
          if (!answers[i]) continue;
          ++found;
          if (!same_bytes(answers[i].bytes, c.records[i])) ++wrong;
        }
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(150ms);
    server.signal(SIGSTOP);
    std::this_thread::sleep_for(100ms);
    server.signal(SIGCONT);
    std::this_thread::sleep_for(150ms);
    server.kill();
    server.start();
  }
  std::this_thread::sleep_for(200ms);
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(found, 0);
  EXPECT_EQ(tier->stats().damaged, 0u);
}

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Seconds since the last use, by key; -1: unknown.
std::map<Key, std::int64_t> ages(Backend& backend) {
  std::map<Key, std::int64_t> all;
  const Status s = backend.list_ages(
      [&](const Listed& l) {
        all[l.key] = l.used == 0 ? -1 : seconds_now() - l.used;
        return true;
      },
      within(10s));
  EXPECT_TRUE(s.ok()) << s.why;
  return all;
}

TEST_F(Redis, TellsAgesAndAskingIsNoUse) {
  RedisServer server;
  const std::string spec = "redis:" + server.address() + "?timeout=2s";
  auto tier = open_tier(spec);
  const auto backend = open_backend(spec);
  const TestChain a(1, 4, 5000);
  put_all(*tier, a);
  server.cli("SET kvasir:not-a-key 1");
  for (const std::size_t old : {0u, 2u}) server.age("kvasir:" + to_hex(a.keys[old]), 7200s);
  for (int again = 0; again < 2; ++again) {
    const auto all = ages(*backend);
    ASSERT_EQ(all.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t expected = i % 2 == 0 ? 7200 : 0, found = all.at(a.keys[i]);
      EXPECT_TRUE(found >= expected && found < expected + 60) << found;
    }
  }
  EXPECT_EQ(count_found(tier->contains(a.keys).take()), 4);
  EXPECT_GE(ages(*backend).at(a.keys[0]), 7200) << "to know that it is there is no use either";
  EXPECT_EQ(count_found(tier->get(std::span(a.keys).first(1)).take()), 1);
  EXPECT_LT(ages(*backend).at(a.keys[0]), 60) << "a hit is one";
  EXPECT_GE(ages(*backend).at(a.keys[2]), 7200);

  server.cli("CONFIG SET maxmemory-policy allkeys-lfu");
  for (const auto& [key, age] : ages(*backend)) EXPECT_EQ(age, -1) << "it counts uses, and keeps no times";
  EXPECT_EQ(ages(*backend).size(), 4u);
  server.kill();
  EXPECT_FALSE(backend->list_ages([](const Listed&) { return true; }, within(1s)).ok());
}

// --- cluster --------------------------------------------------------------------------------------------------------

class Cluster : public Redis {
 protected:
  void SetUp() override {
    Redis::SetUp();
    if (IsSkipped()) return;
    for (int i = 0; i < 3; ++i)
      nodes_.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
          "--cluster-enabled", "yes", "--cluster-port", std::to_string(free_port()), "--cluster-node-timeout", "2000",
          "--cluster-config-file", "nodes.conf", "--cluster-require-full-coverage", "no", "--requirepass", "pw"}));
    for (std::size_t i = 0; i < 3; ++i) {
      cli(i, "CLUSTER ADDSLOTSRANGE " + std::to_string(kBounds[i]) + " " + std::to_string(kBounds[i + 1] - 1));
      cli(i, "CLUSTER SET-CONFIG-EPOCH " + std::to_string(i + 1));
    }
    for (std::size_t i = 1; i < 3; ++i) {
      const std::string info = cli(i, "CLUSTER NODES");
      const std::size_t at = info.find('@');
      const std::string bus = info.substr(at + 1, info.find_first_of(", ", at) - at - 1);
      cli(0, "CLUSTER MEET 127.0.0.1 " + std::to_string(nodes_[i]->port()) + " " + bus);
    }
    for (std::size_t i = 0; i < 3; ++i) {
      int tries = 0;
      while (cli(i, "CLUSTER INFO").find("cluster_state:ok") == std::string::npos ||
             cli(i, "CLUSTER INFO").find("cluster_known_nodes:3") == std::string::npos ||
             cli(i, "CLUSTER INFO").find("cluster_slots_assigned:16384") == std::string::npos) {
        ASSERT_LT(++tries, 300) << cli(i, "CLUSTER INFO");
        std::this_thread::sleep_for(50ms);
      }
    }
  }
  std::string cli(std::size_t node, const std::string& words) const {
    return nodes_[node]->cli("-a pw --no-auth-warning " + words);
  }
  std::string id(std::size_t node) const { return cli(node, "CLUSTER MYID"); }
  std::size_t node_of(int slot) const { return slot < kBounds[1] ? 0 : slot < kBounds[2] ? 1 : 2; }
  static std::string name(const Key& key) { return "kvasir:" + to_hex(key); }
  std::string specification(std::size_t seed) const {
    return "redis:" + nodes_[seed]->address() + "?password=pw&timeout=2s&backoff=10ms";
  }

  static constexpr int kBounds[] = {0, 5000, 11000, 16384};
  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

TEST_F(Cluster, EveryKeyGoesToItsServer) {
  auto tier = open_tier(specification(1));
  std::vector<Key> keys;
  std::size_t expected[3] = {};
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const TestChain c(seed, 4, 3000);
    put_all(*tier, c);
    for (const Key& key : c.keys) {
      keys.push_back(key);
      ++expected[node_of(redis::slot_of(name(key)))];
    }
  }
  EXPECT_EQ(count_found(tier->get(keys).take()), 120);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(cli(i, "DBSIZE"), std::to_string(expected[i]));
  EXPECT_EQ(tier->stats().usage.records, 120u);
  EXPECT_EQ(tier->stats().errors, 0u) << tier->stats().last_error;
  int listed = 0;
  EXPECT_TRUE(tier->list([&](const Listed& l) { return l.bytes > 3000 && ++listed > 0; }).ok());
  EXPECT_EQ(listed, 120);
  EXPECT_TRUE(tier->erase(std::span(keys).first(50)).ok());
  EXPECT_EQ(count_found(tier->contains(keys).take()), 70);
  EXPECT_TRUE(tier->clear().ok());
  EXPECT_EQ(count_found(tier->contains(keys).take()), 0);
}

TEST_F(Cluster, TellsAgesOfAllServers) {
  auto tier = open_tier(specification(0));
  const auto backend = open_backend(specification(2));
  std::map<Key, std::int64_t> expected;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const TestChain c(seed, 3, 3000);
    put_all(*tier, c);
    for (const Key& key : c.keys) expected[key] = 0;
    const std::string old = name(c.keys[1]);
    nodes_[node_of(redis::slot_of(old))]->age(old, 7200s, "-a pw --no-auth-warning");
    expected[c.keys[1]] = 7200;
  }
  const auto all = ages(*backend);
  EXPECT_EQ(all.size(), 30u);
  for (const auto& [key, age] : all) EXPECT_TRUE(age >= expected.at(key) && age < expected.at(key) + 60) << age;
}

// A slot on its way to another server (ASK), then there (MOVED), under a client that does not know.
TEST_F(Cluster, FollowsASlotThatMoves) {
  auto tier = open_tier(specification(0));
  const TestChain stays(1, 1, 3000), moves(2, 1, 3000);
  put_all(*tier, stays);
  put_all(*tier, moves);
  const int slot = redis::slot_of(name(moves.keys[0]));
  const std::size_t from = node_of(slot), to = (from + 1) % 3;
  const std::string number = std::to_string(slot);
  EXPECT_EQ(cli(to, "CLUSTER SETSLOT " + number + " IMPORTING " + id(from)), "OK");
  EXPECT_EQ(cli(from, "CLUSTER SETSLOT " + number + " MIGRATING " + id(to)), "OK");
  EXPECT_EQ(count_found(tier->get(moves.keys).take()), 1) << "still where it was";
  EXPECT_EQ(cli(from, "MIGRATE 127.0.0.1 " + std::to_string(nodes_[to]->port()) + " " + name(moves.keys[0]) +
                          " 0 1000 AUTH pw"),
            "OK");
  EXPECT_EQ(count_found(tier->get(moves.keys).take()), 1) << "ASK";
  put_all(*tier, moves);
  EXPECT_NE(cli(from, "GET " + name(moves.keys[0])).find("ASK"), std::string::npos);
  for (std::size_t i = 0; i < 3; ++i) cli(i, "CLUSTER SETSLOT " + number + " NODE " + id(to));
  EXPECT_NE(cli(from, "GET " + name(moves.keys[0])).find("MOVED"), std::string::npos);
  const std::vector<Key> both{stays.keys[0], moves.keys[0]};
  EXPECT_EQ(count_found(tier->get(both).take()), 2) << "MOVED";
  EXPECT_EQ(count_found(tier->get(both).take()), 2);
  EXPECT_EQ(tier->stats().errors, 0u) << tier->stats().last_error;
}

// A server of three is gone: its keys are misses, the others' are not, and nobody waits long.
TEST_F(Cluster, LosesOnlyTheKeysOfALostServer) {
  auto tier = open_tier("redis:127.0.0.1:1," + nodes_[0]->address() + "," + nodes_[1]->address() +
                        "?password=pw&timeout=5s&backoff=50ms");
  std::vector<Key> keys;
  int mine = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TestChain c(seed, 3, 3000);
    put_all(*tier, c);
    for (const Key& key : c.keys) {
      keys.push_back(key);
      mine += node_of(redis::slot_of(name(key))) != 2 ? 1 : 0;
    }
  }
  ASSERT_EQ(count_found(tier->get(keys).take()), 60);
  nodes_[2]->kill();
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    EXPECT_EQ(count_found(tier->get(keys).take()), mine);
    EXPECT_LT(Clock::now() - begin, 2s);
  }
  nodes_[1]->signal(SIGSTOP);
  const auto begin = Clock::now();
  tier->get(keys, {.deadline = within(300ms)}).take();
  EXPECT_LT(Clock::now() - begin, 2s);
  nodes_[1]->signal(SIGCONT);
}

}  // namespace
}  // namespace kvasir::store
