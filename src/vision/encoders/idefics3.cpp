// Idefics 3 and SmolVLM: SigLIP over squares. A picture is stretched to whole squares and comes with a small copy of
// all; neighbouring patches become one row by one matrix.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "vision/encoder.hpp"
#include "vision/resize.hpp"
#include "vision/tower.hpp"

namespace kvasir::vision::encoders_idefics3 {
namespace {

constexpr int kMostLength = 4096;  // of a resized picture's longer side, whatever its settings ask for
constexpr const char* kAround = "<fake_token_around_image>";

int round_up(int length, int unit) { return (length + unit - 1) / unit * unit; }

class Idefics3 final : public Encoder {
 public:
  Idefics3(const Reader& r, const EncoderOptions& o)
      : side_(static_cast<int>(r.metadata().require_int("clip.vision.patch_size", 1, 1 << 12))),
        merge_(static_cast<int>(r.metadata().get_int("clip.vision.projector.scale_factor", 1, 16).value_or(2))),
        normal_(Normal::read(r)),
        eps_(static_cast<float>(r.metadata().require_float("clip.vision.attention.layer_norm_epsilon"))),
        tower_(r, {kernel::Activation::kGeluTanh, eps_}),
        patches_(read_patches(r, tower_.dim(), side_)),
        last_(r.layer_norm("v.post_ln", tower_.dim(), eps_)) {
    const weights::Metadata& m = r.metadata();
    const int trained = static_cast<int>(m.require_int("clip.vision.image_size", side_, kMostLength));
    // The file beside a text model has the encoder's size alone; squares of published models have it.
    square_ = static_cast<int>(m.get_int("clip.vision.image_tile", side_, kMostLength).value_or(trained));
    longest_ = static_cast<int>(m.get_int("clip.vision.preproc_image_size", 1, 1 << 14).value_or(4 * square_));
    if (grid() % merge_ != 0)
      r.fail("clip.vision.projector.scale_factor",
             fmt::format("is {}, which does not divide {} x {} patches of {} pixels", merge_, grid(), grid(), side_));
    cuts_ = o.most_rows == 0 && m.get_bool("clip.vision.image_splits").value_or(true);
    const int rows = grid() / merge_ * (grid() / merge_);
    if (o.most_rows > 0 && o.most_rows < rows)
      throw Error(Code::kBadInput,
                  fmt::format("is {}, and this encoder gives {} rows of every square", o.most_rows, rows), "most_rows");
    read_positions(r, trained / side_);
    const std::int64_t inputs = tower_.dim() * merge_ * merge_;
    out_ = r.linear("mm.model.fc", r.tensor("mm.model.fc.weight").rows(), inputs, Bias::kNone);
  }

  std::int64_t width() const override { return out_.matrix.rows; }

  // Of the small copy.
  Size size_for(Size) const override { return {square_, square_}; }

  Prepared prepare(const Picture& p) const override {
    Prepared out{p.size, {}, {}};
    Picture all = scaled(p, longest(p.size));
    if (cuts_) {
      const Size whole = squares(all.size);
      all = scaled(all, whole);
      const int rows = whole.height / square_, columns = whole.width / square_;
      for (int row = 0; rows * columns > 1 && row < rows; ++row)
        for (int column = 0; column < columns; ++column) {
          out.parts.push_back(cut_square(all, row, column, square_));
          const char* const line = column == 0 && row > 0 ? "\n" : "";
          out.marks.push_back(fmt::format("{}{}<row_{}_col_{}>", line, kAround, row + 1, column + 1));
        }
    }
    out.marks.push_back(fmt::format("{}{}<global-img>", out.parts.empty() ? "" : "\n\n", kAround));
    out.parts.push_back(scaled(all, {square_, square_}));
    return out;
  }

  std::vector<Run> runs(const Prepared& prepared) const override {
    const Grid grid_of{1, grid() / merge_, grid() / merge_};
    std::vector<Run> all;
    for (const std::string& mark : prepared.marks)
      all.push_back({mark, "", std::ssize(all) * grid_of.count(), grid_of, Sight::kEarlier});
    all.back().after = kAround;
    return all;
  }

  Encoding encode(const Prepared& prepared, Team& team, Watch watch) override {
    RowWork work(team);
    Encoding e;
    e.width = width();
    e.runs = runs(prepared);
    const auto all = static_cast<std::int64_t>(prepared.parts.size() * tower_.blocks());
    std::int64_t done = 0;
    const auto block_begins = [&] { watch(done++, all); };
    for (const Picture& part : prepared.parts) add(part, work, e.rows, block_begins);
    return e;
  }

