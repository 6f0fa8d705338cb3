// The main of every test program. `--file NAME` runs the cases of the source NAME.cpp alone; a file without cases is a
// failure, and so is an unknown argument.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  std::string file;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string(argv[i]) == "--file") file = argv[i + 1];
  // A folder for reports gets one by the test's name: several tests share a program.
  const char* report = std::getenv("KVASIR_REPORT");
  if (const char* folder = std::getenv("GTEST_OUTPUT"); folder && !file.empty() && std::string(folder).ends_with('/'))
    setenv("GTEST_OUTPUT", (std::string(folder) + (report ? report : file) + ".xml").c_str(), 1);
  testing::InitGoogleTest(&argc, argv);  // takes its own flags away
  if (argc != 1 && (argc != 3 || std::string(argv[1]) != "--file")) {
    std::fprintf(stderr, "usage: %s [--file NAME_test] [--gtest_...]\n", argv[0]);
    return 2;
  }
  if (!file.empty()) {
    std::string filter;
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
      const testing::TestSuite& suite = *all.GetTestSuite(s);
      for (int t = 0; t < suite.total_test_count(); ++t) {
        const testing::TestInfo& test = *suite.GetTestInfo(t);
        if (std::filesystem::path(test.file()).stem() == file)
          filter += std::string(suite.name()) + "." + test.name() + ":";
      }
    }
    if (filter.empty()) {
      std::fprintf(stderr, "%s: no case in a file %s.cpp\n", argv[0], file.c_str());
      return 1;
    }
    const std::string wanted = testing::GTEST_FLAG(filter);
    if (wanted == "*") testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
