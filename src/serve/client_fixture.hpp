// A blocking HTTP client for tests that shows every byte, and a server on a free port of the loopback address.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "serve/chat_fixture.hpp"
#include "serve/server.hpp"
#include "serve/service_fixture.hpp"

namespace kvasir::serve {

struct Reply {
  int status = 0;  // 0: the connection ended before a whole answer
  std::map<std::string, std::string> headers;
  std::string body;
  Json json() const { return Json::parse(body); }
  std::string header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? "" : it->second;
  }
};

class Client {
 public:
  explicit Client(std::uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  // Reads once; false: the end, an error, or `seconds` without a byte.
  bool fill(double seconds = 60) {
    pollfd p{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&p, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
    char bytes[65536];
    const auto n = ::recv(fd_, bytes, sizeof(bytes), 0);
    if (n <= 0) return false;
    in_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }
  const std::string& input() const { return in_; }
  bool closed(double seconds = 20) {  // by the server, after whatever it still said
    const double end = steady_seconds() + seconds;
    while (fill(end - steady_seconds())) {
    }
    return steady_seconds() < end;
  }

  // Waits until the input holds `text`.
  bool until(std::string_view text) {
    while (in_.find(text) == std::string::npos)
      if (!fill()) return false;
    return true;
  }

  Reply read(bool head_only = false) {
    Reply r;
    if (!until("\r\n\r\n")) return r;
    const std::size_t end = in_.find("\r\n\r\n");
    const std::string head = in_.substr(0, end + 2);
    in_.erase(0, end + 4);
    for (std::size_t i = head.find("\r\n") + 2; i < head.size();) {
      const std::size_t stop = head.find("\r\n", i);
      const std::string line = head.substr(i, stop - i);
      std::string name = line.substr(0, line.find(':'));
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      r.headers[name] = line.substr(std::min(line.find(':') + 2, line.size()));
      i = stop + 2;
    }
    const int status = std::stoi(head.substr(9, 3));
    if (head_only || status == 204 || status == 100) return r.status = status, r;
    if (r.header("transfer-encoding") == "chunked") {
      if (!read_chunks(r.body)) return r;
    } else if (!r.header("content-length").empty()) {
      const auto size = static_cast<std::size_t>(std::stoul(r.header("content-length")));
      while (in_.size() < size)
        if (!fill()) return r;
      r.body = in_.substr(0, size);
      in_.erase(0, size);
    } else {
      while (fill()) {
      }
      r.body = std::move(in_);
    }
    r.status = status;
    return r;
  }

 private:
  bool read_chunks(std::string& body) {
    for (;;) {
      if (!until("\r\n")) return false;
      const std::size_t size = std::stoul(in_, nullptr, 16);
      const std::size_t begin = in_.find("\r\n") + 2;
      while (in_.size() < begin + size + 2)
        if (!fill()) return false;
      body += in_.substr(begin, size);
      in_.erase(0, begin + size + 2);
      if (size == 0) return true;
    }
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string in_;
};

inline std::string http_text(std::string_view method, std::string_view path, std::string_view body = "",
                             std::string_view headers = "") {
  return fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n{}", method, path, headers,
                     body.size(), body);
}

// The objects of a stream's data lines; checks that it ends with [DONE].
inline std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  bool done = false;
  for (std::size_t i = 0; i < body.size();) {
    const std::size_t end = body.find("\n\n", i);
    EXPECT_NE(end, std::string::npos);
    const std::string event = body.substr(i, end - i);
    i = end + 2;
    if (event.starts_with(":")) continue;
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    EXPECT_FALSE(done) << "after [DONE]: " << event;
    done = event == "data: [DONE]";
    if (!done) events.push_back(Json::parse(event.substr(6)));
  }
  EXPECT_TRUE(done) << "no [DONE]";
  return events;
}

template <class F>
bool eventually(F done, double seconds = 60) {
  const double end = steady_seconds() + seconds;
  while (!done()) {
    if (steady_seconds() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

class TestServer {
 public:
  explicit TestServer(FakeOptions fake = {}, ServerOptions options = {}, bool signals = false,
                      const ChatFormat* format = nullptr)
      : service(std::move(fake)),
        server(on_free_port(std::move(options)), service, format ? format : &chat, [this](std::string_view line) {
          const std::lock_guard lock(mutex_);
          log_.emplace_back(line);
        }) {
    thread_ = std::thread([this, signals] { server.run(signals); });
  }
  ~TestServer() {
    if (!thread_.joinable()) return;
    server.stop();
    server.stop();
    thread_.join();
  }
  void join() { thread_.join(); }

  std::uint16_t port() const { return server.port(); }
  Reply ask(std::string_view method, std::string_view path, std::string_view body = "", std::string_view headers = "") {
    Client client(port());
    client.send(http_text(method, path, body, headers));
    return client.read(method == "HEAD");
  }
  Reply post(std::string_view path, const Json& body) { return ask("POST", path, dump(body)); }
  std::string log() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : log_) all += line + "\n";
    return all;
  }

  // A request's line is written after its answer was sent, so whoever looks for one waits for it.
  bool logs(std::string_view text) {
    return eventually([&] { return log().find(text) != std::string::npos; }, 10);
  }

  FakeService service;
  FakeChat chat;

 private:
  static ServerOptions on_free_port(ServerOptions options) {
    options.port = 0;
    return options;
  }
  std::mutex mutex_;
  std::vector<std::string> log_;

 public:
  Server server;

 private:
  std::thread thread_;
};

}  // namespace kvasir::serve