  std::string description() const override {
    return fmt::format("squares of {} with {} x {} patches of {}, {}, Lanczos as torchvision, {}", square_, merge_,
                       merge_, side_, cuts_ ? fmt::format("longer side {} in squares", longest_) : "in one piece",
                       normal_.text());
  }

 private:
  int grid() const { return square_ / side_; }  // patches on a side

  static Picture scaled(const Picture& p, Size to) { return resize(p, to, Filter::kLanczos, Rounding::kTorchvision); }

  // With the longer side as the processor wants it, small pictures too; the other side is made even. What is longer
  // than kMostLength then is scaled again, and that without making it even.
  Size longest(Size p) const {
    const auto even = [](double length) {
      const int n = static_cast<int>(length);
      return std::max(n + n % 2, 1);
    };
    const double shape = static_cast<double>(p.width) / p.height;
    const Size to =
        p.width >= p.height ? Size{longest_, even(longest_ / shape)} : Size{even(longest_ * shape), longest_};
    if (std::max(to.width, to.height) <= kMostLength) return to;
    const double again = static_cast<double>(to.width) / to.height;
    if (to.width >= to.height) return {kMostLength, std::max(static_cast<int>(kMostLength / again), 1)};
    return {std::max(static_cast<int>(kMostLength * again), 1), kMostLength};
  }

  // The next larger one of whole squares: the longer side decides, and the other one follows it.
  Size squares(Size p) const {
    const double shape = static_cast<double>(p.width) / p.height;
    if (p.width >= p.height) {
      const int width = round_up(p.width, square_);
      return {width, round_up(static_cast<int>(width / shape), square_)};
    }
    const int height = round_up(p.height, square_);
    return {round_up(static_cast<int>(height * shape), square_), height};
  }

  // Of every patch of a square: that of the table's at the same share of the side.
  void read_positions(const Reader& r, int table) {
    const std::int64_t dim = tower_.dim();
    const std::vector<float> all = r.floats("v.position_embd.weight", std::int64_t{table} * table * dim);
    const auto place = [&](int i) { return std::int64_t{i} * table / grid(); };
    for (int y = 0; y < grid(); ++y)
      for (int x = 0; x < grid(); ++x) {
        const auto from = all.begin() + (place(y) * table + place(x)) * dim;
        positions_.insert(positions_.end(), from, from + dim);
      }
  }

  void add(const Picture& p, RowWork& work, std::vector<float>& rows, FunctionRef<void()> block_begins) {
    const std::int64_t n = std::int64_t{grid()} * grid(), dim = tower_.dim();
    std::vector<float> x = embed_patches(p, grid(), side_, normal_, patches_, positions_, work);
    for (std::size_t i = 0; i < tower_.blocks(); ++i) {
      block_begins();
      tower_.run(i, work, x, {});
    }
    work.norm(last_, x.data(), x.data(), n);
    const int lines = grid() / merge_;  // of rows; patches of a row stand line by line in it
    const std::int64_t merged = std::int64_t{lines} * lines;
    std::vector<float> together(x.size());
    work.each(merged * merge_ * merge_, [&](std::int64_t i) {
      const std::int64_t row = i / (merge_ * merge_), within = i % (merge_ * merge_);
      const std::int64_t y = row / lines * merge_ + within / merge_, column = row % lines * merge_ + within % merge_;
      std::copy_n(x.data() + (y * grid() + column) * dim, dim, together.data() + i * dim);
    });
    rows.resize(rows.size() + static_cast<std::size_t>(merged * width()));
    work.multiply(out_, together.data(), merged,
                  rows.data() + rows.size() - static_cast<std::size_t>(merged * width()));
  }

  int side_, merge_, square_ = 0, longest_ = 0;
  bool cuts_ = false;
  Normal normal_;
  float eps_;
  Tower tower_;
  Linear patches_;
  std::vector<float> positions_;  // (patches of a square, dim)
  Norm last_;
  Linear out_;
};

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) { return std::make_unique<Idefics3>(r, o); }

}  // namespace

const EncoderKind entry{"Idefics 3, SmolVLM: SigLIP over squares of a picture and a small copy of it", open};

}  // namespace kvasir::vision::encoders_idefics3
