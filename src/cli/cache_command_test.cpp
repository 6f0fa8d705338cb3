// kvasir cache, as a user calls it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.hpp"
#include "cli/cache.hpp"
#include "cli/front.hpp"
#include "store/archive.hpp"
#include "store/store_fixture.hpp"

namespace kvasir::cli {
namespace cache_command_test {

namespace fs = std::filesystem;
using store::TestChain;
using Json = nlohmann::json;

struct Result {
  int status;
  std::string out, err;
  Json json() const { return Json::parse(out); }
  std::vector<Json> rows() const {
    std::vector<Json> all;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }
};

Result run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "cache");
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = run_command_line(arguments);
  std::fflush(stdout);
  return {status, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

bool has_lmdb() {
  const store::TempFolder folder;
  try {
    store::open_backend("lmdb:" + folder.path() + "?size=1MiB");
    return true;
  } catch (const Error& e) {
    return e.code() != Code::kUnsupported;
  }
}

class CacheCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_lmdb()) GTEST_SKIP() << "built without LMDB";
  }
  // A cache with two chains, one of them of another fingerprint.
  void fill() {
    const auto tier = store::open_tier("lmdb:" + cache_ + "?size=16MiB");
    for (std::size_t i = 0; i < 3; ++i) tier->put(chain_.keys[i], chain_.records[i]);
    const std::int32_t token[] = {1};
    tier->put(other_key_, store::make_record({.fingerprint = other_, .parent = store::root_key(other_)}, token, {}));
    ASSERT_TRUE(tier->flush().ok());
  }
  // Changes one byte of a record in the file, as a broken disk would.
  void damage(const store::Key& key) {
    const auto backend = store::open_backend("lmdb:" + cache_ + "?mode=inspect");
    std::vector<store::Answer> answer(1);
    ASSERT_TRUE(backend->get(std::span(&key, 1), store::within(std::chrono::seconds(5)), answer).ok());
    store::SharedBytes copy = store::copy_bytes(answer[0].bytes.bytes);
    answer.clear();
    const store::RecordHead head = store::parse_record(copy.bytes).record.head;
    const_cast<std::byte*>(copy.bytes.data())[copy.bytes.size() - 1] ^= std::byte{1};
    const_cast<std::byte*>(copy.bytes.data())[90] ^= std::byte{1};  // another envelope, or it would be kept
    const store::Offer offer{key, copy, head};
    store::PutOutcome outcome{};
    ASSERT_TRUE(
        backend->put(std::span(&offer, 1), store::within(std::chrono::seconds(5)), std::span(&outcome, 1)).ok());
    ASSERT_EQ(outcome, store::PutOutcome::kStored);
  }
  std::vector<std::string> with(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--cache-dir", cache_});
    return arguments;
  }

  store::TempFolder folder_;
  std::string cache_ = folder_.path() + "/cache", file_ = folder_.path() + "/a.kvex";
  const TestChain chain_{1, 3, 20000};
  const store::Fingerprint other_ = store::fingerprint_of("another model");
  const store::Key other_key_ = store::chunk_key(store::root_key(other_), std::vector<std::int32_t>{1});
};

TEST_F(CacheCommand, ListsRecords) {
  fill();
  const std::vector<Json> rows = run(with({"ls", "--json"})).rows();
  ASSERT_EQ(rows.size(), 4u);
  for (const Json& r : rows) {
    const bool other = r["key"] == store::to_hex(other_key_);
    EXPECT_EQ(r["fingerprint"], store::to_hex(other ? other_ : store::kPrint));
    EXPECT_EQ(r["open"], other) << "a chain without a tenant";
    EXPECT_EQ(r["kind"], "chunk");
    EXPECT_EQ(r["tokens"], other ? 1 : 2);
    EXPECT_EQ(r["uses"], 1);
    EXPECT_TRUE(r["fault"].is_null());
    EXPECT_GT(r["written"], 1600000000);
  }
  const Result table = run(with({"ls"}));
  EXPECT_EQ(table.status, 0) << table.err;
  EXPECT_NE(table.out.find(store::to_hex(chain_.keys[2]).substr(0, 12)), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("4 records, "), std::string::npos);
  EXPECT_EQ(run(with({"ls", "--json", "--fingerprint", store::to_hex(other_).substr(0, 6)})).rows().size(), 1u);
  EXPECT_EQ(run(with({"ls", "--json", "--older-than", "1h"})).out, "");
}

