#include "weights/parts.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/team.hpp"
#include "weights/gguf_fixture.hpp"
#include "weights/model_file.hpp"
#include "weights/requantise.hpp"

namespace kvasir::weights {
namespace parts_test {

namespace fs = std::filesystem;

TEST(PartName, SaysWhichPart) {
  const auto part = parse_part_name("models/big-00002-of-00013.gguf");
  ASSERT_TRUE(part);
  EXPECT_EQ(part->prefix, "models/big");
  EXPECT_EQ(part->number, 2);
  EXPECT_EQ(part->count, 13);
  EXPECT_EQ(part_path(*part), "models/big-00002-of-00013.gguf");
  for (const char* other : {"", "big.gguf", "-00001-of-00002.gguf", "big-0001-of-0002.gguf", "big-00003-of-00002.gguf",
                            "big-00000-of-00002.gguf", "big-00001-of-0000x.gguf", "big-00001-of-00002.ggu"})
    EXPECT_FALSE(parse_part_name(other)) << other;
}

TEST(PartName, ModelsAreCalledByWhatTheyShare) {
  EXPECT_EQ(model_name("a/b/big-00002-of-00013.gguf"), "big");
  EXPECT_EQ(model_name("a/b/small.Q4_0.gguf"), "small.Q4_0");
  EXPECT_EQ(model_name("folder"), "folder");
}

// How a part differs from what it should be.
struct Change {
  int number = -1, count = 3, tensors = 4;
  std::string first;       // name of the first tensor
  std::string name;        // general.name, in each part
  bool no_number = false;  // split.no is missing
};

// A model of 4 tensors in 3 parts, 1 + 2 + 1, in a folder of its own.
class Parts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("kvasir-parts-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    for (int i = 0; i < 3; ++i) write(i);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(int i) const { return (folder_ / fmt::format("m-{:05}-of-00003.gguf", i + 1)).string(); }

  void write(int i, const Change& c = {}) const {
    GgufHeader h;
    if (i == 0) h.set_string("general.architecture", "llama");
    if (!c.name.empty()) h.set_string("general.name", c.name);
    if (!c.no_number) h.set<std::uint16_t>("split.no", static_cast<std::uint16_t>(c.number < 0 ? i : c.number));
    h.set<std::uint16_t>("split.count", static_cast<std::uint16_t>(c.count));
    h.set<std::int32_t>("split.tensors.count", c.tensors);
    const std::vector<std::int64_t> shape{32, 3};
    if (i == 1) h.add_tensor("b.weight", "q4_0", shape);
    h.add_tensor(!c.first.empty() ? c.first : i == 0 ? "a.weight" : i == 1 ? "c.weight" : "d.weight", "f32", shape);
    Bytes file = whole(h);
    file.back() = static_cast<std::byte>(i);
    write_file(path(i), file);
  }

  // What opening part `named` says; the file that it names must be part `at`.
  std::string error(int named, int at) const {
    try {
      open_model_file(path(named));
    } catch (const Error& e) {
      EXPECT_EQ(e.context(), path(at));
      return e.message();
    }
    ADD_FAILURE() << "opened";
    return "";
  }

  fs::path folder_;
};

TEST_F(Parts, AnyPartOpensTheWholeModel) {
  for (int named = 0; named < 3; ++named) {
    const auto model = open_model_file(path(named));
    std::vector<std::string> names;
    for (const auto& t : model->tensors()) names.push_back(t.name);
    EXPECT_EQ(names, (std::vector<std::string>{"a.weight", "b.weight", "c.weight", "d.weight"}));
    EXPECT_EQ(model->metadata().require_string("general.architecture"), "llama");
    EXPECT_EQ(model->metadata().path(), path(0));
    EXPECT_EQ(model->files().size(), 3u);
    ASSERT_NE(model->find("d.weight"), nullptr);
    EXPECT_EQ(model->find("d.weight")->bytes[0], std::byte{1});  // the first tensor of its file
    EXPECT_EQ(model->find("c.weight")->bytes[0], std::byte{2});
    model->drop(model->find("c.weight")->bytes);
    EXPECT_EQ(model->find("c.weight")->bytes[0], std::byte{2});
  }
}

// The result of a conversion would lose the model, whichever part is named.
TEST_F(Parts, NoPartIsReplacedByAConversion) {
  Team team(1);
  for (const auto& [in, out] : {std::pair{0, 0}, {0, 1}, {2, 1}}) {
    std::string said;
    try {
      requantise(path(in), path(out), {&find_mix("Q8_0"), nullptr, true}, team, [](const auto&) {});
    } catch (const Error& e) {
      said = e.what();
    }
    EXPECT_NE(said.find("is a file that is read"), std::string::npos) << said;
    EXPECT_NE(said.find(path(out)), std::string::npos) << said;
  }
  EXPECT_EQ(open_model_file(path(0))->tensors().size(), 4u);
}

TEST_F(Parts, AMissingPartIsNamed) {
  fs::remove(path(1));
  for (const int named : {0, 2}) EXPECT_NE(error(named, 1).find("part 2 of 3"), std::string::npos);
}

TEST_F(Parts, AForeignPartIsNamed) {
  const auto expect = [&](int part, const Change& change, const char* says) {
    write(part, change);
    const std::string message = error(0, part);
    EXPECT_NE(message.find(says), std::string::npos) << message;
    EXPECT_NE(message.find("is no part of the model of " + path(0)), std::string::npos) << message;
    write(part);
  };
  expect(1, {.number = 2}, "'split.no' is 2, expected 1");
  expect(1, {.no_number = true}, "'split.no' is missing, expected 1");
  expect(2, {.count = 4}, "'split.count' is 4, expected 3");
  expect(2, {.tensors = 5}, "'split.tensors.count' is not what the first part says");
  expect(2, {.first = "b.weight"}, "tensor b.weight is in an earlier part too");
  write(0, {.name = "one"});
  expect(1, {.name = "two"}, "'general.name' is not what the first part says");
  open_model_file(path(1));
}

TEST_F(Parts, BrokenPartsAreNamed) {
  const std::string text = "no model at all, but long enough";
  write_file(path(2), std::as_bytes(std::span(text)));
  EXPECT_NE(error(0, 2).find("not a GGUF file"), std::string::npos);
  for (int i = 0; i < 3; ++i) write(i, {.tensors = 7});
  EXPECT_NE(error(1, 0).find("is 7, but the 3 parts have 4 tensors"), std::string::npos);
}

TEST_F(Parts, APartUnderAnotherNameSaysWhatNamesAreLike) {
  const fs::path moved = folder_ / "moved.gguf";
  fs::copy_file(path(0), moved);
  try {
    open_model_file(moved.string());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("one of 3 parts of a model; expected a name that ends in -00001-of-00003.gguf"),
              std::string::npos)
        << e.message();
  }
}

}  // namespace parts_test
}  // namespace kvasir::weights
