// What the system does to a run: signals, no threads, no place for a message.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "robustness_fixture.hpp"
#include "store/faulty_fixture.hpp"
#include "store/open.hpp"
#include "unicode/utf8.hpp"

namespace kvasir {
namespace {

using namespace testing;

// A message that cannot be written changes nothing else.
TEST(Process, ErrorsWithoutAPlaceForThem) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), 2);
    ::_exit(cli::run_command_line({"run", "-m", "/tmp", "-p", "x"}));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status;
}

// Runs `start` where there is address space for the program, not for hundreds of stacks of 8 MB. What it threw, "" for
// nothing.
template <class F>
std::string without_room_for_threads(F start) {
  int fds[2];
  KVASIR_CHECK(::pipe(fds) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{600u << 20, 600u << 20};
    ::setrlimit(RLIMIT_AS, &limit);
    try {
      start();
    } catch (const Error& e) {
      const std::string what = e.what();
      ::_exit(::write(fds[1], what.data(), what.size()) > 0 ? 0 : 1);
    }
    ::_exit(0);
  }
  ::close(fds[1]);
  std::string text(4096, 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(fds[0], text.data(), text.size()), 0)));
  ::close(fds[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "signal " << WTERMSIG(status);
  return text;
}

// Threads that the system refuses are an error, not the end of the program.
TEST(Process, ThreadsThatCannotBeStarted) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need address space";
  const std::string team = without_room_for_threads([] { Team(512); });
  EXPECT_TRUE(team.starts_with("threads: cannot start thread")) << team;
  const std::string tier = without_room_for_threads([] {
    store::TierOptions options;
    options.reader.threads = 512;
    store::Tier(store::faulty(store::open_backend("ram:"), {.delay = std::chrono::milliseconds(1)}), options);
  });
  EXPECT_TRUE(tier.starts_with("threads that read a tier: cannot start thread")) << tier;
}

struct Child {
  pid_t pid = -1;
  int out = -1;
  std::string text;

  explicit Child(const std::vector<std::string>& arguments) {
    int fds[2];
    KVASIR_CHECK(::pipe(fds) == 0);
    std::fflush(stdout);
    pid = ::fork();
    if (pid == 0) {
      ::dup2(fds[1], 1);
      ::close(fds[0]);
      ::close(fds[1]);
      const int status = cli::run_command_line(arguments);
      std::fflush(stdout);
      ::_exit(status);
    }
    ::close(fds[1]);
    out = fds[0];
  }
  ~Child() { ::close(out); }

  // Reads until there are `bytes` or the child closes its end; false after `seconds` without either.
  bool read(std::size_t bytes, double seconds) {
    while (text.size() < bytes) {
      pollfd p{out, POLLIN, 0};
      if (::poll(&p, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
      char buffer[4096];
      const ssize_t n = ::read(out, buffer, sizeof buffer);
      if (n <= 0) return n == 0;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return true;
  }
};

TEST(Process, InterruptEndsARunWithTheTextSoFar) {
  Child child({"run", "-m", kBooks, "-p", "Once upon a time", "-n", "1000000", "--ctx", "300000", "--ignore-eos",
               "--no-figures"});
  ASSERT_TRUE(child.read(200, 60)) << "no text";
  ASSERT_EQ(::kill(child.pid, SIGINT), 0);
  const bool ended = child.read(std::size_t{1} << 40, kSanitized ? 60 : 2);  // to the end of its output
  if (!ended) ::kill(child.pid, SIGKILL);
  EXPECT_TRUE(ended) << "still running 2 s after SIGINT";
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid, &status, 0), child.pid);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(child.text.starts_with("Once upon a time"));
  EXPECT_TRUE(child.text.ends_with("\n"));
  EXPECT_EQ(unicode::to_valid_utf8(child.text), child.text);
}

// The second one does not wait: here for a chunk of a prompt that takes seconds.
TEST(Process, SecondInterruptKills) {
  const TemporaryPath text("long.txt");
  std::string words;
  while (words.size() < 400000) words += "It was a dark and stormy night. ";
  write_bytes(text.path, words);
  Child child({"run", "-m", kBooks, "-f", text.path, "--ctx", "200000", "--chunk", "8192", "--threads", "1", "--exact",
               "--no-figures"});
  timespec pause{0, 300000000};
  ::nanosleep(&pause, nullptr);  // into the prompt
  ASSERT_EQ(::kill(child.pid, SIGINT), 0);
  pause.tv_nsec = 20000000;
  int status = 0;
  pid_t gone = 0;
  for (int i = 0; i < 500 && gone == 0; ++i) {  // as somebody who keeps pressing it
    ::kill(child.pid, SIGINT);
    ::nanosleep(&pause, nullptr);
    gone = ::waitpid(child.pid, &status, WNOHANG);
  }
  if (gone == 0) ::kill(child.pid, SIGKILL), ::waitpid(child.pid, &status, 0);
  EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) || (WIFEXITED(status) && WEXITSTATUS(status) == 1))
      << status;
}

}  // namespace
}  // namespace kvasir
