#include "serve/metrics.hpp"

#include <fmt/format.h>

#include <iterator>

#include "base/rss.hpp"

namespace kvasir::serve {
namespace {

void head(std::string& out, std::string_view name, std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void counter(std::string& out, std::string_view name, std::string_view help, std::uint64_t value) {
  head(out, name, "counter", help);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

void gauge(std::string& out, std::string_view name, std::string_view help, double value) {
  head(out, name, "gauge", help);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
}

void tier_family(std::string& out, const run::ServiceStats& stats, std::string_view name, std::string_view type,
                 std::string_view help, std::uint64_t run::TierStats::*member) {
  if (stats.tiers.empty()) return;
  head(out, name, type, help);
  for (const run::TierStats& tier : stats.tiers)
    fmt::format_to(std::back_inserter(out), "{}{{tier=\"{}\"}} {}\n", name, escaped_label(tier.tier), tier.*member);
}

void seconds_counter(std::string& out, std::string_view name, std::string_view help, double seconds) {
  head(out, name, "counter", help);
  fmt::format_to(std::back_inserter(out), "{} {}\n", name, seconds);
}

void weights_text(std::string& out, const weights::StreamStats& w) {
  counter(out, "kvasir_weights_read_bytes_total", "Bytes of weights read from the packed file.", w.bytes_read);
  counter(out, "kvasir_weights_blocks_total", "Blocks of weights that steps asked for.", w.blocks);
  counter(out, "kvasir_weights_late_total", "Of these: had to be waited for.", w.late);
  counter(out, "kvasir_weights_retries_total", "Reads that failed, ended early or gave damaged bytes.", w.retries);
  counter(out, "kvasir_weights_experts_total", "Experts that steps used, of those that are not all in memory.",
          w.experts);
  counter(out, "kvasir_weights_experts_read_total", "Of these: were not in memory.", w.experts_read);
  counter(out, "kvasir_weights_experts_ahead_total", "Experts that were read because they might be used.",
          w.experts_ahead);
  seconds_counter(out, "kvasir_weights_stall_seconds_total", "Time that steps waited for weights.", w.stall_seconds);
  seconds_counter(out, "kvasir_weights_busy_seconds_total", "Time in which weights were being read.", w.busy_seconds);
}

void work_text(std::string& out, const run::ServiceStats& s) {
  gauge(out, "kvasir_pages", "Pages of the cache's pool, of 128 tokens.", static_cast<double>(s.pool.pages));
  gauge(out, "kvasir_pages_free", "Of these: free.", static_cast<double>(s.pool.free));
  gauge(out, "kvasir_pages_shared", "Of those in use: by more than one sequence.", static_cast<double>(s.pool.shared));
  const run::StepStats& w = s.work;
  counter(out, "kvasir_steps_total", "Steps in which answers grew.", w.steps);
  counter(out, "kvasir_step_answers_total",
          "Answers that grew, added up over these steps: the batch size is the quotient.", w.answers);
  gauge(out, "kvasir_step_answers_most", "Most answers that grew in one step.", static_cast<double>(w.most_answers));
  counter(out, "kvasir_step_answer_tokens_total", "Tokens that these steps gave.", w.answer_tokens);
  seconds_counter(out, "kvasir_step_answer_seconds_total", "Time of these steps.", w.answer_seconds);
  counter(out, "kvasir_step_prompt_tokens_total", "Tokens of prompts that steps computed.", w.prompt_tokens);
  seconds_counter(out, "kvasir_step_prompt_seconds_total", "Time of steps that computed prompts.", w.prompt_seconds);
  if (w.prompt_seconds > 0)
    gauge(out, "kvasir_prompt_tokens_per_second", "While prompts were computed, since the start.", w.prompt_rate());
  if (w.answer_seconds > 0)
    gauge(out, "kvasir_generated_tokens_per_second", "While answers grew, since the start.", w.answer_rate());
  if (s.prompt_tokens > 0)
    gauge(out, "kvasir_hit_share", "Of the tokens of prompts the share that was not computed.", s.hit_share());
  counter(out, "kvasir_drafted_tokens_total", "Draft tokens that were computed.", s.drafts.drafted);
  counter(out, "kvasir_draft_accepted_tokens_total", "Of these: right.", s.drafts.accepted);
}

void engine_text(std::string& out, const run::ServiceStats& s) {
  gauge(out, "kvasir_running_requests", "Requests being computed.", static_cast<double>(s.running));
  gauge(out, "kvasir_waiting_requests", "Requests in the queue.", static_cast<double>(s.waiting));
  gauge(out, "kvasir_kv_bytes", "Bytes of the page pool in use.", static_cast<double>(s.kv_bytes));
  gauge(out, "kvasir_kv_budget_bytes", "Bytes of the page pool.", static_cast<double>(s.kv_budget));
  counter(out, "kvasir_engine_prompt_tokens_total", "Tokens of prompts.", s.prompt_tokens);
  counter(out, "kvasir_engine_reused_tokens_total", "Tokens of prompts that were not computed again.", s.reused_tokens);
  counter(out, "kvasir_engine_relocated_tokens_total", "Tokens of prompts that were read at another place.",
          s.relocated_tokens);
  counter(out, "kvasir_engine_repaired_tokens_total", "Tokens known at another place that were computed again.",
          s.repaired_tokens);
  counter(out, "kvasir_engine_generated_tokens_total", "Tokens generated.", s.generated_tokens);
  counter(out, "kvasir_engine_requests_total", "Requests accepted by the engine.", s.requests);
  counter(out, "kvasir_engine_rejected_total", "Requests that the engine refused.", s.rejected);
  counter(out, "kvasir_engine_cancelled_total", "Requests that were cancelled.", s.cancelled);
  counter(out, "kvasir_engine_failed_total", "Requests that failed.", s.failed);
  counter(out, "kvasir_engine_preempted_total", "Times that a request gave its pages back and was computed again.",
          s.preempted);
  work_text(out, s);
  const kv::SelectionStats::Layer& choice = s.selection;
  counter(out, "kvasir_select_chosen_total", "Steps and layers that read a choice of blocks.",
          static_cast<std::uint64_t>(choice.chosen));
  counter(out, "kvasir_select_dense_total", "Of these: read everything, because a choice held too little mass.",
          static_cast<std::uint64_t>(choice.dense));
  counter(out, "kvasir_select_read_tokens_total", "Tokens that they read.", static_cast<std::uint64_t>(choice.read));
  counter(out, "kvasir_select_seen_tokens_total", "Tokens that dense attention would have read.",
          static_cast<std::uint64_t>(choice.seen));
  counter(out, "kvasir_select_measured_total", "Of these steps and layers: whose choice was measured.",
          static_cast<std::uint64_t>(choice.measured));
  if (choice.measured > 0) {
    gauge(out, "kvasir_select_mass", "Share of the attention mass that measured choices held, mean.",
          choice.mass / static_cast<double>(choice.measured));
    gauge(out, "kvasir_select_least_mass", "The least of them.", choice.least);
  }
  if (s.streams) weights_text(out, s.weights);
  if (*s.disk.how) {
    counter(out, "kvasir_kv_disk_read_bytes_total", "Bytes of cache pages read from the page file.", s.disk.read_bytes);
    counter(out, "kvasir_kv_disk_written_bytes_total", "Bytes of cache pages written to it.", s.disk.written_bytes);
    counter(out, "kvasir_kv_disk_hits_total", "Pages of a layer and KV head that were in memory.", s.disk.hits);
    counter(out, "kvasir_kv_disk_misses_total", "Pages of a layer and KV head that had to be read.", s.disk.misses);
    gauge(out, "kvasir_kv_disk_stall_seconds", "Time that threads have waited for the page file, added up.",
          s.disk.stall_seconds);
  }
  if (!s.device.name.empty()) {
    gauge(out, "kvasir_device_pages", "Cache pages that the device holds.", static_cast<double>(s.device.held_pages));
    counter(out, "kvasir_device_uploaded_bytes_total", "Bytes of cache pages copied to it.", s.device.uploaded_bytes);
    counter(out, "kvasir_device_folded_groups_total", "Groups of pages folded there, times rows of a KV head.",
            s.device.folded_groups);
    counter(out, "kvasir_device_refused_total", "Layers of a step that it left to the processor.",
            s.device.refused_folds);
    gauge(out, "kvasir_device_wait_seconds", "Time that the processor has waited for it.", s.device.wait_seconds);
    counter(out, "kvasir_device_products_total", "Products of weights with rows of prompts that it made.",
            s.products.products);
    counter(out, "kvasir_device_weights_uploaded_bytes_total", "Bytes of weights and rows copied to it.",
            s.products.uploaded_bytes);
    gauge(out, "kvasir_device_products_wait_seconds", "Time that the processor has waited for products.",
          s.products.seconds);
    gauge(out, "kvasir_device_products_lost", "1: it failed, and the processor multiplies.",
          s.products.lost.empty() ? 0 : 1);
    gauge(out, "kvasir_device_lost", "1: it failed, and the processor folds.", s.device.lost.empty() ? 0 : 1);
  }
  using T = run::TierStats;
  tier_family(out, s, "kvasir_tier_bytes", "gauge", "Bytes stored.", &T::bytes);
  tier_family(out, s, "kvasir_tier_budget_bytes", "gauge", "Bytes that may be stored.", &T::budget);
  tier_family(out, s, "kvasir_tier_records", "gauge", "Records stored.", &T::records);
  tier_family(out, s, "kvasir_tier_hits_total", "counter", "Lookups that found their record.", &T::hits);
  tier_family(out, s, "kvasir_tier_misses_total", "counter", "Lookups that found nothing that can be used.",
              &T::misses);
  tier_family(out, s, "kvasir_tier_inserts_total", "counter", "Records written.", &T::inserts);
  tier_family(out, s, "kvasir_tier_evictions_total", "counter", "Records dropped to stay in the budget.",
              &T::evictions);
  tier_family(out, s, "kvasir_tier_damaged_total", "counter", "Records found that were not what was stored.",
              &T::damaged);
  tier_family(out, s, "kvasir_tier_foreign_total", "counter", "Records found that another model or version wrote.",
              &T::foreign);
  tier_family(out, s, "kvasir_tier_errors_total", "counter", "Calls that failed, and lookups that it could not queue.",
              &T::errors);
  tier_family(out, s, "kvasir_tier_dropped_total", "counter",
              "Records not written: the queue was full, or the call failed.", &T::dropped);
  tier_family(out, s, "kvasir_tier_refused_total", "counter", "Records that the tier had no room for.", &T::refused);
}

}  // namespace

std::string escaped_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

void Histogram::observe(double seconds, std::uint64_t times) {
  std::size_t i = 0;
  while (i < kBounds.size() && seconds > kBounds[i]) ++i;
  buckets_[i].fetch_add(times, std::memory_order_relaxed);
  sum_.fetch_add(seconds * static_cast<double>(times), std::memory_order_relaxed);
}

std::uint64_t Histogram::count() const {
  std::uint64_t all = 0;
  for (const auto& b : buckets_) all += b.load(std::memory_order_relaxed);
  return all;
}

double Histogram::quantile(double q) const {
  const double rank = q * static_cast<double>(count());
  double below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    const auto here = static_cast<double>(buckets_[i].load(std::memory_order_relaxed));
    if (here > 0 && below + here >= rank) {
      const double low = i > 0 ? kBounds[i - 1] : 0;
      return low + (kBounds[i] - low) * (rank - below) / here;
    }
    below += here;
  }
  return rank > 0 ? kBounds.back() : 0;
}

void Histogram::write(std::string& out, std::string_view name, std::string_view help, std::string_view labels) const {
  head(out, name, "histogram", help);
  const std::string more = labels.empty() ? "" : fmt::format("{},", labels);
  const std::string all = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < kBounds.size(); ++i) {
    below += buckets_[i].load(std::memory_order_relaxed);
    fmt::format_to(std::back_inserter(out), "{}_bucket{{{}le=\"{}\"}} {}\n", name, more, kBounds[i], below);
  }
  below += buckets_[kBounds.size()].load(std::memory_order_relaxed);
  fmt::format_to(std::back_inserter(out), "{0}_bucket{{{3}le=\"+Inf\"}} {1}\n{0}_sum{4} {2}\n{0}_count{4} {1}\n", name,
                 below, sum_.load(std::memory_order_relaxed), more, all);
}

void Metrics::count_request(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(route), status}];
}

