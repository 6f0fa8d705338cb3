// kvasir inspect MODEL: what a model file holds.
#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/fits.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "kv/spec.hpp"
#include "model/hparams.hpp"
#include "model/spec_fields.hpp"
#include "model/unused.hpp"
#include "run/engine.hpp"
#include "store/spec.hpp"
#include "weights/model_file.hpp"
#include "weights/rounded_file.hpp"

namespace kvasir::cli::commands_inspect {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string path;  // of `models`, the one
  std::vector<std::string> models;
  std::string memory;  // what is to fit into it; empty: not asked
  bool json = false;
  bool full = false;          // long arrays and strings in full
  run::EngineOptions engine;  // for the memory plan
};

constexpr std::size_t kShortArray = 8;   // elements of an array, unless --full
constexpr std::size_t kShortText = 120;  // bytes of a string, unless --full

// Text from the file without bytes that would steer a terminal: C0, DEL and C1 controls become \xHH.
std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) - 0x80u < 0x20u;
    if (c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
    } else if (c1) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return out;
}

// Cut between characters of UTF-8.
std::string_view shortened(std::string_view text, bool full) {
  if (full || text.size() <= kShortText) return text;
  std::size_t n = kShortText;
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  return text.substr(0, n);
}

std::string text_of(bool v, bool) { return v ? "true" : "false"; }
std::string text_of(std::int64_t v, bool) { return std::to_string(v); }
std::string text_of(std::uint64_t v, bool) { return std::to_string(v); }
std::string text_of(double v, bool) { return fmt::format("{:g}", v); }
std::string text_of(const std::string& v, bool full) {
  const std::string_view s = shortened(v, full);
  return s.size() == v.size() ? printable(v) : fmt::format("{}… ({} bytes)", printable(s), v.size());
}
template <class T>
std::string text_of(const std::vector<T>& v, bool full) {
  std::string out = fmt::format("[{}]", v.size());
  const std::size_t n = full ? v.size() : std::min(v.size(), kShortArray);
  for (std::size_t i = 0; i < n; ++i) out += (i ? ", " : " ") + text_of(static_cast<T>(v[i]), full);
  return n < v.size() ? out + ", …" : out;
}

// Long arrays become {"length", "first"}.
template <class T>
Json json_of(const T& v, bool) {
  return v;
}
template <class T>
Json json_of(const std::vector<T>& v, bool full) {
  if (full || v.size() <= kShortArray) return v;
  return {{"length", v.size()}, {"first", std::vector<T>(v.begin(), v.begin() + kShortArray)}};
}

std::string shape_text(const weights::TensorInfo& t) {
  std::string out = std::to_string(t.shape[0]);
  for (int d = 1; d < t.rank; ++d) out += fmt::format(" x {}", t.shape[static_cast<std::size_t>(d)]);
  return out;
}

struct Total {
  std::uint64_t tensors = 0, parameters = 0, bytes = 0;
  void add(const weights::TensorInfo& t) {
    ++tensors;
    parameters += static_cast<std::uint64_t>(t.columns() * t.rows());
    bytes += static_cast<std::uint64_t>(t.row_bytes() * t.rows());
  }
};

void print_metadata(const weights::ModelFile& model, const Options& o) {
  fmt::print("metadata ({} keys)\n", model.metadata().all().size());
  for (const auto& [key, value] : model.metadata().all())
    fmt::print("  {:<44} {}\n", printable(key), std::visit([&](const auto& v) { return text_of(v, o.full); }, value));
}

Json metadata_json(const weights::ModelFile& model, const Options& o) {
  Json out = Json::object();
  for (const auto& [key, value] : model.metadata().all())
    out[key] = std::visit([&](const auto& v) { return json_of(v, o.full); }, value);
  return out;
}

