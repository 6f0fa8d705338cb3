// How the server listens, whom it lets in and what it refuses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.hpp"

namespace kvasir::serve {

// Ranges and help: server_table(). Seconds of 0 mean: no limit.
struct ServerOptions {
  std::string host = "127.0.0.1";
  std::int32_t port = 8080;     // 0: any free one
  std::int32_t threads = 2;     // of the network
  std::int32_t workers = 2;     // threads that parse and tokenise requests
  std::string api_key_file;     // "": no keys, one tenant
  std::string prefix_key_file;  // secret of X-Kvasir-Prefix; "": a random one
  bool open_metrics = false;    // /metrics without a key
  bool vllm_metrics = false;    // serve/vllm_metrics.hpp
  std::string tls_cert, tls_key;
  std::vector<std::string> cors_origins;
  std::vector<std::string> allowed_hosts;  // besides loopback names; only asked when bound to loopback
  std::vector<std::string> image_urls;     // hosts that pictures are fetched from (client/picture_url.hpp)
  bool any_model = false;
  bool keep_billing_line = false;  // see serve/families/billing_line.hpp

  std::int32_t max_connections = 4096;
  std::int64_t max_body = 8 << 20;
  std::int32_t max_header = 16 << 10;
  std::int64_t max_prompt = 0;  // 0: what the context holds
  std::int32_t max_choices = 128;
  std::int64_t stream_buffer = 1 << 20;
  std::int64_t answer_memory = 16 << 20;    // see serve/turn_memory.hpp; 0: none
  std::int64_t response_memory = 16 << 20;  // see serve/response_memory.hpp; 0: none

  double header_timeout = 10;
  double body_timeout = 60;
  double idle_timeout = 75;
  double write_timeout = 30;
  double queue_timeout = 120;
  double request_timeout = 0;
  double keepalive = 15;
  double drain_timeout = 30;
};

const OptionTable<ServerOptions>& server_table();

// Throws Error(kBadInput): a value out of range, half of a TLS pair.
void validate(const ServerOptions& options);

bool is_loopback(const std::string& host);

}  // namespace kvasir::serve