std::string Metrics::text(const run::ServiceStats& stats, std::int64_t open_connections, double uptime) const {
  std::string out;
  head(out, "kvasir_http_requests_total", "counter", "Requests by route and status.");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, n] : requests_)
      fmt::format_to(std::back_inserter(out), "kvasir_http_requests_total{{route=\"{}\",status=\"{}\"}} {}\n",
                     escaped_label(key.first), key.second, n);
  }
  gauge(out, "kvasir_http_connections", "Open connections.", static_cast<double>(open_connections));
  counter(out, "kvasir_http_connections_total", "Connections accepted.", connections.load());
  counter(out, "kvasir_http_connections_refused_total", "Connections over the limit.", refused.load());
  counter(out, "kvasir_http_disconnects_total", "Generations cancelled because the client went away.",
          disconnects.load());
  counter(out, "kvasir_http_slow_readers_total", "Connections closed because the client did not read.",
          slow_readers.load());
  counter(out, "kvasir_prompt_tokens_total", "Tokens of prompts answered.", prompt_tokens.load());
  counter(out, "kvasir_cached_tokens_total", "Of these: not computed again.", cached_tokens.load());
  counter(out, "kvasir_remembered_tokens_total", "Tokens of prompts that were taken from remembered answers.",
          remembered_tokens.load());
  counter(out, "kvasir_completion_tokens_total", "Tokens of answers.", completion_tokens.load());
  first_token.write(out, "kvasir_time_to_first_token_seconds", "From the request to its first token.");
  inter_token.write(out, "kvasir_inter_token_seconds", "Between tokens of one answer.");
  request_time.write(out, "kvasir_request_seconds", "Whole generation requests.");
  engine_text(out, stats);
  if (const auto rss = find_process_rss())
    gauge(out, "process_resident_memory_bytes", "Memory of the server.", static_cast<double>(rss->current));
  gauge(out, "kvasir_uptime_seconds", "Since the start.", uptime);
  return out;
}

