#include "device/products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/open.hpp"
#include "device/pays.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::device {
namespace {

constexpr int kForcedRows = 32;                              // of a device that is used in any case
constexpr std::int64_t kOutFloats = std::int64_t{64} << 20;  // of results there, at most
constexpr std::int64_t kTile = kernel::kTileColumns;

std::int64_t in_tiles(std::int64_t columns) { return std::max(columns / kTile * kTile, kTile); }

// The sooner of two, so that what is made at the first use does not count.
template <class F>
double seconds_of(const F& f) {
  double least = 0;
  for (int i = 0; i < 2; ++i) {
    const double start = steady_seconds();
    f();
    const double seconds = steady_seconds() - start;
    least = i == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

}  // namespace

void WeightProducts::open(std::span<const cpu::Matrix* const> matrices, const Options& options, Team& team) {
  multiplier_ = std::make_unique<Multiplier>(context_, programs_, context_.device().limits.in_line_ptx);
  const cpu::Matrix* largest = nullptr;
  for (const cpu::Matrix* m : matrices)
    if (m->format)
      if (const WeightForm* const form = form_of(*m->format)) known_[m].form = form;
  if (known_.empty())
    throw Error(Code::kUnsupported, "it multiplies no matrix of this model: none is of blocks with codes", stats_.name);
  stats_.most_weights = options.memory;
  ahead_ = !options.streamed;
  decide(options.memory);
  for (const auto& [m, known] : known_) {
    if (!largest || m->bytes() > largest->bytes()) largest = m;
    multiplier_->prepare(*known.form);
  }
  for (const WeightForm& form : weight_forms())
    if (std::any_of(known_.begin(), known_.end(), [&](const auto& k) { return k.second.form == &form; }))
      require(context_, *multiplier_, form);
  if (options.from_rows > 0) {
    stats_.from_rows = options.from_rows;
    stats_.note = "as it was told to";
  } else {
    measure(*largest, *known_[largest].form, team);
  }
}

// What stays, and what is forgotten because it does not fit.
void WeightProducts::decide(std::int64_t memory) {
  std::int64_t all = 0, least = 0;
  for (const auto& [m, known] : known_) {
    all += m->bytes();
    least = least == 0 ? m->bytes() : std::min(least, m->bytes());
  }
  if (all <= memory) {
    for (auto& [m, known] : known_) known.stays = true;
    return;
  }
  if (2 * least > memory)
    throw Error(Code::kMemory,
                fmt::format("weights have {} bytes there, and the smallest matrix takes {} twice", memory, least),
                "--device-weights");
  const auto allocation = static_cast<std::int64_t>(context_.device().limits.allocation);
  std::erase_if(known_, [&](const auto& k) { return 2 * k.first->bytes() > memory || k.first->bytes() > allocation; });
  if (known_.empty()) throw Error(Code::kMemory, "no matrix fits into one buffer", stats_.name);
  for (const auto& k : known_) place_bytes_ = std::max(place_bytes_, static_cast<std::size_t>(k.first->bytes()));
  std::int64_t left = memory - 2 * static_cast<std::int64_t>(place_bytes_);
  std::vector<const cpu::Matrix*> order;
  for (const auto& k : known_) order.push_back(k.first);
  std::sort(order.begin(), order.end());  // about as the model has them; for results it is all one
  for (const cpu::Matrix* m : order) {
    if (m->bytes() > left) continue;
    known_[m].stays = true;
    left -= m->bytes();
  }
  // As a first guess, what lies behind it.
  std::erase_if(order, [&](const cpu::Matrix* m) { return known_[m].stays; });
  for (std::size_t i = 0; i < order.size(); ++i) known_[order[i]].next = order[(i + 1) % order.size()];
}

// A part of the largest matrix with 64 and with 256 rows, on both sides: its shape, with numbers of the check's.
void WeightProducts::measure(const cpu::Matrix& m, const WeightForm& form, Team& team) {
  constexpr std::int64_t kMany = 256;
  const ProductTrial trial{.rows = std::min<std::int64_t>(m.rows, 1024),
                           .blocks = std::min<std::int64_t>(m.k, 4096) / form.block,
                           .columns = kMany,
                           .seed = 5};
  const ProductCase c = make_case(form, trial);
  const kernel::PanelFormat& format = *m.format;
  tensor::Buffer x_room(tensor::Tag::kScratch, c.x.size() + 64);
  std::copy(c.x.begin(), c.x.end(), x_room.data());
  tensor::Buffer panels(tensor::Tag::kScratch, c.panels.size() + 1024);
  std::copy(c.panels.begin(), c.panels.end(), panels.data());
  std::vector<float> out(c.expected.size());
  const kernel::Activations x{format.activation, x_room.data(), kMany, c.k};
  const auto host = [&] {
    team.parallel_for((trial.rows + kernel::kPanelRows - 1) / kernel::kPanelRows, 2,
                      [&](std::int64_t begin, std::int64_t end, int) {
                        format.matmul({panels.data(), c.k, trial.rows, begin, end, &x, out.data(), trial.rows});
                      });
  };
  const Buffer weights = context_.make(c.panels.size());
  const auto upload = [&] { context_.write(weights, 0, c.panels.data(), c.panels.size()); };
  const auto there = [&](std::int64_t columns) {
    const std::size_t bytes = static_cast<std::size_t>(columns * kernel::activation_bytes(format.activation, c.k));
    context_.write(x_, 0, c.x.data(), bytes);
    multiplier_->launch({&form, &weights, c.k, trial.rows, c.panel_bytes, &x_, columns, &out_, 0});
    context_.read(out_, 0, out.data(), static_cast<std::size_t>(columns * trial.rows) * sizeof(float));
  };
  room(x_, c.x.size());
  room(out_, out.size() * sizeof(float));
  const double copied = seconds_of(upload), host_row = seconds_of(host) / kMany;
  const double few = seconds_of([&] { there(64); }), many = seconds_of([&] { there(kMany); });
  const double row = std::max(many - few, 0.0) / (kMany - 64), once = std::max(few - 64 * row, 0.0);
  const bool comes = place_bytes_ > 0;
  stats_.from_rows = static_cast<int>(where_it_pays(host_row, once + (comes ? copied : 0.0), row, 32));
  stats_.note = fmt::format("measured: {} rows of {} by {} take {:.2f} ms there and {:.2f} ms here{}", kMany,
                            trial.rows, c.k, 1e3 * many, 1e3 * host_row * kMany,
                            comes ? fmt::format(", copying the weights {:.2f} ms", 1e3 * copied) : std::string());
}

bool WeightProducts::takes(const cpu::Matrix& m) const noexcept { return stats_.lost.empty() && known_.count(&m) > 0; }

void WeightProducts::room(Buffer& buffer, std::size_t bytes) {
  if (buffer && buffer.size() >= bytes) return;
  buffer = Buffer();
  buffer = context_.make((bytes + 4095) / 4096 * 4096);
}

// Whether it stays there; the first time it is copied.
bool WeightProducts::keep(const cpu::Matrix& m, Known& known) {
  if (!known.stays || known.there) return known.stays;
  const auto bytes = static_cast<std::size_t>(m.bytes());
  try {
    known.there = context_.make(bytes);
    context_.write(known.there, 0, m.panels, bytes);
    stats_.held_weights += m.bytes();
    stats_.uploaded_bytes += bytes;
  } catch (const Error& e) {
    if (e.code() != Code::kMemory) throw;
    known.there = Buffer();  // others use the device, too
    known.stays = false;
    place_bytes_ = std::max(place_bytes_, bytes);
  }
  return known.stays;
}

// Queues a copy, behind what the place is still multiplied for.
void WeightProducts::copy(const cpu::Matrix& m, Place& to) {
  const auto bytes = static_cast<std::size_t>(m.bytes());
  to.of = nullptr;
  if (!to.buffer || to.buffer.size() < std::max(place_bytes_, bytes)) {
    context_.wait(to.copied);
    room(to.buffer, std::max(place_bytes_, bytes));
  }
  context_.write_beside(to.buffer, m.panels, bytes, to.multiplied, &to.copied);
  stats_.uploaded_bytes += bytes;
  to.of = &m;
}

// Of weights that come and go: where they are, or will be when they are copied.
WeightProducts::Place& WeightProducts::place_of(const cpu::Matrix& m) {
  for (Place& p : places_)
    if (p.of == &m) return p;
  Place& p = last_place_ == &places_[0] ? places_[1] : places_[0];
  copy(m, p);
  return p;
}

// What most likely comes next, while `used` is multiplied with.
void WeightProducts::copy_ahead(const Place& used, Known& known) {
  const cpu::Matrix* const next = known.next;
  Place& other = &used == &places_[0] ? places_[1] : places_[0];
  if (!ahead_ || !next || next == used.of || next == other.of || known_.find(next)->second.stays) return;
  copy(*next, other);
  stats_.ahead_bytes += static_cast<std::uint64_t>(next->bytes());
}

void WeightProducts::multiply(const cpu::Matrix& m, std::int64_t columns, std::int64_t out_at, bool again) {
  Known& known = known_.find(&m)->second;
  const bool stays = keep(m, known);
  Place* const place = stays ? nullptr : &place_of(m);
  const Buffer& weights = stays ? known.there : place->buffer;
  const Multiplier::Task task{known.form, &weights, m.k, m.rows, m.panel_bytes, &x_, columns, &out_, out_at};
  if (stays) return multiplier_->launch(task);
  multiplier_->launch(task, place->copied, &place->multiplied);
  last_place_ = place;
  if (last_ && last_ != &m) known_.find(last_)->second.next = &m;
  last_ = again ? nullptr : &m;
  if (!again) copy_ahead(*place, known);
}

// No copy reads the host's memory any more.
void WeightProducts::settle() noexcept {
  for (Place& p : places_) {
    try {
      context_.wait(p.copied);
    } catch (const std::exception& e) {
      if (stats_.lost.empty()) stats_.lost = e.what();
    }
    p = Place();
  }
}

void WeightProducts::run(std::span<const cpu::Matrix* const> matrices, std::span<const kernel::Activations* const> x,
                         std::span<float* const> outs, bool again) {
  std::int64_t rows = 0, x_bytes = 0;
  const std::int64_t n = x[0]->n;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    rows += matrices[i]->rows;
    x_bytes = std::max(x_bytes, kernel::activation_bytes(x[i]->kind, x[i]->k));
  }
  const std::int64_t step = std::min(n, in_tiles(kOutFloats / rows));
  room(x_, static_cast<std::size_t>(x_bytes * step));
  room(out_, static_cast<std::size_t>(rows * step) * sizeof(float));
  for (std::int64_t first = 0; first < n; first += step) {
    const std::int64_t columns = std::min(step, n - first);
    const kernel::Activations* there = nullptr;
    std::int64_t at = 0;
    const bool more = again || first + columns < n;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const cpu::Matrix& m = *matrices[i];
      if (x[i] != there) {
        const kernel::Activations part = kernel::columns_of(*x[i], first, first + columns);
        const std::int64_t bytes = columns * kernel::activation_bytes(part.kind, part.k);
        context_.write(x_, 0, part.data, static_cast<std::size_t>(bytes));
        stats_.uploaded_bytes += static_cast<std::uint64_t>(bytes);
        there = x[i];
      }
      multiply(m, columns, at, more);
      at += columns * m.rows;
    }
    context_.flush();
    at = 0;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const std::int64_t floats = columns * matrices[i]->rows;
      context_.read(out_, static_cast<std::size_t>(at) * sizeof(float), outs[i] + first * matrices[i]->rows,
                    static_cast<std::size_t>(floats) * sizeof(float));
      at += floats;
    }
  }
}

