// For people: what runs and waits, tokens computed and reused, memory, and what each tier holds and did.
#include "base/clock.hpp"
#include "base/rss.hpp"
#include "run/device_stats.hpp"
#include "run/pictures.hpp"
#include "run/work_json.hpp"
#include "serve/exchange.hpp"
#include "serve/model_json.hpp"
#include "serve/route.hpp"

namespace kvasir::serve::routes_stats {
namespace {

Json tier_json(const run::TierStats& t) {
  return {{"tier", t.tier},       {"bytes", t.bytes},     {"budget", t.budget},   {"records", t.records},
          {"hits", t.hits},       {"misses", t.misses},   {"inserts", t.inserts}, {"evictions", t.evictions},
          {"damaged", t.damaged}, {"foreign", t.foreign}, {"errors", t.errors},   {"dropped", t.dropped},
          {"refused", t.refused}, {"queued", t.queued}};
}

// In milliseconds; quantiles are as fine as the histogram's bounds.
Json times_json(const Histogram& h) {
  const std::uint64_t n = h.count();
  return {{"count", n},
          {"mean", n > 0 ? 1e3 * h.sum() / static_cast<double>(n) : 0},
          {"p50", 1e3 * h.quantile(0.5)},
          {"p90", 1e3 * h.quantile(0.9)}};
}

Json stats_json(const Context& context) {
  const run::ServiceStats s = context.service.stats();
  Json tiers = Json::array();
  for (const run::TierStats& t : s.tiers) tiers.push_back(tier_json(t));
  Json memory;
  if (const auto rss = find_process_rss())
    memory = {{"resident", rss->current}, {"anonymous", rss->anonymous}, {"peak", rss->peak}};
  Json models = Json::array();
  for (const Roster::Entry& m : known_models(context)) {
    models.push_back({{"name", m.card.name}, {"loaded", m.loaded}});
    if (context.shared->roster)
      models.back().update({{"bytes", m.bytes}, {"requests", m.requests}, {"loads", m.loads}});
  }
  if (const Roster* roster = context.shared->roster) memory["models_budget"] = roster->budget();
  Json out{
      {"model", context.service.card().name},
      {"models", std::move(models)},
      {"uptime_seconds", steady_seconds() - context.start},
      {"connections", context.connections.load()},
      {"draining", context.draining.load()},
      {"queue", {{"running", s.running}, {"waiting", s.waiting}}},
      {"requests",
       {{"accepted", s.requests},
        {"rejected", s.rejected},
        {"cancelled", s.cancelled},
        {"failed", s.failed},
        {"preempted", s.preempted}}},
      {"tokens",
       {{"prompt", s.prompt_tokens},
        {"reused", s.reused_tokens},
        {"relocated", s.relocated_tokens},
        {"repaired", s.repaired_tokens},
        {"generated", s.generated_tokens}}},
      {"pages", {{"reused", s.pages.reused}, {"computed", s.pages.computed}, {"sealed", s.pages.sealed}}},
      {"times",
       {{"ttft_ms", times_json(context.metrics.first_token)}, {"total_ms", times_json(context.metrics.request_time)}}},
      {"memory", std::move(memory)},
      {"kv", {{"bytes", s.kv_bytes}, {"budget", s.kv_budget}}},
      {"tiers", std::move(tiers)}};
  out.update(run::work_json(s));
  if (context.pictures) {
    const run::Pictures::Stats p = context.pictures->stats();
    out["pictures"] = {{"read", p.read},
                       {"found", p.found},
                       {"decoded", p.decoded},
                       {"encoded", p.encoded},
                       {"pixels", p.pixels},
                       {"samples", p.samples},
                       {"rows", p.rows},
                       {"seconds", p.seconds},
                       {"bytes", p.bytes},
                       {"reused_rows", s.rows.reused},
                       {"loaded_rows", p.loaded_rows}};
  }
  if (!s.device.name.empty()) out["device"] = run::device_json(s.device, s.products);
  return out;
}

}  // namespace

const Route entry{.method = "GET",
                  .path = "/v1/stats",
                  .open = false,
                  .handle = [](Context& context, const std::shared_ptr<Exchange>& exchange) {
                    exchange->reply(json_response(stats_json(context)));
                  }};

}  // namespace kvasir::serve::routes_stats