void print_tensors(const weights::ModelFile& model, const Options&) {
  fmt::print("tensors ({})\n", model.tensors().size());
  for (const auto& tensor : model.tensors()) {
    const weights::TensorInfo t = tensor.kept();
    fmt::print("  {:<32} {:<5} {:>20} {:>11}\n", printable(t.name), t.quant, shape_text(t),
               human_bytes(static_cast<std::uint64_t>(t.row_bytes() * t.rows())));
  }
}

Json tensors_json(const weights::ModelFile& model, const Options&) {
  Json out = Json::array();
  for (const auto& tensor : model.tensors()) {
    const weights::TensorInfo t = tensor.kept();
    out.push_back({{"name", t.name},
                   {"type", t.quant},
                   {"shape", std::vector<std::int64_t>(t.shape.begin(), t.shape.begin() + t.rank)},
                   {"bytes", static_cast<std::uint64_t>(t.row_bytes() * t.rows())}});
  }
  return out;
}

std::map<std::string, Total> totals(const weights::ModelFile& model) {
  std::map<std::string, Total> by_type;
  for (const auto& t : model.tensors()) by_type[t.kept().quant].add(t.kept());
  return by_type;
}

void print_totals(const weights::ModelFile& model, const Options&) {
  Total all;
  for (const auto& t : model.tensors()) all.add(t.kept());
  fmt::print("totals\n");
  const auto row = [](const std::string& name, const Total& t) {
    fmt::print("  {:<5} {:>5} tensors {:>16} parameters {:>11} {:>6.2f} bits each\n", name, t.tensors, t.parameters,
               human_bytes(t.bytes),
               t.parameters ? 8.0 * static_cast<double>(t.bytes) / static_cast<double>(t.parameters) : 0);
  };
  for (const auto& [quant, t] : totals(model)) row(quant, t);
  row("all", all);
}

Json totals_json(const weights::ModelFile& model, const Options&) {
  Json out = Json::object();
  Total all;
  for (const auto& t : model.tensors()) all.add(t.kept());
  const auto row = [](const Total& t) {
    return Json{{"tensors", t.tensors}, {"parameters", t.parameters}, {"bytes", t.bytes}};
  };
  for (const auto& [quant, t] : totals(model)) out["types"][quant] = row(t);
  out["all"] = row(all);
  return out;
}

// With the context of `kvasir run`: it decides which factors a LongRoPE has.
model::ModelSpec spec_of(const weights::ModelFile& model, const Options& o) {
  return model::read_spec(model, o.engine.ctx > 0 ? o.engine.ctx : run::kDefaultContext);
}

// Layers that are alike are one row.
struct Run {
  int first, last;
  std::string text;
};
std::vector<Run> runs_of(const model::ModelSpec& spec) {
  std::vector<Run> runs;
  for (int l = 0; l < spec.layer_count(); ++l) {
    const std::string text = model::summary_of(spec.layers[static_cast<std::size_t>(l)], spec);
    if (!runs.empty() && runs.back().text == text)
      runs.back().last = l;
    else
      runs.push_back({l, l, text});
  }
  return runs;
}

void print_layers(const weights::ModelFile& model, const Options& o) {
  try {
    const model::ModelSpec spec = spec_of(model, o);
    fmt::print("layers ({})\n", spec.layer_count());
    for (const Run& r : runs_of(spec)) fmt::print("  {:<10} {}\n", fmt::format("{}-{}", r.first, r.last), r.text);
  } catch (const Error& e) {
    fmt::print("no layers: {}\n", e.message());
  }
}

Json layers_json(const weights::ModelFile& model, const Options& o) {
  try {
    Json out = Json::array();
    for (const Run& r : runs_of(spec_of(model, o)))
      out.push_back({{"first", r.first}, {"last", r.last}, {"text", r.text}});
    return out;
  } catch (const Error& e) {
    return {{"error", e.message()}};
  }
}

