// kvasir bench load: many clients at once, against a server that runs or one of its own.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <thread>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "cli/bench.hpp"
#include "cli/config.hpp"
#include "cli/eval.hpp"
#include "cli/flags.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/numbers.hpp"
#include "cli/serving.hpp"
#include "cli/terminal.hpp"
#include "client/load.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::cli {

namespace {

using client::LoadReport;

struct BenchLoadSettings {
  RemoteOptions remote;
  ServingOptions serving;
  client::LoadOptions load;
  std::string clients = "8";
  bool json = false;
};

double at(const std::vector<float>& values, double share) {
  std::vector<float> copy = values;
  return lab::eval::percentile(copy, share);
}

std::string milliseconds(const std::vector<float>& values, double share) {
  return values.empty() ? "-" : fmt::format("{:.1f}", 1e3 * at(values, share));
}

void print_reports(const std::vector<LoadReport>& reports) {
  std::vector<std::vector<std::string>> table{{"clients", "completed", "refused", "failed", "dropped", "tok/s", "x",
                                               "TTFT p50 ms", "p90", "p99", "gap p50 ms", "p99", "reused",
                                               "fair clients", "fair streams", "running", "waiting", "memory"}};
  const double first = reports.empty() ? 0 : reports.front().tokens_per_second();
  for (const LoadReport& r : reports) {
    const double reused =
        r.prompt_tokens > 0 ? static_cast<double>(r.cached_tokens) / static_cast<double>(r.prompt_tokens) : 0;
    table.push_back({std::to_string(r.clients), std::to_string(r.completed), std::to_string(r.refused),
                     std::to_string(r.failed), std::to_string(r.dropped), fmt::format("{:.1f}", r.tokens_per_second()),
                     first > 0 ? fmt::format("{:.2f}", r.tokens_per_second() / first) : "-", milliseconds(r.ttft, 0.5),
                     milliseconds(r.ttft, 0.9), milliseconds(r.ttft, 0.99), milliseconds(r.gaps, 0.5),
                     milliseconds(r.gaps, 0.99), fmt::format("{:.1f} %", 100 * reused),
                     fmt::format("{:.4f}", r.client_fairness), fmt::format("{:.4f}", r.stream_fairness),
                     std::to_string(r.running), std::to_string(r.waiting),
                     r.memory_most > 0 ? human_bytes(r.memory_most) : "-"});
  }
  print_table(table);
  for (const LoadReport& r : reports) {
    for (const auto& [kind, count] : r.errors) fmt::print("{} clients: {} x {}\n", r.clients, count, kind);
    if (!r.refusals.empty())
      fmt::print("{} clients: refused after {} ms (p50), {} ms (p99)\n", r.clients, milliseconds(r.refusals, 0.5),
                 milliseconds(r.refusals, 0.99));
  }
}

nlohmann::ordered_json json_row(const LoadReport& r) {
  nlohmann::ordered_json errors = nlohmann::ordered_json::object();
  for (const auto& [kind, count] : r.errors) errors[kind] = count;
  return {{"clients", r.clients},
          {"completed", r.completed},
          {"refused", r.refused},
          {"failed", r.failed},
          {"dropped", r.dropped},
          {"errors", errors},
          {"seconds", r.seconds},
          {"prompt_tokens", r.prompt_tokens},
          {"cached_tokens", r.cached_tokens},
          {"completion_tokens", r.completion_tokens},
          {"tokens_per_second", r.tokens_per_second()},
          {"ttft_p50_ms", 1e3 * at(r.ttft, 0.5)},
          {"ttft_p90_ms", 1e3 * at(r.ttft, 0.9)},
          {"ttft_p99_ms", 1e3 * at(r.ttft, 0.99)},
          {"gap_p50_ms", 1e3 * at(r.gaps, 0.5)},
          {"gap_p99_ms", 1e3 * at(r.gaps, 0.99)},
          {"answer_p50_ms", 1e3 * at(r.whole, 0.5)},
          {"answer_p99_ms", 1e3 * at(r.whole, 0.99)},
          {"refused_p99_ms", 1e3 * at(r.refusals, 0.99)},
          {"client_fairness", r.client_fairness},
          {"stream_fairness", r.stream_fairness},
          {"most_connections", r.connections},
          {"most_running", r.running},
          {"most_waiting", r.waiting},
          {"memory_before", r.memory_before},
          {"memory_most", r.memory_most}};
}

// A server in this process on a free port of the loopback address; its memory then includes the clients'.
class OwnServer {
 public:
  explicit OwnServer(ServingOptions options) : serving_(on_free_port(std::move(options)), {}) {
    thread_ = std::thread([this] { serving_.server().run(); });
  }
  ~OwnServer() {
    serving_.server().stop();
    serving_.server().stop();  // what an interrupted run left is not waited for
    thread_.join();
  }
  std::uint16_t port() { return serving_.server().port(); }

