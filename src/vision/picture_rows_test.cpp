// Rows of every encoder beside transformers' (tools/golden_pictures.py).
#include <fmt/format.h>

#include <cmath>

#include "base/hash.hpp"
#include "vision/encoder.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir::vision {
namespace {

double error_of(std::span<const float> got, const float* want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(error / norm);
}

class PictureRows : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  }
  std::unique_ptr<Encoder> open(const EncoderOptions& options = {}) {
    return open_encoder(encoder_of(GetParam()), options, team_);
  }
  Team team_{2};
};

TEST_P(PictureRows, AreThoseOfTransformers) {
  const auto encoder = open({.exact = true});
  const std::vector<std::byte> all = golden_bytes(GetParam() + ".rows.f32");
  const auto* want = reinterpret_cast<const float*>(all.data());
  const nlohmann::json listed = golden_json(GetParam() + ".json");
  for (const auto& p : listed["pictures"]) {
    const Picture picture = read_picture(golden("pictures/" + p["file"].get<std::string>()));
    const Prepared prepared = encoder->prepare(picture);
    const nlohmann::json& parts = p["parts"];
    ASSERT_EQ(prepared.parts.size(), parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      ASSERT_EQ(prepared.parts[i].size, (Size{parts[i]["width"], parts[i]["height"]})) << p["file"];
      const std::uint64_t hash = hash_bytes(std::as_bytes(std::span(prepared.parts[i].rgb)));
      EXPECT_EQ(fmt::format("{:016x}", hash), parts[i]["pixels"]) << p["file"];
    }
    EXPECT_EQ(encoder->size_for(picture.size), prepared.parts.back().size);
    const Encoding e = encoder->encode(prepared, team_);
    ASSERT_EQ(e.count(), p["rows"][0].get<std::int64_t>());
    ASSERT_EQ(e.width, p["rows"][1].get<std::int64_t>());
    ASSERT_EQ(e.runs.size(), parts.size());
    std::int64_t rows = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Grid g = e.runs[i].grid;
      EXPECT_EQ((std::vector<int>{g.t, g.h, g.w}), parts[i]["grid"].get<std::vector<int>>());
      EXPECT_EQ(e.runs[i].first, rows);
      rows += g.count();
    }
    EXPECT_EQ(rows, e.count());
    ASSERT_EQ(e.deep.size(), p["deep"].get<std::size_t>());
    ASSERT_EQ(std::ssize(e.deep), encoder->deep());
    EXPECT_LE(error_of(e.rows, want), 1e-4) << p["file"];
    want += e.rows.size();
    for (const std::vector<float>& layer : e.deep) {
      ASSERT_EQ(layer.size(), e.rows.size());
      EXPECT_LE(error_of(layer, want), 1e-4) << p["file"];
      want += layer.size();
    }
  }
  EXPECT_EQ(reinterpret_cast<const std::byte*>(want), all.data() + all.size());
}

// Without --exact rows are near: attention is in bf16 on machines that multiply so, matrices may be in eight bits.
TEST_P(PictureRows, OfFewerBitsAreNear) {
  const std::vector<std::byte> all = golden_bytes(GetParam() + ".rows.f32");
  const auto first = golden_json(GetParam() + ".json")["pictures"][0];
  const Picture picture = read_picture(golden("pictures/" + first["file"].get<std::string>()));
  const auto error = [&](const EncoderOptions& options) {
    const auto encoder = open(options);
    return error_of(encoder->encode(encoder->prepare(picture), team_).rows, reinterpret_cast<const float*>(all.data()));
  };
  EXPECT_LE(error({}), 0.02);
  const double eight = error({.eight_bits = true});
  EXPECT_LE(eight, GetParam() == "lfm3" ? 0.08 : 0.05);  // whose gates multiply two rounded products with a third
  EXPECT_GT(eight, 1e-4);                                // or nothing was rounded
  EXPECT_LE(error({.exact = true, .eight_bits = true}), 1e-4);
}

TEST_P(PictureRows, HaveTheSameBitsWithAnyNumberOfThreads) {
  for (const bool eight_bits : {false, true}) {
    const auto encoder = open({.eight_bits = eight_bits});
    const Prepared p = encoder->prepare(read_picture(golden("pictures/97x53.png")));
    const Encoding one = encoder->encode(p, team_);
    Team three(3);
    EXPECT_EQ(encoder->encode(p, three).rows, one.rows);
  }
}

TEST_P(PictureRows, AreKeyedByPixelsSizeAndEncoder) {
  const auto encoder = open(), again = open(), exact = open({.exact = true}), few = open({.most_rows = 70});
  EXPECT_EQ(encoder->fingerprint(), again->fingerprint());
  EXPECT_NE(encoder->fingerprint(), exact->fingerprint());
  const auto eight = open({.eight_bits = true});
  EXPECT_NE(eight->fingerprint(), encoder->fingerprint());
  EXPECT_NE(eight->fingerprint(), exact->fingerprint());
  EXPECT_EQ(open({.exact = true, .eight_bits = true})->fingerprint(), exact->fingerprint());
  Prepared p = encoder->prepare(read_picture(golden("pictures/97x53.png")));
  const PictureKey key = key_of(p, *encoder);
  EXPECT_EQ(key_of(p, *again), key);
  EXPECT_NE(key_of(p, *exact), key);
  EXPECT_EQ(to_hex(key).size(), 64u);
  p.parts[0].rgb[5] ^= 1;
  EXPECT_NE(key_of(p, *encoder), key);
  p.parts[0].rgb[5] ^= 1;
  p.parts[0].size = {p.parts[0].size.width * p.parts[0].size.height, 1};
  EXPECT_NE(key_of(p, *encoder), key);
}