bool WeightProducts::multiply(std::span<const cpu::Matrix* const> matrices,
                              std::span<const kernel::Activations* const> x, std::span<float* const> outs,
                              bool again) noexcept {
  const double start = steady_seconds();
  try {
    run(matrices, x, outs, again);
    stats_.products += matrices.size();
  } catch (const std::exception& e) {
    stats_.lost = e.what();
    stats_.refused += matrices.size();
    stats_.held_weights = 0;
    for (auto& k : known_) k.second.there = Buffer();
    settle();
    x_ = Buffer();
    out_ = Buffer();
  }
  stats_.seconds += steady_seconds() - start;
  return stats_.lost.empty();
}

std::unique_ptr<cpu::ProductDevice> open_products(const std::string& name, std::int64_t memory,
                                                  std::span<const cpu::Matrix* const> matrices, bool streamed,
                                                  Team& team) {
  const Survey all = survey();
  const Found& found = choose(all, name);
  auto products = std::make_unique<WeightProducts>(found);
  if (memory > 0) {
    products->open(matrices, {.memory = memory, .from_rows = kForcedRows, .streamed = streamed}, team);
    return products;
  }
  if (found.kind == "cpu") {
    products->leave("it is a processor: prompts go there with --device-weights alone");
    return products;
  }
  try {
    const auto quarter = static_cast<std::int64_t>(found.limits.memory / 4);
    products->open(matrices, {.memory = quarter, .from_rows = 0, .streamed = streamed}, team);
  } catch (const Error& e) {  // nobody asked for it
    products = std::make_unique<WeightProducts>(found);
    products->leave(e.what());
  }
  return products;
}

}  // namespace kvasir::device