 private:
  static ServingOptions on_free_port(ServingOptions options) {
    options.server.host = "127.0.0.1";
    options.server.port = 0;
    return options;
  }
  Serving serving_;
  std::thread thread_;
};

int run_load(BenchLoadSettings s, const Flags& flags) {
  const std::vector<std::int64_t> counts = parse_numbers(s.clients, 1, 1 << 16, "--clients");
  const bool own_server = s.remote.url.empty();
  if (own_server == s.serving.engine.model.empty())
    throw Error(Code::kBadInput, "expected either --url or --model", "bench load");
  if (!own_server)
    check_unused(flags,
                 {run::engine_table().title(), run::scheduler_table().title(), serve_table().title(),
                  reuse_table().title(), serve::server_table().title()},
                 "cannot be used with --url: how that server runs is its own affair");
  if (own_server) s.remote.url = s.serving.server.tls_cert.empty() ? "http://127.0.0.1" : "https://127.0.0.1";
  client::Endpoint endpoint = endpoint_of(s.remote);
  s.serving.server.api_key_file = s.remote.key_file;
  raise_descriptor_limit();
  Interrupt interrupt;
  std::optional<OwnServer> own;
  if (own_server) endpoint.port = std::to_string(own.emplace(s.serving).port());
  const std::string model = s.remote.model.empty() ? client::model_of(endpoint) : s.remote.model;
  std::vector<LoadReport> reports;
  for (const std::int64_t clients : counts) {
    ProgressBar progress(fmt::format("{} clients", clients));
    reports.push_back(client::run_load(
        endpoint, model, static_cast<std::int32_t>(clients), s.load, [&](std::int64_t done, std::int64_t total) {
          progress.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
          return !interrupt.requested().load(std::memory_order_relaxed);
        }));
    progress.finish();
    if (s.json) print_json_row(json_row(reports.back()));
    if (interrupt.requested().load(std::memory_order_relaxed)) break;
  }
  if (!s.json) print_reports(reports);
  return interrupt.requested().load(std::memory_order_relaxed) ? kFailure : kSuccess;
}

}  // namespace

Action setup_bench_load(Flags& flags) {
  auto settings = std::make_shared<BenchLoadSettings>();
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, remote_table(), settings->remote);
  flags.value("--clients", settings->clients, "how many at once; a list is run one after the other: 1,8,64",
              {.placeholder = "LIST"});
  flags.flag("--json", settings->json, "one object per number of clients");
  config->add(flags, client::load_table(), settings->load);
  config->add(flags, run::engine_table(), settings->serving.engine);
  config->add(flags, run::scheduler_table(), settings->serving.scheduler);
  config->add(flags, serve_table(), settings->serving.serve, {"model", "memory"});
  config->add(flags, reuse_table(), settings->serving.reuse);
  config->add(flags, serve::server_table(), settings->serving.server, {"api_key_file"});  // in remote_table
  config->make_optional("--model");
  return [settings, config, &flags] {
    if (!config->resolve()) return kSuccess;
    settings->serving.engine.model = local_model(settings->serving.engine.model);
    return run_load(*settings, flags);
  };
}

}  // namespace kvasir::cli