std::string picture_metrics_text(const run::Pictures::Stats& p) {
  const auto count = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  std::string out;
  counter(out, "kvasir_pictures_read_total", "Pictures that requests had.", count(p.read));
  counter(out, "kvasir_pictures_found_total", "Of these: the same picture was in memory.", count(p.found));
  counter(out, "kvasir_pictures_decoded_total", "Files that were decoded.", count(p.decoded));
  counter(out, "kvasir_pictures_encoded_total", "Pictures that the encoder computed.", count(p.encoded));
  counter(out, "kvasir_picture_pixels_total", "Pixels of these, as they were resized.", count(p.pixels));
  counter(out, "kvasir_sound_samples_total", "Samples of sounds among these, as they were resampled.",
          count(p.samples));
  counter(out, "kvasir_picture_rows_total", "Rows that came of these.", count(p.rows));
  counter(out, "kvasir_picture_rows_loaded_total", "Rows that tiers had, so that they were not computed.",
          count(p.loaded_rows));
  seconds_counter(out, "kvasir_picture_seconds_total", "Time of the encoder.", p.seconds);
  gauge(out, "kvasir_picture_memory_bytes", "Bytes of pictures that are kept.", static_cast<double>(p.bytes));
  return out;
}

}  // namespace kvasir::serve
