// The server that kvasir bench load and replay ask.
#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "cli/bench.hpp"
#include "cli/flags.hpp"
#include "serve/keys.hpp"

namespace kvasir::cli {

const OptionTable<RemoteOptions>& remote_table() {
  using O = RemoteOptions;
  static const OptionTable<O> t{
      "server to ask",
      {{"url",
        &O::url,
        {.help = "a running OpenAI-compatible server, in place of --model", .placeholder = "http[s]://HOST:PORT"}},
       {"url_model", &O::model, {.help = "which of its models; default: the first one", .placeholder = "NAME"}},
       {"api_key_file",
        &O::key_file,
        {.help = "the server's API keys, one `KEY [TENANT]` a line; the first is sent", .placeholder = "FILE"}},
       {"api_key_env",
        &O::key_env,
        {.help = "environment variable that holds the API key that is sent", .placeholder = "NAME"}},
       {"ca_file",
        &O::ca_file,
        {.help = "authorities (PEM) for the server's certificate, in place of the system's", .placeholder = "FILE"}}}};
  return t;
}

namespace {

std::string key_of(const RemoteOptions& o) {
  if (!o.key_env.empty() && !o.key_file.empty())
    throw Error(Code::kBadInput, "expected one of --api-key-env and --api-key-file", "bench");
  if (!o.key_file.empty()) return serve::first_key(o.key_file);
  if (o.key_env.empty()) return "";
  const char* key = std::getenv(o.key_env.c_str());
  if (!key) throw Error(Code::kBadInput, "names '" + o.key_env + "', which is not in the environment", "--api-key-env");
  return *key ? key : throw Error(Code::kBadInput, "names '" + o.key_env + "', which is empty", "--api-key-env");
}

}  // namespace

client::Endpoint endpoint_of(const RemoteOptions& o) {
  client::Endpoint endpoint = client::parse_endpoint(o.url, "--url");
  endpoint.key = key_of(o);
  if (!std::all_of(endpoint.key.begin(), endpoint.key.end(), [](char c) { return c > ' ' && c < '\x7f'; }))
    throw Error(Code::kBadInput, "holds a key with blanks or unusual characters, expected printable ASCII",
                o.key_file.empty() ? "--api-key-env" : "--api-key-file");
  endpoint.ca_file = o.ca_file;
  if (!o.ca_file.empty() && !endpoint.tls)
    throw Error(Code::kBadInput, "has no use without TLS, expected https:// in --url", "--ca-file");
  return endpoint;
}

void check_unused(const Flags& flags, std::initializer_list<std::string_view> groups, const std::string& why) {
  if (const std::string name = flags.given(groups); !name.empty()) throw Error(Code::kBadInput, why, name);
}

}  // namespace kvasir::cli
