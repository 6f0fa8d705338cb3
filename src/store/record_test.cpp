// Keys and records: golden values, every byte that may be wrong.
#include "store/record.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "store/store_fixture.hpp"

namespace kvasir::store {
namespace {

// From Python: hashlib.blake2b(b"kvasir.r" + fp + salt, digest_size=32) and blake2b(b"kvasir.c" + tokens, key=root,
// ...).
TEST(Key, AreTheDocumentedHashes) {
  const Fingerprint f = fingerprint_of("model");
  EXPECT_EQ(to_hex(f), "d4b24a65839c66d0d37c029dfbb09332");
  const Key root = root_key(f, "tenant");
  EXPECT_EQ(to_hex(root), "46d32aca1191e2bc6be8d36320726240223c6068903d6532e1884a45cbd28846");
  const std::int32_t tokens[] = {1, -2, 70000};
  EXPECT_EQ(to_hex(chunk_key(root, tokens)), "ecc65aff217a70f792253d2620649c57ee2fe84ea8c23dbd88afb45b3f538145");
  EXPECT_EQ(to_hex(tail_key(root, tokens)), "1cdb8be6187054f7af5c6dd8d03643f32f7e00c27acaa7fb36731bad130f6152");
  EXPECT_EQ(to_hex(content_key(f, tokens)), "8ef09986f100506c052d9e30d189557d78bb02a6fd63486814082a0b0ecd76ad");
}

TEST(Key, DependOnEverything) {
  const std::int32_t a[] = {1, 2}, b[] = {1, 3};
  const Fingerprint f = fingerprint_of("a"), g = fingerprint_of("b");
  std::vector<Key> all{root_key(f), root_key(g), root_key(f, "x"), root_key(f, "y")};
  for (int i = 0; i < 4; ++i) {
    all.push_back(chunk_key(all[static_cast<std::size_t>(i)], a));
    all.push_back(chunk_key(all[static_cast<std::size_t>(i)], b));
    all.push_back(tail_key(all[static_cast<std::size_t>(i)], a));
    all.push_back(chunk_key(chunk_key(all[static_cast<std::size_t>(i)], std::span(a).first(1)), std::span(a).last(1)));
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Key, HexRoundTrips) {
  const Key key = root_key(kPrint);
  EXPECT_EQ(key_from_hex(to_hex(key)), key);
  std::string upper = to_hex(key);
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(key_from_hex(upper), key);
  EXPECT_FALSE(key_from_hex(to_hex(key).substr(1)));
  EXPECT_FALSE(key_from_hex("g" + to_hex(key).substr(1)));
}

TEST(Record, RoundTrips) {
  for (const std::size_t n_tokens : {0, 1, 3, 4, 128}) {
    for (const std::size_t payload : {0, 1, 15, 16, 5000}) {
      std::vector<std::int32_t> tokens;
      for (std::size_t i = 0; i < n_tokens; ++i) tokens.push_back(static_cast<std::int32_t>(i * 977) - 3);
      const SharedBytes bytes = test_record(root_key(kPrint), tokens, payload, 7, 2.5f, Kind::kTail);
      const Parsed p = parse_record(bytes.bytes, Check::kFull, &kPrint);
      ASSERT_TRUE(p) << flaw_name(p.flaw);
      EXPECT_EQ(p.record.head.kind, Kind::kTail);
      EXPECT_EQ(p.record.head.fingerprint, kPrint);
      EXPECT_EQ(p.record.head.parent, root_key(kPrint));
      EXPECT_EQ(p.record.head.cost, 2.5f);
      EXPECT_TRUE(p.record.tokens_are(tokens));
      EXPECT_EQ((p.record.payload.data() - bytes.bytes.data()) % kPayloadAlign, 0);
      const auto expected = noise(payload, 7);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), p.record.payload.begin(), p.record.payload.end()));
      if (n_tokens == 0) continue;
      tokens.back() ^= 1;
      EXPECT_FALSE(p.record.tokens_are(tokens));
      EXPECT_EQ(p.record.common_prefix(tokens), n_tokens - 1);
      tokens.push_back(0);
      EXPECT_EQ(p.record.common_prefix(tokens), n_tokens - 1);
    }
  }
}