std::vector<std::string> all_kinds() {
  std::vector<std::string> names;
  for (const auto& kind : encoders()) names.emplace_back(kind.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Encoders, PictureRows, testing::ValuesIn(all_kinds()),
                         [](const auto& kind) { return kind.param; });

// Kind, text in front of and behind a picture, which of each other its rows see.
TEST(PictureEncoder, SaysWhatStandsAroundRows) {
  if (!reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  Team team(2);
  const auto around = [&](const std::string& kind, const std::string& file) {
    const auto encoder = open_encoder(golden(kind + ".gguf"), {}, team);
    std::string text;
    for (const vision::Run& r : encoder->encode(encoder->prepare(read_picture(golden("pictures/" + file))), team).runs)
      text += fmt::format("{}[{} {}]{}", r.before, r.grid.count(), name(r.sight), r.after);
    return text;
  };
  EXPECT_EQ(around("gemma3", "64x64.png"), "\n\n<start_of_image>[9 both_ways]<end_of_image>\n\n");
  EXPECT_EQ(around("gemma4v", "64x64.png"), "<|image>[256 both_ways_in_windows]<image|>");
  EXPECT_EQ(around("gemma4uv", "64x64.png"), "<|image>[256 both_ways_in_windows]<image|>");
  EXPECT_EQ(around("qwen2_5vl_merger", "64x64.png"), "<|vision_start|>[64 earlier]<|vision_end|>");
  EXPECT_EQ(around("qwen3vl_merger", "64x64.png"), "<|vision_start|>[64 earlier]<|vision_end|>");
  EXPECT_EQ(around("lfm2", "64x64.png"), "<|image_start|>[64 earlier]<|image_end|>");
  EXPECT_EQ(around("lfm2", "1500x500.png"),
            "<|image_start|><|img_row_1_col_1|>[256 earlier]<|img_row_1_col_2|>[256 earlier]<|img_row_1_col_3|>"
            "[256 earlier]<|img_thumbnail|>[243 earlier]<|image_end|>");
  const std::string mark = "<fake_token_around_image>";
  std::string lines;
  for (int i = 0; i < 8; ++i)
    lines += fmt::format("{}{}<row_{}_col_{}>[9 earlier]", i == 4 ? "\n" : "", mark, i / 4 + 1, i % 4 + 1);
  EXPECT_EQ(around("idefics3", "1500x500.png"), lines + "\n\n" + mark + "<global-img>[9 earlier]" + mark);
}

// Their parts have the same bytes, and lie beside each other in one, under each other in the other.
TEST(PictureEncoder, KeysOfCutPicturesSayHowTheyAreCut) {
  Team team(1);
  const auto encoder = open_encoder(golden("idefics3.gguf"), {}, team);
  const auto grey = [&](Size size) {
    const auto bytes = static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) * 3;
    return encoder->prepare({size, std::vector<std::uint8_t>(bytes, 90)});
  };
  const Prepared wide = grey({200, 100}), high = grey({100, 200});
  ASSERT_EQ(wide.parts.size(), 9u);
  ASSERT_EQ(high.parts.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(wide.parts[i].rgb, high.parts[i].rgb);
  EXPECT_NE(key_of(wide, *encoder), key_of(high, *encoder));
}

// Which of an encoder's settings make one square of a picture: it stands alone, without a row or column in its mark.
TEST(PictureEncoder, OfSquaresGivesOneWithFewRows) {
  if (!reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  Team team(1);
  const auto encoder = open_encoder(golden("idefics3.gguf"), {.most_rows = 9}, team);
  const Prepared p = encoder->prepare(read_picture(golden("pictures/1500x500.png")));
  ASSERT_EQ(p.parts.size(), 1u);
  EXPECT_EQ(p.parts[0].size, (Size{48, 48}));
  EXPECT_EQ(encoder->runs(p)[0].before, "<fake_token_around_image><global-img>");
  EXPECT_THROW(open_encoder(golden("idefics3.gguf"), {.most_rows = 8}, team), Error);
}

TEST(PictureEncoder, OfOtherFilesIsRefused) {
  Team team(1);
  const auto said = [&](const std::string& path) -> std::string {
    try {
      open_encoder(path, {}, team);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  EXPECT_EQ(said(std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf"),
            "general.architecture is llama, expected clip: a file that convert_hf_to_gguf.py --mmproj wrote");
  // Not the gist of the file: another projector, a missing tensor.
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::vector<std::byte> bytes = golden_bytes("gemma4uv.gguf");
    const auto* const f = reinterpret_cast<const std::byte*>(from.data());
    const auto at = std::search(bytes.begin(), bytes.end(), f, f + from.size());
    EXPECT_NE(at, bytes.end());
    std::memcpy(&*at, to.data(), to.size());
    const std::string path = testing::TempDir() + "kvasir_picture_" + to + ".gguf";
    write_file(path, bytes);
    return said(path);
  };
  EXPECT_EQ(changed("gemma4uv", "gemma9xy"), "the projector gemma9xy is not known; known are " + names(encoders()));
  EXPECT_EQ(changed("mm.input_projection.weight", "mm.input_projektion.weight"),
            "mm.input_projection.weight is missing");
  EXPECT_EQ(changed("v.patch_norm.1.bias", "v.patch_norm.9.bias"), "v.patch_norm.1.bias is missing");
}

}  // namespace
}  // namespace kvasir::vision
