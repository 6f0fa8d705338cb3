#include "cli/fits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "kv/page.hpp"
#include "kv/preset.hpp"
#include "kv/spec.hpp"
#include "model/hparams.hpp"
#include "model/spec_fields.hpp"
#include "weights/model_file.hpp"

namespace kvasir::cli {
namespace {

constexpr std::int64_t kMostPages = (std::int64_t{1} << 24) / kv::kPageTokens;  // --ctx takes no more
constexpr const char* kUncompressed = "exact";

std::string with_commas(std::int64_t n) {
  std::string text = std::to_string(n);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string shown_context(const Fit& f) {
  return f.context > 0 ? with_commas(f.context) + (f.limited ? " or more" : "") : "none";
}

run::EnginePlan plan_of(const weights::ModelFile& file, run::EngineOptions o, std::int64_t pages) {
  o.ctx = static_cast<std::int32_t>(pages * kv::kPageTokens);
  return run::plan_engine(file, o, 1, 1);
}

Fit fit_of(const weights::ModelFile& file, const run::EngineOptions& o, const std::string& name, std::int64_t most,
           std::int64_t memory) {
  const auto taken = [&](std::int64_t pages) {
    return static_cast<double>(plan_of(file, o, pages).total() + run::kProgramBytes);
  };
  // Memory grows evenly but for what prompts need, so the place between two known ones is nearly right; every third
  // step halves what is left, in case it is not.
  const auto wanted = static_cast<double>(memory);
  std::int64_t low = 0, high = most;  // low fits
  double at_low = taken(1), at_high = taken(most);
  if (at_high <= wanted) low = most;
  if (at_low > wanted) high = 0;
  for (int step = 1; low < high; ++step) {
    const double part = at_high > at_low ? (wanted - at_low) / (at_high - at_low) : 0.5;
    const auto guess = low + static_cast<std::int64_t>(part * static_cast<double>(high - low));
    const std::int64_t middle = step % 3 == 0 ? low + (high - low + 1) / 2 : std::clamp(guess, low + 1, high);
    const double here = taken(middle);
    if (here <= wanted)
      low = middle, at_low = here;
    else
      high = middle - 1, at_high = here;
  }
  return Fit{.kv = name,
             .context = low * kv::kPageTokens,
             .limited = low == most,
             .bytes_per_token = plan_of(file, o, 1).cache.bytes_per_token};
}

bool names_codecs(const run::EngineOptions& o) {
  return !o.kv.empty() || !o.k_codec.empty() || !o.v_codec.empty() || o.computes_exactly();
}

bool stores_all(const std::string& preset, const model::ModelSpec& spec) {
  bool all = true;
  model::for_each<model::Attention>(spec,
                                    [&](const model::Attention& a) { all = all && kv::stores(preset, a.d, a.dv); });
  return all;
}

}  // namespace

Fits what_fits(const std::string& path, const run::EngineOptions& asked, std::int64_t memory) {
  run::EngineOptions o = asked;
  o.model = path;
  // By default what does not fit into *this* machine is read from a file; the question is about another one.
  if (o.weights_memory.empty() && o.weights_mode == "auto") o.weights_mode = "full_resident";
  const auto file = run::open_model(o);
  const model::ModelSpec spec = model::read_spec(*file, run::kDefaultContext);
  Fits fits{.model = std::filesystem::path(path).filename().string(), .trained = spec.context};
  const std::int64_t positions = spec.most_positions();
  const std::int64_t most =
      positions > 0 ? std::min(kMostPages, std::max<std::int64_t>(1, positions / kv::kPageTokens)) : kMostPages;
  const auto add = [&](const run::EngineOptions& with, const std::string& name) {
    fits.caches.push_back(fit_of(*file, with, name, most, memory));
  };
  run::EngineOptions f16 = o;
  f16.kv = kUncompressed;
  f16.k_codec = f16.v_codec = f16.kv_layers = "";
  fits.weight_bytes = plan_of(*file, f16, 1).weight_bytes;
  add(f16, "f16");
  if (names_codecs(o)) {
    add(o, run::kv_name(o, spec));
    return fits;
  }
  for (const auto& preset : kv::presets()) {
    const std::string name(preset.name);
    if (name == kUncompressed || !stores_all(name, spec)) continue;
    run::EngineOptions with = o;
    with.kv = name;
    add(with, name);
  }
  std::stable_sort(fits.caches.begin() + 1, fits.caches.end(),
                   [](const Fit& a, const Fit& b) { return a.bytes_per_token > b.bytes_per_token; });
  return fits;
}

static void print_one(const Fits& m, const std::string& memory) {
  fmt::print("{}: weights of {}, made for texts of {} tokens\nin {} fit\n", m.model,
             human_bytes(static_cast<std::uint64_t>(m.weight_bytes)), with_commas(m.trained), memory);
  for (const Fit& f : m.caches)
    fmt::print("  {:<12} {:>19} tokens  {:>11} each\n", f.kv, shown_context(f),
               human_bytes(static_cast<std::uint64_t>(f.bytes_per_token)));
}

// Of presets the rotated ones: the others are other programs' rules.
static std::vector<std::string> columns_of(const std::vector<Fits>& models) {
  std::vector<std::string> names;
  for (const Fits& m : models)
    for (const Fit& f : m.caches) {
      const auto* preset = find(kv::presets(), f.kv);
      const bool shown = !preset || std::string_view(preset->k).starts_with("rq");
      if (shown && std::find(names.begin(), names.end(), f.kv) == names.end()) names.push_back(f.kv);
    }
  return names;
}

void print_fits(const std::vector<Fits>& models, const std::string& memory) {
  if (models.size() == 1) return print_one(models.front(), memory);
  const std::vector<std::string> columns = columns_of(models);
  std::size_t width = 5;
  for (const Fits& m : models) width = std::max(width, m.model.size());
  fmt::print("longest contexts in {}\n{:<{}} {:>10} {:>10}", memory, "model", width, "weights", "made for");
  for (const std::string& c : columns) fmt::print(" {:>18}", c);
  fmt::print("\n");
  for (const Fits& m : models) {
    fmt::print("{:<{}} {:>10} {:>10}", m.model, width, human_bytes(static_cast<std::uint64_t>(m.weight_bytes)),
               with_commas(m.trained));
    for (const std::string& c : columns) {
      const auto at = std::find_if(m.caches.begin(), m.caches.end(), [&](const Fit& f) { return f.kv == c; });
      fmt::print(" {:>18}", at == m.caches.end() ? "-" : shown_context(*at));
    }
    fmt::print("\n");
  }
}

void print_fits_json(const std::vector<Fits>& models, std::int64_t memory) {
  for (const Fits& m : models) {
    auto caches = nlohmann::ordered_json::array();
    for (const Fit& f : m.caches)
      caches.push_back(
          {{"kv", f.kv}, {"context", f.context}, {"limited", f.limited}, {"kv_bytes_per_token", f.bytes_per_token}});
    print_json_row({{"model", m.model},
                    {"memory", memory},
                    {"weight_bytes", m.weight_bytes},
                    {"trained_context", m.trained},
                    {"caches", std::move(caches)}});
  }
}

}  // namespace kvasir::cli