TEST_F(CacheCommand, SumsUp) {
  fill();
  const Json s = run(with({"stats", "--json"})).json();
  EXPECT_EQ(s["records"], 4);
  EXPECT_EQ(s["budget"], 16 << 20);
  EXPECT_GT(s["bytes"], 60000);
  EXPECT_EQ(s["kinds"]["chunk"]["records"], 4);
  EXPECT_EQ(s["fingerprints"][store::to_hex(store::kPrint)]["records"], 3);
  EXPECT_EQ(s["origins"], 2);
  EXPECT_NE(run(with({"stats"})).out.find("16.0 MiB"), std::string::npos) << run(with({"stats"})).out;
}

TEST_F(CacheCommand, FindsAndErasesDamage) {
  fill();
  EXPECT_EQ(run(with({"verify"})).status, 0);
  damage(chain_.keys[1]);
  Result r = run(with({"verify"}));
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.out.find(store::to_hex(chain_.keys[1]) + " damaged"), std::string::npos) << r.out;
  r = run(with({"verify", "--json", "--repair"}));
  EXPECT_EQ(r.status, 1);
  ASSERT_EQ(r.json()["faults"].size(), 1u);
  EXPECT_EQ(r.json()["faults"][0]["key"], store::to_hex(chain_.keys[1]));
  EXPECT_EQ(run(with({"verify"})).status, 0);
  EXPECT_EQ(run(with({"ls", "--json"})).rows().size(), 3u);
}

TEST_F(CacheCommand, ClearsWhatIsAskedFor) {
  fill();
  Result r = run(with({"clear", "--fingerprint", store::to_hex(other_)}));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.out.find("removed 1 record, "), std::string::npos) << r.out;
  EXPECT_EQ(run(with({"clear", "--older-than", "1min", "--json"})).json()["removed"], 0);
  EXPECT_EQ(run(with({"ls", "--json"})).rows().size(), 3u);
  EXPECT_EQ(run(with({"clear", "--json"})).json()["removed"], 3);
  EXPECT_EQ(run(with({"ls", "--json"})).out, "");
}

TEST_F(CacheCommand, CarriesRecordsOver) {
  fill();
  Result r = run(with({"export", file_, "--json"}));
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.json()["records"], 4);
  EXPECT_EQ(r.json()["bytes"], fs::file_size(file_));
  const std::string to = folder_.path() + "/new/cache";
  r = run({"import", file_, "--cache-dir", to, "--cache-size", "8MiB", "--json"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.json()["stored"], 4);
  EXPECT_EQ(run({"import", file_, "--cache-dir", to, "--json"}).json()["kept"], 4);
  EXPECT_EQ(run({"stats", "--cache-dir", to, "--json"}).json()["budget"], 8 << 20);
  EXPECT_EQ(run({"verify", "--cache-dir", to}).status, 0);
  const auto tier = store::open_tier("lmdb:" + to + "?size=8MiB");
  const auto found = tier->get(chain_.keys).take();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(store::same_bytes(found[i].bytes, chain_.records[i]));
}

TEST_F(CacheCommand, LeavesDamagedRecordsOutOfArchives) {
  fill();
  damage(chain_.keys[2]);
  const Json r = run(with({"export", file_, "--json"})).json();
  EXPECT_EQ(r["records"], 3);
  EXPECT_EQ(r["damaged"], 1);
}

TEST_F(CacheCommand, ImportsAllOrNothing) {
  fill();
  ASSERT_EQ(run(with({"export", file_})).status, 0);
  fs::resize_file(file_, fs::file_size(file_) - 16);
  const std::string to = folder_.path() + "/new";
  const Result r = run({"import", file_, "--cache-dir", to});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find(file_ + ": is cut off"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(to)) << "it was opened before the file was read";
  std::ofstream(file_) << "something else";
  EXPECT_EQ(run({"import", file_, "--cache-dir", to}).status, 2);
  EXPECT_EQ(run({"import", folder_.path() + "/none", "--cache-dir", to}).status, 1);
}

