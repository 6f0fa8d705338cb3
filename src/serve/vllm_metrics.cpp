#include "serve/vllm_metrics.hpp"

#include <fmt/format.h>

#include <iterator>
#include <numeric>

#include "kv/page.hpp"

namespace kvasir::serve {
namespace {

class VllmText {
 public:
  explicit VllmText(const std::string& model)
      : labels_(fmt::format("model_name=\"{}\",engine=\"0\"", escaped_label(model))) {}

  void gauge(std::string_view name, std::string_view help, double value) { one(name, "gauge", help, value); }
  void counter(std::string_view name, std::string_view help, std::uint64_t value) {
    one(fmt::format("{}_total", name), "counter", help, static_cast<double>(value));
  }
  void head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(out_), "# HELP vllm:{0} {1}\n# TYPE vllm:{0} {2}\n", name, help, type);
  }
  // A further label of one line.
  void line(std::string_view name, std::string_view label, double value) {
    fmt::format_to(std::back_inserter(out_), "vllm:{}{{{}{}}} {}\n", name, labels_, label, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& h) {
    h.write(out_, fmt::format("vllm:{}", name), help, labels_);
  }
  std::string take() { return std::move(out_); }

 private:
  void one(std::string_view name, std::string_view type, std::string_view help, double value) {
    head(name, type, help);
    line(name, "", value);
  }

  std::string labels_, out_;
};

// Draft tokens by place: accepted at place i are the steps with more than i right ones.
void drafts(VllmText& text, const run::DraftTotals& d) {
  const std::uint64_t steps = std::accumulate(d.histogram.begin(), d.histogram.end(), std::uint64_t{0});
  text.counter("spec_decode_num_drafts", "Steps with draft tokens.", steps);
  text.counter("spec_decode_num_draft_tokens", "Draft tokens that were computed.", d.drafted);
  text.counter("spec_decode_num_accepted_tokens", "Of these: right.", d.accepted);
  constexpr const char* kByPlace = "spec_decode_num_accepted_tokens_per_pos_total";
  text.head(kByPlace, "counter", "Accepted draft tokens by their place.");
  std::uint64_t left = steps;
  for (std::size_t i = 0; i + 1 < d.histogram.size(); ++i) {
    left -= d.histogram[i];
    text.line(kByPlace, fmt::format(",position=\"{}\"", i), static_cast<double>(left));
  }
}

}  // namespace

std::string vllm_metrics_text(const Metrics& metrics, const run::ServiceStats& s, const std::string& model) {
  VllmText text(model);
  text.gauge("num_requests_running", "Requests being computed.", static_cast<double>(s.running));
  text.gauge("num_requests_waiting", "Requests in the queue.", static_cast<double>(s.waiting));
  const double usage = s.pool.pages > 0 ? static_cast<double>(s.pool.used()) / static_cast<double>(s.pool.pages) : 0;
  const std::uint64_t hits = s.reused_tokens + s.relocated_tokens;
  for (const char* name : {"kv_cache_usage_perc", "gpu_cache_usage_perc"})
    text.gauge(name, "Pages in use; 1 is all of them.", usage);
  for (const std::string prefix : {"", "gpu_"}) {
    text.counter(prefix + "prefix_cache_queries", "Tokens of prompts.", s.prompt_tokens);
    text.counter(prefix + "prefix_cache_hits", "Of these: not computed.", hits);
  }
  text.counter("num_preemptions", "Times that a request gave its pages back.", s.preempted);
  text.counter("prompt_tokens", "Tokens of prompts.", s.prompt_tokens);
  text.counter("generation_tokens", "Tokens generated.", s.generated_tokens);
  text.head("request_success_total", "counter", "Requests by how they ended.");
  text.line("request_success_total", ",finished_reason=\"stop\"", static_cast<double>(s.stopped));
  text.line("request_success_total", ",finished_reason=\"length\"", static_cast<double>(s.cut));
  text.line("request_success_total", ",finished_reason=\"abort\"", static_cast<double>(s.cancelled));
  text.histogram("time_to_first_token_seconds", "From the request to its first token.", metrics.first_token);
  for (const char* name : {"inter_token_latency_seconds", "time_per_output_token_seconds"})
    text.histogram(name, "Between tokens of one answer.", metrics.inter_token);
  text.histogram("e2e_request_latency_seconds", "Whole requests.", metrics.request_time);
  if (!s.drafts.histogram.empty()) drafts(text, s.drafts);
  text.head("cache_config_info", "gauge", "Of the page pool.");
  text.line("cache_config_info", fmt::format(",block_size=\"{}\",num_gpu_blocks=\"{}\"", kv::kPageTokens, s.pool.pages),
            1);
  return text.take();
}

}  // namespace kvasir::serve
