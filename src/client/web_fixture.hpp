// A web server on 127.0.0.1 for tests of whoever fetches: an answer for every path, as bytes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace kvasir::client {

class WebFixture {
 public:
  WebFixture() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~WebFixture() {
    stop_ = true;
    thread_.join();
    ::close(socket_);
  }

  int port() const { return port_; }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string url(const std::string& path) const { return "http://" + host() + path; }
  int asked() const { return asked_; }  // connections so far
  // What a GET of the path is answered, header and all. An empty answer: nothing, until the client goes.
  void put(const std::string& path, std::string answer) {
    const std::lock_guard lock(mutex_);
    answers_[path] = std::move(answer);
  }
  void put(const std::string& path, const std::string& type, const std::string& body) {
    put(path, "HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) +
                  "\r\nConnection: close\r\n\r\n" + body);
  }
  void move(const std::string& path, const std::string& to) {
    put(path, "HTTP/1.1 302 Found\r\nLocation: " + to + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
  }

 private:
  // False: it is to end.
  bool wait_for(int fd) const {
    while (!stop_) {
      pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&wanted, 1, 10) > 0) return true;
    }
    return false;
  }
  void serve() {
    while (wait_for(socket_)) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) continue;
      ++asked_;
      answer(client);
      ::close(client);
    }
  }
  void answer(int client) {
    std::string request;
    char bytes[4096];
    while (request.find("\r\n\r\n") == request.npos) {
      if (!wait_for(client)) return;
      const ssize_t n = ::recv(client, bytes, sizeof bytes, 0);
      if (n <= 0) return;
      request.append(bytes, static_cast<std::size_t>(n));
    }
    const std::size_t begin = request.find(' ') + 1;
    const std::string path = request.substr(begin, request.find(' ', begin) - begin);
    std::string text = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = answers_.find(path); known != answers_.end()) text = known->second;
    }
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
    if (text.empty() && wait_for(client)) (void)::recv(client, bytes, sizeof bytes, 0);
  }

  const int socket_;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int> asked_{0};
  std::mutex mutex_;
  std::map<std::string, std::string> answers_;
  std::thread thread_;
};

}  // namespace kvasir::client