TEST_F(CacheCommand, RefusesWhatIsNoCache) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& words) {
    const Result r = run(std::move(arguments));
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  };
  for (const char* what : {"ls", "stats", "verify", "clear"}) {
    refused({what, "--cache-dir", cache_}, cache_ + ": does not exist; expected the folder that a server has");
    refused({what}, "--cache-dir FOLDER");
  }
  EXPECT_FALSE(fs::exists(cache_));
  refused({"ls", "--cache-dir", folder_.path()}, "holds no cache");
  std::ofstream(file_) << "x";
  refused({"ls", "--cache-dir", file_}, "is no folder");
  refused({"import", file_, "--cache-dir", folder_.path()}, "is no archive");
  refused({"ls", "--tier", "ram:"}, "/v1/stats");
  refused({"ls", "--tier", "nonsense:"}, "unknown tier");
  refused({"ls", "--tier", "lmdb:" + cache_}, "does not exist");
  refused({"ls", "--cache-dir", cache_, "--fingerprint", "xyz"}, "--fingerprint");
  refused({"clear", "--cache-dir", cache_, "--older-than", "7"}, "--older-than");
  refused({}, "subcommand");
  fill();
  store::TempFolder full;
  std::ofstream(full.path() + "/letter.txt") << "x";
  ASSERT_EQ(run(with({"export", file_})).status, 0);
  refused({"import", file_, "--cache-dir", full.path()}, "is not empty and holds no cache");
  if (::geteuid() != 0) {
    fs::permissions(cache_, fs::perms::none);
    refused(with({"ls"}), cache_);
    fs::permissions(cache_, fs::perms::owner_all);
  }
}

TEST_F(CacheCommand, KnowsRedisToo) {
  if (!store::RedisServer::available()) GTEST_SKIP() << "no redis-server here";
  const store::RedisServer server;
  const std::string spec = "redis:" + server.address();
  try {
    store::open_backend(spec);
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  fill();
  ASSERT_EQ(run(with({"export", file_})).status, 0);
  ASSERT_EQ(run({"import", file_, "--tier", spec}).status, 0);
  EXPECT_EQ(run({"ls", "--tier", spec, "--json"}).rows().size(), 4u);
  EXPECT_EQ(run({"verify", "--tier", spec}).status, 0);
  std::vector<std::string> keys;
  for (const Json& row : run({"ls", "--tier", spec, "--json"}).rows()) keys.push_back(row["key"]);
  const auto clear = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"clear", "--tier", spec, "--json", "--older-than", "1h"});
    return run(std::move(more)).json();
  };
  EXPECT_EQ(clear({})["removed"], 0);
  server.age("kvasir:" + keys[3], std::chrono::hours(2));
  server.age("kvasir:" + keys[2], std::chrono::minutes(50));
  EXPECT_EQ(clear({"--fingerprint", "0000"})["removed"], 0);
  server.age("kvasir:" + keys[3], std::chrono::hours(2));  // it was looked at
  const Json old = clear({});
  EXPECT_EQ(old["removed"], 1);
  EXPECT_GT(old["bytes"], 0);
  EXPECT_EQ(old["undated"], 0);
  server.age("kvasir:" + keys[1], std::chrono::hours(2));
  EXPECT_GE(std::stoi(server.cli("OBJECT IDLETIME kvasir:" + keys[2])), 3000) << "what stays was not looked at";
  const Result listed = run({"ls", "--tier", spec, "--older-than", "1h"});
  EXPECT_EQ(listed.status, 2);
  EXPECT_NE(listed.err.find("--older-than: cannot be used here: looking at a record"), std::string::npos) << listed.err;
  EXPECT_EQ(clear({})["removed"], 1);
  server.cli("CONFIG SET maxmemory-policy allkeys-lfu");
  const Json left = clear({});
  EXPECT_EQ(left["removed"], 0);
  EXPECT_EQ(left["undated"], 2);
  EXPECT_EQ(run({"clear", "--tier", spec, "--json"}).json()["removed"], 2);
}

