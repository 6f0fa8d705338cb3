#include "model/adapters.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "hub/adapter.hpp"
#include "model/bundles.hpp"
#include "model/orders.hpp"
#include "model/spec_fields.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

struct Named {
  std::string path;
  double scale = 1;
};

// FILE or FILE=SCALE. A name with '=' and no number behind the last one is a file's.
Named parse_adapter(const std::string& text, const char* option = "--lora") {
  const std::size_t at = text.rfind('=');
  if (at == text.npos) return {text};
  double scale = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + at + 1, end, scale);
  if (error != std::errc() || stop != end) return {text};
  if (!std::isfinite(static_cast<float>(scale)))
    throw Error(Code::kBadInput, "'" + text + "': expected a finite scale", option);
  return {text.substr(0, at), scale};
}

struct Source {
  const hub::LowRank* part;
  int adapter;
  const std::string* path;
};

// What an adapter is called in requests.
std::string name_of(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  const std::filesystem::path last = file.has_filename() ? file : file.parent_path();
  return std::filesystem::is_directory(path) ? last.filename().string() : last.stem().string();
}

// Row `row` of t as floats.
void read_row(const weights::TensorInfo& t, std::int64_t row, std::vector<float>& out, const std::string& path) {
  const weights::Quant& quant = *find(weights::quants(), t.quant);
  std::vector<std::byte> room;
  out.resize(static_cast<std::size_t>(t.columns()));
  quant.dequantise(t.row(row, room), out.data(), t.columns());
  for (const float x : out)
    if (!std::isfinite(x))
      throw Error(Code::kBadInput, t.name + " has a number that is not finite in row " + std::to_string(row), path);
}

cpu::Matrix shape_of(std::int64_t rows, std::int64_t columns) {
  const kernel::PanelFormat& f32 = kernel::dense_panels().f32;
  return {&f32, nullptr, rows, columns, f32.panel_bytes(columns)};
}

// Rows of floats, (rows, columns), as panels to `out`.
void pack_floats(cpu::Matrix& m, const std::vector<float>& x, std::byte* out) {
  for (std::int64_t p = 0; p < m.panel_count(); ++p) {
    const std::byte* rows[kernel::kPanelRows];
    for (std::int64_t r = 0; r < kernel::kPanelRows; ++r) {
      const std::int64_t n = p * kernel::kPanelRows + r;
      rows[r] = n < m.rows ? reinterpret_cast<const std::byte*>(x.data() + n * m.k) : nullptr;
    }
    m.format->pack(rows, m.k, out + p * m.panel_bytes);
  }
  m.panels = out;
}

std::int64_t rank_of(const std::vector<Source>& sources) {
  std::int64_t rank = 0;
  for (const Source& s : sources) rank += s.part->rank();
  return rank;
}

// A, rank rows of l.columns; B, l.rows of rank.
void fill(cpu::Addend& addend, const Linear& l, const std::vector<Source>& sources, std::byte* out) {
  const std::int64_t rank = addend.rank();
  std::vector<float> a, b(static_cast<std::size_t>(l.rows * rank)), row;
  std::int64_t first = 0;
  for (const Source& s : sources) {
    for (std::int64_t r = 0; r < s.part->rank(); ++r) {
      read_row(s.part->a, r, row, *s.path);
      a.insert(a.end(), row.begin(), row.end());
    }
    for (std::int64_t i = 0; i < l.rows; ++i) {
      read_row(s.part->b, l.cut.at(i), row, *s.path);
      for (std::int64_t r = 0; r < s.part->rank(); ++r)
        b[static_cast<std::size_t>(i * rank + first + r)] =
            static_cast<float>(s.part->scale * row[static_cast<std::size_t>(r)]);
    }
    addend.parts.push_back({s.adapter, first, first + s.part->rank()});
    first += s.part->rank();
  }
  pack_floats(addend.a, a, out);
  pack_floats(addend.b, b, out + whole_lines(addend.a.bytes()));
}

void check_part(const ModelSpec& spec, const weights::ModelFile& base, const hub::LowRank& part,
                const std::string& path) {
  if (part.target == spec.embedding.tokens.name)
    throw Error(Code::kUnsupported, part.target + " is the embedding, to which adapters do not add here", path);
  const weights::TensorInfo* const t = base.find(part.target);
  if (!t) throw Error(Code::kBadInput, part.target + " is no tensor of the model " + base.metadata().path(), path);
  if (part.a.columns() != t->columns() || part.b.rows() != t->rows())
    throw Error(Code::kBadInput,
                part.target + ": the adapter is for " + std::to_string(part.b.rows()) + "x" +
                    std::to_string(part.a.columns()) + ", and the model's is " + std::to_string(t->rows()) + "x" +
                    std::to_string(t->columns()),
                path);
  if (part.b.half_heads > 0 && part.b.rows() % (2 * part.b.half_heads) != 0)
    throw Error(Code::kBadInput, part.b.name + " has rows that are no heads of the model", path);
}

}  // namespace