// Tensors that are read by nothing, where that changes nothing.
std::vector<model::UnusedTensor> unused(const weights::ModelFile& model, const Options& o) {
  std::vector<model::UnusedTensor> list;
  try {
    list = model::unused_tensors(spec_of(model, o), model);
  } catch (const Error&) {  // print_layers says it
  }
  std::erase_if(list, [](const model::UnusedTensor& t) { return t.reason == nullptr; });
  return list;
}

void print_unused(const weights::ModelFile& model, const Options& o) {
  const auto list = unused(model, o);
  if (list.empty()) return;
  fmt::print("not used ({})\n", list.size());
  for (const auto& t : list) fmt::print("  {:<32} {}\n", printable(t.tensor->name), t.reason);
}

Json unused_json(const weights::ModelFile& model, const Options& o) {
  Json out = Json::array();
  for (const auto& t : unused(model, o)) out.push_back({{"name", t.tensor->name}, {"reason", t.reason}});
  return out;
}

// Nothing is loaded for the plan; a model that cannot be run says why instead.
void print_plan(const weights::ModelFile& model, const Options& o) {
  try {
    const run::EnginePlan p = run::plan_engine(model, o.engine, 1, 1);
    const kv::MemoryPlan& c = p.cache;
    const auto row = [](const char* label, std::int64_t bytes, const std::string& note) {
      fmt::print("  {:<16} {:>11}  {}\n", label, human_bytes(static_cast<std::uint64_t>(bytes)), note);
    };
    if (!p.note.empty()) fmt::print("  ({})\n", p.note);
    const auto bytes = [](std::size_t n) { return static_cast<std::int64_t>(n); };
    fmt::print("memory plan for a context of {} tokens\n", p.context);
    row("weights", p.weight_bytes,
        p.residency.needs_file() ? "packed: " + p.residency.text() : "packed for this machine");
    row("sealed pages", bytes(c.sealed_bytes),
        fmt::format("{} pages of 128 tokens; {} per token ({})", c.pages,
                    human_bytes(static_cast<std::uint64_t>(c.bytes_per_token)), kv::codecs_text(p.codecs)));
    if (c.disk_bytes > 0) row("pages on disk", bytes(c.disk_bytes), "in a file; of them in memory: the line above");
    if (c.local_bytes > 0)
      row("local pages", bytes(c.local_bytes), "sealed, of layers with a window, whatever the context");
    row("raw windows", bytes(c.raw_bytes),
        o.engine.residual < 0 ? fmt::format("the newest tokens, window {}", o.engine.window)
                              : fmt::format("the newest tokens, residual {}", o.engine.residual));
    row("sinks", bytes(c.sink_bytes), fmt::format("the first {} tokens", o.engine.sinks));
    if (c.recurrent_bytes > 0)
      row("states", bytes(c.recurrent_bytes),
          "of recurrent layers, and rows of the page that fills, whatever the context");
    row("codec state", bytes(c.state_bytes), "");
    row("scratch", bytes(c.scratch_bytes) + p.scratch_bytes,
        fmt::format("for prompts {} tokens at a time", o.engine.chunk));
    row("loading", p.load_bytes, "beside the weights while they are packed, and then free");
    row("all", p.total(), "the most at a time");
  } catch (const Error& e) {
    fmt::print("no memory plan: {}\n", e.message());
  }
}

Json plan_json(const weights::ModelFile& model, const Options& o) {
  try {
    const run::EnginePlan p = run::plan_engine(model, o.engine, 1, 1);
    const kv::MemoryPlan& c = p.cache;
    return {{"context", p.context},
            {"weight_bytes", p.weight_bytes},
            {"streamed_bytes", p.residency.streamed_bytes},
            {"mapped_bytes", p.residency.mapped_bytes},
            {"sealed_bytes", c.sealed_bytes},
            {"disk_bytes", c.disk_bytes},
            {"local_bytes", c.local_bytes},
            {"raw_bytes", c.raw_bytes},
            {"sink_bytes", c.sink_bytes},
            {"recurrent_bytes", c.recurrent_bytes},
            {"state_bytes", c.state_bytes},
            {"scratch_bytes", static_cast<std::int64_t>(c.scratch_bytes) + p.scratch_bytes},
            {"load_bytes", p.load_bytes},
            {"total_bytes", p.total()},
            {"kv_bytes_per_token", c.bytes_per_token},
            {"k_codec", kv::codecs_text(p.codecs, kv::Side::kKeys)},
            {"v_codec", kv::codecs_text(p.codecs, kv::Side::kValues)},
            {"note", p.note}};
  } catch (const Error& e) {
    return {{"error", e.message()}};
  }
}

