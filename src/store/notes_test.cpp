#include "store/notes.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "store/open.hpp"

namespace kvasir::store {
namespace {

TEST(Notes, AreFoundByNameUnderTheirFingerprintAlsoByAnotherProcess) {
  const std::string folder = ::testing::TempDir() + "kvasir-notes-" + std::to_string(getpid());
  const auto open = [&] {
    std::vector<std::shared_ptr<Tier>> tiers;
    for (const std::string& spec : {std::string("ram:?size=1MiB"), "lmdb:" + folder + "?size=64MiB"})
      tiers.push_back(open_tier(spec));
    return tiers;
  };
  std::vector<std::byte> large(3 << 20);  // for the disk alone
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 7);
  const std::span<const std::byte> small = std::span(large).first(5);
  const Fingerprint mine = fingerprint_of("mine");
  const auto soon = [] { return within(std::chrono::seconds(10)); };
  {
    const auto tiers = open();
    const Notes notes(mine, tiers);
    EXPECT_FALSE(notes.read("large", soon()));
    notes.keep("large", large, 1e6);
    notes.keep("small", small, Notes::kDear);
    notes.keep("empty", {}, 0);
    EXPECT_EQ(notes.read("large", soon()), large);
    for (const auto& tier : tiers) EXPECT_TRUE(tier->flush().ok());
  }
  const auto tiers = open();
  const Notes notes(mine, tiers);
  EXPECT_EQ(notes.read("large", soon()), large);
  EXPECT_EQ(notes.read("small", soon()), std::vector(small.begin(), small.end()));
  EXPECT_EQ(notes.read("empty", soon()), std::vector<std::byte>());
  EXPECT_FALSE(notes.read("larg", soon()));
  EXPECT_FALSE(Notes(fingerprint_of("another"), tiers).read("small", soon()));
  EXPECT_FALSE(Notes(mine, {}).read("small", soon()));
  notes.keep("small", large, 1e6);  // a newer one takes its place
  EXPECT_EQ(notes.read("small", soon()), large);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvasir::store
