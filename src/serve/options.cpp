#include "serve/options.hpp"

#include "base/error.hpp"
#include "client/picture_url.hpp"

namespace kvasir::serve {

const OptionTable<ServerOptions>& server_table() {
  using O = ServerOptions;
  const auto seconds = [](std::string help, double low) {
    return OptionInfo{.help = std::move(help), .unit = "seconds", .low = low, .high = 1e7};
  };
  static const OptionTable<O> table{
      "server",
      {
          {"host", &O::host, {.help = "address to listen on; 0.0.0.0 or :: is all", .placeholder = "ADDRESS"}},
          {"port", &O::port, {.help = "0 takes a free one", .low = 0, .high = 65535}},
          {"http_threads", &O::threads, {.help = "threads of the network", .low = 1, .high = 64}},
          {"http_workers", &O::workers, {.help = "threads that parse and tokenise requests", .low = 1, .high = 64}},
          {"api_key_file",
           &O::api_key_file,
           {.help = "keys that are let in, one `KEY [TENANT]` a line", .placeholder = "FILE"}},
          {"prefix_key_file",
           &O::prefix_key_file,
           {.help = "secret behind X-Kvasir-Prefix, the same for servers that share a proxy; default a random one",
            .placeholder = "FILE"}},
          {"open_metrics", &O::open_metrics, {.help = "/metrics needs no key"}},
          {"vllm_metrics",
           &O::vllm_metrics,
           {.help = "/metrics also has vLLM's names for what both know, for routers that read those"}},
          {"tls_cert", &O::tls_cert, {.help = "certificate chain (PEM); speaks HTTPS", .placeholder = "FILE"}},
          {"tls_key", &O::tls_key, {.help = "private key of the certificate (PEM)", .placeholder = "FILE"}},
          {"cors_origin",
           &O::cors_origins,
           {.help = "web pages of this origin may call; * is any", .placeholder = "ORIGIN"}},
          {"allowed_host",
           &O::allowed_hosts,
           {.help = "further name that requests to a loopback address may call this server", .placeholder = "NAME"}},
          {"image_urls",
           &O::image_urls,
           {.help = "fetch pictures and sounds that requests name by http(s) URLs: from public hosts with public, from "
                    "this one, whatever its addresses are, with HOST or HOST:PORT",
            .placeholder = "HOST"}},
          {"any_model", &O::any_model, {.help = "take requests whatever model they name"}},
          {"keep_billing_line",
           &O::keep_billing_line,
           {.help = "do not settle the changing first line of a coding agent's system prompt in /v1/messages"}},
          {"max_connections", &O::max_connections, {.help = "more are answered 503", .low = 1, .high = 1 << 20}},
          {"max_body", &O::max_body, {.help = "longest request body", .unit = "bytes", .low = 1024, .high = 1 << 30}},
          {"max_header",
           &O::max_header,
           {.help = "longest request header", .unit = "bytes", .low = 1024, .high = 1 << 20}},
          {"max_prompt",
           &O::max_prompt,
           {.help = "longest prompt; 0 is what the context holds", .unit = "tokens", .low = 0, .high = 1 << 30}},
          {"max_choices",
           &O::max_choices,
           {.help = "answers of one request (prompts times n)", .low = 1, .high = 4096}},
          {"stream_buffer",
           &O::stream_buffer,
           {.help = "bytes that a client may be slow to read before its request is cancelled",
            .unit = "bytes",
            .low = 16 << 10,
            .high = 1 << 30}},
          {"answer_memory",
           &O::answer_memory,
           {.help = "memory for the tokens of answers, which come back as they were generated; 0 for none",
            .unit = "bytes",
            .low = 0,
            .high = std::int64_t{1} << 40}},
          {"response_memory",
           &O::response_memory,
           {.help = "memory for what /v1/responses stores; 0 for none",
            .unit = "bytes",
            .low = 0,
            .high = std::int64_t{1} << 40}},
          {"header_timeout", &O::header_timeout, seconds("for a request's header to arrive", 0.05)},
          {"body_timeout", &O::body_timeout, seconds("for a request's body to arrive", 0.05)},
          {"idle_timeout", &O::idle_timeout, seconds("that a connection may wait between requests", 0.05)},
          {"write_timeout", &O::write_timeout, seconds("that a client may take nothing of its answer", 0.05)},
          {"queue_timeout", &O::queue_timeout, seconds("in the queue before a request fails; 0 is no limit", 0)},
          {"request_timeout", &O::request_timeout, seconds("for a whole request; 0 is no limit", 0)},
          {"sse_keepalive", &O::keepalive, seconds("between comments in a silent stream; 0 sends none", 0)},
          {"drain_timeout", &O::drain_timeout, seconds("for running requests to end after SIGTERM", 0)},
      }};
  return table;
}

void validate(const ServerOptions& options) {
  server_table().validate(options);
  client::PictureHosts{options.image_urls}.check();
  if (options.tls_cert.empty() != options.tls_key.empty())
    throw Error(Code::kBadInput, "found only one, expected both or neither", "--tls-cert and --tls-key");
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

}  // namespace kvasir::serve