void Adapters::attach(ModelSpec& spec, const weights::ModelFile& base, std::span<const std::string> files, bool exact) {
  if (files.empty()) return;
  if (!exact && order_bytes(base) > 0)
    throw Error(Code::kUnsupported,
                "has columns in an order of their own (act-order), to which adapters do not add; "
                "--exact computes with them",
                base.metadata().path());
  auto all = std::make_shared<Adapters>();
  std::vector<hub::Adapter> open;
  std::map<std::string, std::vector<Source>, std::less<>> sources;  // by target
  open.reserve(files.size());
  for (const std::string& file : files) {
    const Named named = parse_adapter(file);
    const hub::Adapter& adapter = open.emplace_back(hub::open_adapter(named.path, base.metadata()));
    for (const hub::LowRank& part : adapter.parts) {
      check_part(spec, base, part, adapter.path);
      sources[part.target].push_back({&part, static_cast<int>(all->names_.size()), &adapter.path});
    }
    all->names_.push_back(name_of(named.path));
    all->scales_.push_back(static_cast<float>(named.scale));
  }
  std::vector<Linear*> linears;
  for_each<Linear>(spec, [&](Linear& l) {
    if (!l.lent && sources.contains(l.name)) linears.push_back(&l);
  });
  for (const auto& [target, from] : sources)
    if (std::none_of(linears.begin(), linears.end(), [&](const Linear* l) { return l->name == target; }))
      throw Error(Code::kUnsupported, target + " is no matrix to whose products adapters add here", *from[0].path);

  std::int64_t bytes = 0;
  for (const Linear* l : linears) {
    const std::int64_t rank = rank_of(sources.find(l->name)->second);
    cpu::Addend& addend = all->addends_.emplace_back(shape_of(rank, l->columns), shape_of(l->rows, rank));
    all->rank_ = std::max(all->rank_, rank);
    bytes += whole_lines(addend.a.bytes()) + whole_lines(addend.b.bytes());
  }
  all->memory_ = tensor::Buffer(tensor::Tag::kWeights, static_cast<std::size_t>(bytes));
  std::byte* at = all->memory_.data();
  for (std::size_t i = 0; i < linears.size(); ++i) {
    cpu::Addend& addend = all->addends_[i];
    fill(addend, *linears[i], sources.find(linears[i]->name)->second, at);
    at += whole_lines(addend.a.bytes()) + whole_lines(addend.b.bytes());
    linears[i]->addend = &addend;
    all->hash_ = hash_bytes(std::as_bytes(std::span(linears[i]->name)), all->hash_ + 1);
  }
  all->hash_ = hash_bytes({all->memory_.data(), all->memory_.size()}, all->hash_);
  all->hash_ = hash_bytes(std::as_bytes(std::span(all->scales_)), all->hash_);
  spec.adapters = std::move(all);
}

std::vector<float> Adapters::read_scales(const std::string& text) const {
  std::vector<float> scales(names_.size());
  if (text == "none") return scales;
  std::vector<bool> said(names_.size());
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    const auto whole = std::find(names_.begin(), names_.end(), item);  // a name may have '='
    const Named asked = whole != names_.end() ? Named{item} : parse_adapter(item, "lora");
    const auto named = std::find(names_.begin(), names_.end(), asked.path);
    auto i = static_cast<std::size_t>(named - names_.begin());
    if (named == names_.end()) {
      const auto [stop, error] = std::from_chars(asked.path.data(), asked.path.data() + asked.path.size(), i);
      if (error != std::errc() || stop != asked.path.data() + asked.path.size() || i >= names_.size()) {
        std::string known;
        for (const std::string& name : names_) known += (known.empty() ? "'" : ", '") + name + "'";
        throw Error(Code::kBadInput, "'" + asked.path + "' is none of the adapters, which are " + known, "lora");
      }
    }
    if (said[i]) throw Error(Code::kBadInput, "names '" + names_[i] + "' twice", "lora");
    said[i] = true;
    scales[i] = static_cast<float>(asked.scale);
  }
  return scales;
}

}  // namespace kvasir::model