// The report, part by part.
struct Section {
  const char* name;  // key in the JSON object
  void (*print)(const weights::ModelFile&, const Options&);
  Json (*json)(const weights::ModelFile&, const Options&);
};
constexpr Section kSections[] = {{"metadata", print_metadata, metadata_json}, {"tensors", print_tensors, tensors_json},
                                 {"totals", print_totals, totals_json},       {"layers", print_layers, layers_json},
                                 {"unused", print_unused, unused_json},       {"plan", print_plan, plan_json}};

int inspect(const Options& o) {
  auto model = weights::open_model_file(o.path);
  if (!o.engine.weights.empty()) model = weights::rounded(std::move(model), o.engine.weights);
  std::uint64_t bytes = 0;
  for (const MappedFile& file : model->files()) bytes += file.bytes().size();
  // A model that cannot be run still shows what it holds; a cache that was asked for and cannot be is an error.
  const run::EngineOptions& e = o.engine;
  if (!e.kv.empty() || !e.k_codec.empty() || !e.v_codec.empty() || !e.kv_layers.empty())
    run::plan_engine(*model, e, 1, 1);
  if (o.json) {
    Json report = {{"file", o.path}, {"bytes", bytes}, {"files", model->files().size()}};
    for (const Section& s : kSections) report[s.name] = s.json(*model, o);
    print_json_row(report);
    return kSuccess;
  }
  const std::size_t files = model->files().size();
  fmt::print("{} ({}{})\n", o.path, human_bytes(bytes), files > 1 ? fmt::format(" in {} files", files) : "");
  for (const Section& s : kSections) s.print(*model, o);
  return kSuccess;
}

int fit(const Options& o) {
  const auto memory = static_cast<std::int64_t>(
      std::min<std::uint64_t>(store::parse_bytes(o.memory, "--memory"), std::uint64_t{1} << 60));
  if (o.engine.ctx > 0) throw Error(Code::kBadInput, "is what --memory asks for: expected one of them", "--ctx");
  std::vector<Fits> all;
  for (const std::string& path : o.models) all.push_back(what_fits(path, o.engine, memory));
  if (o.json)
    print_fits_json(all, memory);
  else
    print_fits(all, o.memory);
  return kSuccess;
}

Action setup(Flags& flags) {
  auto o = std::make_shared<Options>();
  flags.values("MODEL", o->models, -1,
               "model file, folder of Hugging Face, or hf:OWNER/REPO[:QUANT]; more than one with --memory",
               {.placeholder = "MODEL", .required = true});
  flags.value("--memory", o->memory, "the longest context that fits into so much, by how the cache is stored",
              {.placeholder = "SIZE"});
  flags.flag("--full", o->full, "long arrays and texts in full");
  flags.flag("--json", o->json, "one JSON object");
  add_options(flags, run::plan_table(), o->engine);
  return [o] {
    for (std::string& model : o->models) model = local_model(model);
    if (!o->memory.empty()) return fit(*o);
    if (o->models.size() > 1) throw Error(Code::kBadInput, "expected one, or --memory", "MODEL");
    o->path = o->models.front();
    return inspect(*o);
  };
}

}  // namespace

const Command entry{"show what is in a model file and the memory it takes", setup};

}  // namespace kvasir::cli::commands_inspect
