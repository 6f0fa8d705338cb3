// For tests of faces: a server as the command line makes it, and what it answers.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "cli/serving.hpp"
#include "run/pictures.hpp"
#include "serve/client_fixture.hpp"

namespace kvasir::testing {

class PictureServer {
 public:
  explicit PictureServer(const cli::ServingOptions& options) : serving_(options, {}) {
    thread_ = std::thread([this] { serving_.server().run(); });
  }
  ~PictureServer() {
    serving_.server().stop();
    serving_.server().stop();
    thread_.join();
  }
  serve::Reply ask(const std::string& path, const Json& body) {
    serve::Client client(serving_.server().port());
    client.send(serve::http_text(body.is_null() ? "GET" : "POST", path, body.is_null() ? "" : serve::dump(body)));
    return client.read();
  }
  Json answer(const std::string& path, const Json& body) {
    const serve::Reply r = ask(path, body);
    EXPECT_EQ(r.status, 200) << path << ": " << r.body;
    return r.status == 200 ? r.json() : Json::object();
  }
  Json chat(const Json& messages, Json more = Json::object()) {
    Json body{{"messages", messages}, {"max_tokens", 6}, {"temperature", 0}, {"logprobs", true}, {"ignore_eos", true}};
    body.update(more);
    return answer("/v1/chat/completions", body);
  }
  std::uint16_t port() { return serving_.server().port(); }
  run::Pictures::Stats stats() { return serving_.only()->pictures()->stats(); }

 private:
  cli::Serving serving_;
  std::thread thread_;
};

}  // namespace kvasir::testing