class Explain : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  Result explain(const std::string& a, const std::string& b, std::vector<std::string> more = {}) {
    more.insert(more.begin(),
                {"explain", "--a", a, "--b", b, "-m", std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf"});
    return run(std::move(more));
  }
  store::TempFolder folder_;
};

TEST_F(Explain, Texts) {
  std::string story;
  for (int i = 0; i < 60; ++i) story += "It was a dark and stormy night, and the wind went on. ";
  const std::string a = write("a.txt", story + "Then the lamp went out."),
                    b = write("b.txt", story + "Then a dog came.");
  const Json r = explain(a, b, {"--json"}).json();
  EXPECT_FALSE(r["same"]);
  EXPECT_EQ(r["shared_bytes"], story.size() + 5);
  EXPECT_EQ(r["a"]["byte"], story.size() + 5);
  EXPECT_EQ(r["shared_chunks"], r["shared_tokens"].get<int>() / 128);
  EXPECT_GT(r["shared_chunks"], 2);
  EXPECT_FALSE(r["a"]["after"].empty());
  EXPECT_NE(r["a"]["after"], r["b"]["after"]);
  const Result text = explain(a, b);
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("they part at token"), std::string::npos) << text.out;
  EXPECT_NE(explain(a, a).out.find("the same prompt"), std::string::npos);
  const Json beginning = explain(a, write("c.txt", story), {"--json"}).json();
  EXPECT_TRUE(beginning["b"]["ends"].get<bool>() || beginning["b"]["tokens"] > beginning["shared_tokens"]);
}

TEST_F(Explain, Chats) {
  const std::string chatml = write("t.jinja",
                                   "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                                   "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const std::string a = write("a.json", R"({"messages":[{"role":"system","content":"Be kind."},
    {"role":"user","content":"What is the capital of Norway?"}]})");
  const std::string b = write("b.json", R"([{"role":"system","content":"Be kind."},
    {"role":"user","content":"What is the capital of Sweden?"}])");
  const Json r = explain(a, b, {"--chat-template", chatml, "--json"}).json();
  for (const char* side : {"a", "b"}) {
    EXPECT_EQ(r[side]["message"], 1);
    EXPECT_EQ(r[side]["role"], "user");
    EXPECT_EQ(r[side]["byte"], 23);
  }
  const Result text = explain(a, b, {"--chat-template", chatml});
  EXPECT_NE(text.out.find("A: byte 23 of messages[1].content (user)"), std::string::npos) << text.out;
  const std::string other = write("c.json", R"([{"role":"user","content":"Be kind."}])");
  EXPECT_EQ(explain(a, other, {"--chat-template", chatml}).status, 0);
  const std::string whole = explain(a, write("d.json", R"([{"role":"system","content":"Be kind."},
    {"role":"user","content":"What is the capital of Norway?"},{"role":"assistant","content":"Oslo"}])"),
                                    {"--chat-template", chatml})
                                .out;
  EXPECT_NE(whole.find("B: byte 0 of messages[2].content (assistant)"), std::string::npos) << whole;
}

TEST_F(Explain, RefusesWhatItCannotRead) {
  const auto refused = [&](const Result& r, const std::string& words) {
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_NE(r.err.find(words), std::string::npos) << r.err;
  };
  const std::string text = write("a.txt", "some text");
  refused(explain(text, write("b.json", "{")), "b.json: expected JSON");
  EXPECT_EQ(explain(text, write("b.json", "{"), {"--text"}).status, 0);
  refused(explain(text, write("c.json", R"({"messages":[{"role":"user"}]})")), "messages[0].content");
  refused(explain(text, write("d.json", R"({"prompt":[1,2]})")), "token ids");
  EXPECT_EQ(explain(text, folder_.path() + "/none").status, 1);
}

}  // namespace cache_command_test
}  // namespace kvasir::cli
