// For tests: folders and servers of Redis that end with the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace kvasir::store {

using namespace std::chrono_literals;

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvasir-store-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw Error(Code::kIo, "cannot make a folder", pattern);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(fd);
  if (!bound) throw Error(Code::kIo, "no free port");
  return ntohs(address.sin_port);
}

// A redis-server of our own on the loopback interface; it ends with the test.
class RedisServer {
 public:
  static bool available() { return std::system("command -v redis-server redis-cli >/dev/null 2>&1") == 0; }

  explicit RedisServer(std::vector<std::string> extra = {}) : port_(free_port()), extra_(std::move(extra)) { start(); }
  ~RedisServer() { kill(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  void start() {
    std::vector<std::string> words{
        "redis-server", "--port",       std::to_string(port_), "--bind", "127.0.0.1", "--save", "",
        "--dir",        folder_.path(), "--appendonly",        "no"};
    words.insert(words.end(), extra_.begin(), extra_.end());
    std::vector<char*> arguments;
    for (auto& w : words) arguments.push_back(w.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int log = ::open((folder_.path() + "/log").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(log, 1);
      ::dup2(log, 2);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    for (int i = 0;
         i < 500 && cli("PING").find("PONG") == std::string::npos && cli("PING").find("NOAUTH") == std::string::npos;
         ++i)
      std::this_thread::sleep_for(20ms);
  }
  // What redis-cli prints.
  std::string cli(const std::string& words) const {
    const std::string line = "redis-cli -h 127.0.0.1 -p " + std::to_string(port_) + " " + words + " 2>&1";
    std::string out;
    if (FILE* pipe = ::popen(line.c_str(), "r")) {
      char buffer[4096];
      while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
      ::pclose(pipe);
    }
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }
  // As if nobody had used the record of this name for so long. `login`: options of redis-cli.
  void age(const std::string& name, std::chrono::seconds idle, const std::string& login = "") const {
    const std::string reply = cli(login +
                                  " EVAL \"return redis.call('RESTORE', KEYS[1], 0, redis.call('DUMP', KEYS[1]), "
                                  "'REPLACE', 'IDLETIME', ARGV[1])\" 1 " +
                                  name + " " + std::to_string(idle.count()));
    EXPECT_EQ(reply, "OK");
  }

 private:
  TempFolder folder_;
  const int port_;
  const std::vector<std::string> extra_;
  pid_t pid_ = -1;
};

}  // namespace kvasir::store