TEST(Record, EveryBitFlipIsSeen) {
  const std::int32_t tokens[] = {5, 6, 7};
  const SharedBytes whole = test_record(root_key(kPrint), tokens, 40, 1);
  std::vector<std::byte> bytes(whole.bytes.begin(), whole.bytes.end());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const Flaw flaw = parse_record(bytes, Check::kFull, &kPrint).flaw;
    EXPECT_EQ(flaw, bit < 32 ? Flaw::kForeign : bit < 48 ? Flaw::kVersion : Flaw::kDamaged) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_TRUE(parse_record(bytes));
}

// Tails changed once: those of before are told from damage, and are not used.
TEST(Record, KindsHaveTheirVersions) {
  const std::int32_t tokens[] = {5, 6, 7};
  for (const Kind kind : {Kind::kChunk, Kind::kTail}) {
    const SharedBytes whole = test_record(root_key(kPrint), tokens, 40, 1, 1, kind);
    std::vector<std::byte> bytes(whole.bytes.begin(), whole.bytes.end());
    EXPECT_EQ(std::to_integer<int>(bytes[4]), kind == Kind::kTail ? 2 : 1);
    for (const int version : {0, 1, 2, 3}) {
      bytes[4] = static_cast<std::byte>(version);
      const Flaw flaw = parse_record(bytes, Check::kHead).flaw;
      EXPECT_EQ(flaw, version == record_version(kind) ? Flaw::kNone : Flaw::kVersion) << version;
    }
  }
}

TEST(Record, EveryLengthButItsOwnIsRefused) {
  const std::int32_t tokens[] = {5, 6, 7};
  const SharedBytes whole = test_record(root_key(kPrint), tokens, 40, 1);
  for (std::size_t n = 0; n < whole.bytes.size(); ++n) {
    const std::vector<std::byte> cut(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(parse_record(cut, Check::kHead).flaw, n < 4 ? Flaw::kForeign : Flaw::kDamaged) << n;
  }
  std::vector<std::byte> longer(whole.bytes.begin(), whole.bytes.end());
  longer.push_back(std::byte{0});
  EXPECT_EQ(parse_record(longer, Check::kHead).flaw, Flaw::kDamaged);
}

TEST(Record, OfAnotherModelIsForeign) {
  const SharedBytes whole = test_record(root_key(kPrint), {}, 40, 1);
  const Fingerprint other = fingerprint_of("other");
  EXPECT_EQ(parse_record(whole.bytes, Check::kFull, &other).flaw, Flaw::kForeign);
  EXPECT_EQ(parse_record(whole.bytes, Check::kHead, &other).flaw, Flaw::kForeign);
}

// docs/formats/record.md shows these bytes.
TEST(Record, HasTheDocumentedBytes) {
  const std::int32_t tokens[] = {258};
  const std::byte payload[] = {std::byte{0xab}, std::byte{0xcd}};
  const std::span<const std::byte> parts[] = {payload};
  const SharedBytes r = make_record({.fingerprint = fingerprint_of("model"), .cost = 1}, tokens, parts);
  EXPECT_EQ(to_hex(r.bytes),
            "4b56726301000000d4b24a65839c66d0d37c029dfbb09332000000000000000000000000000000000000000000000000"
            "0000000000000000010000000000803f020000000000000000000000000000000000000000000000af8fb33f8b6abc75"
            "02010000000000000000000000000000abcd");
}

TEST(Record, CostMustBeANumber) {
  for (const float cost : {std::nanf(""), HUGE_VALF, -1.0f}) {
    RecordHead head;
    head.cost = cost;
    EXPECT_THROW(make_record(head, {}, {}), std::logic_error);
  }
}

}  // namespace
}  // namespace kvasir::store
