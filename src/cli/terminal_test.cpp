#include "cli/terminal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <string>

#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"

namespace kvasir::cli {
namespace {

std::string contents(std::FILE* f) {
  std::rewind(f);
  std::string text;
  for (int c; (c = std::fgetc(f)) != EOF;) text += static_cast<char>(c);
  return text;
}

TEST(Terminal, SizesInWords) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(std::uint64_t{13} << 30), "13.0 GiB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Terminal, RatesAndTimesInWords) {
  EXPECT_EQ(human_rate(41.23, "tokens"), "41.2 tokens/s");
  EXPECT_EQ(human_rate(1224, "tokens"), "1224 tokens/s");
  EXPECT_EQ(human_rate(65432, "tokens"), "65.4 k tokens/s");
  EXPECT_EQ(human_bandwidth(34.12e9), "34.1 GB/s");
  EXPECT_EQ(human_seconds(0.00085), "850 us");
  EXPECT_EQ(human_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(human_seconds(4.214), "4.21 s");
  EXPECT_EQ(human_seconds(125), "2 min 5 s");
}

TEST(Terminal, ProgressLineFitsItsWidth) {
  EXPECT_EQ(progress_line("load", 1, 2, 20), "load [===    ]  50 %");
  for (int width : {0, 1, 5, 10, 19, 20, 79})
    for (std::uint64_t done : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{10}, std::uint64_t{99}, UINT64_MAX})
      EXPECT_LE(static_cast<int>(progress_line("load", done, 10, width).size()), width);
  EXPECT_NE(progress_line("load", 0, 0, 40).find("100 %"), std::string::npos);
}

TEST(Terminal, SaysWhatIsLeftAfterTwoSeconds) {
  EXPECT_EQ(time_left(1, 2, 1.9), "");
  EXPECT_EQ(time_left(0, 2, 60), "");
  EXPECT_EQ(time_left(2, 2, 60), "");
  EXPECT_EQ(time_left(1, 4, 4), ", 12 s left");
  EXPECT_EQ(time_left(99, 100, 4), ", 1 s left");
  EXPECT_EQ(time_left(10, 60, 40), ", 3 min 20 s left");
  EXPECT_EQ(progress_line("load", 1, 2, 34, ", 12 s left"), "load [=====     ]  50 %, 12 s left");
}

TEST(Terminal, ProgressBarIsErasedAndSilentElsewhere) {
  std::FILE* f = std::tmpfile();
  ASSERT_NE(f, nullptr);
  {
    ProgressBar silent("load", f);  // a file is no terminal
    silent.update(1, 2);
  }
  EXPECT_EQ(contents(f), "");
  {
    ProgressBar bar("load", f, true);
    for (int i = 0; i < 1000; ++i) bar.update(500, 1000);
    bar.finish();
    bar.update(1000, 1000);
  }
  const std::string text = contents(f);
  EXPECT_EQ(text.find("\r\x1b[Kload ["), 0u);
  EXPECT_NE(text.find(" 50 %"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
  EXPECT_LT(text.size(), 1000u) << "redrawn too often";
  std::fclose(f);
}

TEST(Interrupt, FirstSignalSetsTheFlagAndTheNextHasItsDefault) {
  struct sigaction outside {};
  ::sigaction(SIGINT, nullptr, &outside);
  {
    Interrupt interrupt;
    EXPECT_FALSE(interrupt.requested());
    ASSERT_EQ(std::raise(SIGINT), 0);
    EXPECT_TRUE(interrupt.requested());
    struct sigaction now {};
    ::sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
  }
  struct sigaction after {};
  ::sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, outside.sa_handler);
  Interrupt again;
  EXPECT_FALSE(again.requested());
}

TEST(InterruptDeathTest, SecondSignalEndsTheProgram) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(JsonOutput, OneLineWhateverTheValues) {
  testing::internal::CaptureStdout();
  print_json_row({{"text", "a\nb\xff"}, {"nan", std::nan("")}, {"n", 3}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{\"text\":\"a\\nb\xef\xbf\xbd\",\"nan\":null,\"n\":3}\n");
}

TEST(Terminal, ModelsCannotControlIt) {
  EXPECT_EQ(printable("a\x1b]52;c;eA==\x07"
                      "b\r\n\tc\x7f \xc3\xa9"),
            "a]52;c;eA==b\n\tc \xc3\xa9");
}

}  // namespace
}  // namespace kvasir::cli
