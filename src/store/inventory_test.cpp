// What tools see of a backend, and records in a file.
#include "store/inventory.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include "base/file.hpp"
#include "store/archive.hpp"
#include "store/store_fixture.hpp"

namespace kvasir::store {
namespace {

namespace fs = std::filesystem;

Offer offer(const Key& key, const SharedBytes& record) {
  return {key, record, parse_record(record.bytes, Check::kHead).record.head};
}

void put(Backend& backend, const Key& key, const SharedBytes& record, const RecordHead& head) {
  const Offer o{key, record, head};
  PutOutcome outcome{};
  ASSERT_TRUE(backend.put(std::span(&o, 1), within(5s), std::span(&outcome, 1)).ok());
  ASSERT_EQ(outcome, PutOutcome::kStored);
}

void put(Backend& backend, const TestChain& chain) {
  for (std::size_t i = 0; i < chain.keys.size(); ++i)
    put(backend, chain.keys[i], chain.records[i], offer(chain.keys[i], chain.records[i]).head);
}

SharedBytes flipped(const SharedBytes& record, std::size_t at) {
  SharedBytes copy = copy_bytes(record.bytes);
  const_cast<std::byte*>(copy.bytes.data())[at] ^= std::byte{1};
  return copy;
}

std::string refusal(std::span<const std::byte> bytes) {
  try {
    read_archive(bytes, "a.kvex");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    return e.what();
  }
  return "";
}

std::vector<std::byte> bytes_of_file(const std::string& path) {
  const MappedFile file(path);
  return {file.bytes().begin(), file.bytes().end()};
}

TEST(Inventory, ChainsParentsFirst) {
  const auto backend = open_backend("ram:");
  const TestChain a(1, 5, 3000), b(2, 3, 40000);
  put(*backend, a);
  put(*backend, b);
  const std::int32_t rest[] = {7, 8, 9};
  const Key tail = tail_key(a.keys[4], {});
  put(*backend, tail, test_record(a.keys[4], rest, 500, 1, 1, Kind::kTail), {.kind = Kind::kTail, .parent = a.keys[4]});
  ASSERT_TRUE(backend->erase(std::span(b.keys).first(1), within(5s)).ok());

  const std::vector<Item> items = take_inventory(*backend, Check::kFull);
  ASSERT_EQ(items.size(), 8u);
  std::map<Key, const Item*> seen;
  for (const Item& i : items) {
    EXPECT_EQ(i.fault, Fault::kNone) << fault_name(i.fault);
    EXPECT_EQ(i.fingerprint, kPrint);
    EXPECT_EQ(i.depth > 0, seen.contains(i.parent)) << "parents first";
    seen[i.key] = &i;
  }
  for (std::size_t i = 0; i < 5; ++i) {
    const Item& item = *seen.at(a.keys[i]);
    EXPECT_EQ(item.depth, static_cast<std::int64_t>(i));
    EXPECT_EQ(item.origin, root_key(kPrint, "chain 1"));
    EXPECT_EQ(item.tokens, 2u);
    EXPECT_EQ(item.bytes, a.records[i].bytes.size());
    EXPECT_EQ(item.kind, Kind::kChunk);
  }
  EXPECT_EQ(seen.at(tail)->depth, 5);
  EXPECT_EQ(seen.at(tail)->kind, Kind::kTail);
  EXPECT_EQ(seen.at(b.keys[2])->origin, b.keys[0]) << "its parent is gone";
  EXPECT_EQ(seen.at(b.keys[2])->depth, 1);
}

TEST(Inventory, FindsEveryFault) {
  const auto backend = open_backend("ram:");
  const TestChain a(1, 4, 5000), b(2, 2, 5000);
  put(*backend, a);
  const auto head = [&](const Key& parent) { return RecordHead{.fingerprint = kPrint, .parent = parent}; };
  std::map<Key, Fault> expected;
  const auto bad = [&](const Key& key, const SharedBytes& record, Fault fault) {
    put(*backend, key, record, head(a.keys[0]));
    expected[key] = fault;
  };
  const auto key = [](int n) { return content_key(kPrint, std::vector<std::int32_t>{n}); };
  bad(key(1), flipped(a.records[0], 3000), Fault::kDamaged);
  bad(key(2), flipped(a.records[0], 1), Fault::kForeign);
  bad(key(3), flipped(a.records[0], 4), Fault::kVersion);
  bad(key(4), copy_bytes(a.records[0].bytes.first(4000)), Fault::kDamaged);
  bad(key(5), a.records[1], Fault::kKey);
  const std::int32_t token[] = {5};
  const Key tail = tail_key(a.keys[3], {});
  put(*backend, tail, test_record(a.keys[3], token, 100, 1, 1, Kind::kTail), head(a.keys[3]));
  bad(key(6), test_record(a.keys[3], token, 100, 1, 1, Kind::kTail), Fault::kKey);
  bad(chunk_key(tail, token), test_record(tail, token, 100, 2), Fault::kParent);
  const SharedBytes other = make_record({.fingerprint = fingerprint_of("another"), .parent = a.keys[3]}, token, {});
  bad(chunk_key(a.keys[3], token), other, Fault::kParent);

  const std::vector<Item> items = take_inventory(*backend, Check::kFull);
  EXPECT_EQ(items.size(), 5 + expected.size());
  for (const Item& i : items)
    EXPECT_EQ(i.fault, expected.contains(i.key) ? expected.at(i.key) : Fault::kNone) << fault_name(i.fault);
  // Without checksums the flipped bit of the payload is not seen, but that the record lies under a key of another.
  expected[key(1)] = Fault::kKey;
  for (const Item& i : take_inventory(*backend, Check::kHead)) {
    EXPECT_EQ(i.fault, expected.contains(i.key) ? expected.at(i.key) : Fault::kNone) << fault_name(i.fault);
  }

  std::vector<Item> faults = items;
  std::erase_if(faults, [](const Item& i) { return i.fault == Fault::kNone; });
  erase_records(*backend, faults);
  for (const Item& i : take_inventory(*backend, Check::kFull)) EXPECT_EQ(i.fault, Fault::kNone);
  EXPECT_EQ(backend->usage().records, 5u);
}

// Whatever part of its last page a tail's key holds, and however many whole pages are raw before it.
TEST(Inventory, KeysOfTailsFollowFromTheirRecords) {
  std::vector<std::int32_t> ids(700);
  std::iota(ids.begin(), ids.end(), 3);
  const auto first = [&](std::size_t begin, std::size_t n) { return std::span(ids).subspan(begin, n); };
  const Key root = root_key(kPrint, "somebody");
  std::vector<Key> before{root};  // page i
  for (std::size_t i = 0; i < 5; ++i) before.push_back(chunk_key(before.back(), first(128 * i, 128)));
  for (const std::size_t n : {1u, 16u, 17u, 128u, 129u, 145u, 256u, 257u, 300u, 512u, 641u, 700u}) {
    const std::size_t last = (n - 1) / 128;
    const Key key = tail_key(before[last], first(128 * last, (n - 128 * last - 1) / 16 * 16));
    for (std::size_t sealed = 0; sealed <= last; ++sealed) {
      const auto record = [&](const Key& parent, std::span<const std::int32_t> tokens) {
        return test_record(parent, tokens, 100, 1, 1, Kind::kTail);
      };
      const auto fits = [&](const SharedBytes& bytes) { return key_fits(key, parse_record(bytes.bytes).record); };
      std::vector<std::int32_t> raw(ids.begin() + static_cast<std::ptrdiff_t>(128 * sealed),
                                    ids.begin() + static_cast<std::ptrdiff_t>(n));
      EXPECT_TRUE(fits(record(before[sealed], raw))) << n << " " << sealed;
      EXPECT_FALSE(fits(record(before[sealed + 1 > 5 ? 0 : sealed + 1], raw))) << n << " " << sealed;
      if (raw.size() <= 16) continue;
      raw[raw.size() - 17] ^= 1;
      EXPECT_FALSE(fits(record(before[sealed], raw))) << n << " " << sealed;
    }
  }
}

class Archives : public ::testing::Test {
 protected:
  // An archive of `chain` with sizes that need padding and such that do not.
  std::vector<std::byte> archive(const TestChain& chain) {
    ArchiveWriter writer(path_);
    for (std::size_t i = 0; i < chain.keys.size(); ++i) writer.add(chain.keys[i], chain.records[i].bytes);
    writer.finish();
    EXPECT_EQ(writer.records(), chain.keys.size());
    EXPECT_EQ(writer.bytes(), fs::file_size(path_));
    return bytes_of_file(path_);
  }
  int files() const {
    int n = 0;
    for (const auto& f : fs::directory_iterator(folder_.path())) n += f.is_regular_file();
    return n;
  }
  TempFolder folder_;
  std::string path_ = folder_.path() + "/a.kvex";
};

TEST_F(Archives, GiveBackWhatWasWritten) {
  for (const std::size_t payload : {0u, 1u, 15u, 16u, 5000u}) {
    const TestChain chain(payload, 4, payload);
    const auto bytes = archive(chain);
    const auto entries = read_archive(bytes, "a.kvex");
    ASSERT_EQ(entries.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(entries[i].key, chain.keys[i]);
      EXPECT_TRUE(same_bytes({nullptr, entries[i].record}, chain.records[i]));
    }
  }
  EXPECT_EQ(fs::status(path_).permissions() & fs::perms::others_all, fs::perms::none);
  EXPECT_EQ(read_archive(archive(TestChain(1, 0, 0)), "a.kvex").size(), 0u);
}

// The example of docs/formats/archive.md: what the fields are and where.
TEST_F(Archives, HaveTheDocumentedLayout) {
  const TestChain chain(3, 1, 10);
  const auto bytes = archive(chain);
  const std::size_t record = chain.records[0].bytes.size();
  ASSERT_EQ(bytes.size(), 64 + 64 + (record + 15) / 16 * 16);
  const auto u64 = [&](std::size_t at) {
    std::uint64_t v = 0;
    std::memcpy(&v, bytes.data() + at, sizeof v);
    return v;
  };
  EXPECT_EQ(std::memcmp(bytes.data(), "KVex\1\0\0\0", 8), 0);
  EXPECT_EQ(u64(8), 1u);
  EXPECT_EQ(u64(16), bytes.size() - 64);
  EXPECT_EQ(std::memcmp(bytes.data() + 64, "KVen\0\0\0\0", 8), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 72, chain.keys[0].bytes.data(), 32), 0);
  EXPECT_EQ(u64(104), record);
  EXPECT_EQ(u64(120), 0u);
}

// Cut anywhere and with any bit changed it is refused, whole.
TEST_F(Archives, RefuseWhatIsNotWhole) {
  const auto bytes = archive(TestChain(1, 2, 37));
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(refusal(std::span(bytes).first(n)), "") << n;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto copy = bytes;
    copy[at] ^= std::byte{0x10};
    EXPECT_NE(refusal(copy), "") << at;
  }
  auto longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_NE(refusal(longer).find("longer than it says"), std::string::npos);
  EXPECT_EQ(refusal(std::span(bytes).first(bytes.size() - 1)).find("a.kvex: is cut off"), 0u);
  EXPECT_EQ(refusal(std::as_bytes(std::span("a text"))).find("a.kvex: is no archive of a cache"), 0u);
}

TEST_F(Archives, RefuseKeysThatAreNotTheRecords) {
  const TestChain a(1, 1, 100), b(2, 1, 100);
  {
    ArchiveWriter writer(path_);
    writer.add(b.keys[0], a.records[0].bytes);
    writer.finish();
  }
  EXPECT_NE(refusal(bytes_of_file(path_)).find("a key that is not its own"), std::string::npos);
}

TEST_F(Archives, LeaveNothingBehindWithoutAnEnd) {
  {
    ArchiveWriter writer(path_);
    const TestChain chain(1, 1, 100);
    writer.add(chain.keys[0], chain.records[0].bytes);
  }
  EXPECT_EQ(files(), 0);
  std::ofstream(path_) << "the old one";
  { ArchiveWriter writer(path_); }
  EXPECT_EQ(read_text_file(path_), "the old one");
  EXPECT_THROW(ArchiveWriter(folder_.path()), Error);
  EXPECT_THROW(ArchiveWriter(folder_.path() + "/none/a.kvex"), Error);
}

}  // namespace
}  // namespace kvasir::store
