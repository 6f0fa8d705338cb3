#include "lab/eval/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <span>

#include "base/error.hpp"
#include "base/file.hpp"

namespace kvasir::lab::eval {
namespace {

constexpr double kWidth = 860, kHeight = 540, kLeft = 90, kRight = 30, kTop = 64, kBottom = 84;
constexpr double kDot = 4.5, kFont = 12;
constexpr const char* kInk = "#222222";
constexpr const char* kPale = "#dddddd";
constexpr const char* kBlue = "#1f5fa8";
constexpr const char* kColours[] = {kBlue, "#c0392b", "#2e8b57", "#8e44ad", "#b9770e", "#555555"};

struct Box {
  double left, top, right, bottom;
  bool meets(const Box& o) const { return left < o.right && o.left < right && top < o.bottom && o.top < bottom; }
};

// An axis from pixel `from` to pixel `to`: logarithmic, or linear.
class Axis {
 public:
  Axis(std::vector<double> values, double from, double to, bool linear = false)
      : from_(from), to_(to), linear_(linear) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const double v : values) low = std::min(low, v), high = std::max(high, v);
    if (!(high >= low)) low = high = 1;
    low = scale(low), high = scale(high);
    const double margin = linear ? std::max(0.5, 0.04 * (high - low)) : std::max(0.12, 0.05 * (high - low));
    low_ = low - margin;
    high_ = high + margin;
    const double least = 0.5;  // of a decade, so that two equal points do not fill the axis
    if (high_ - low_ < least) {
      const double middle = (low_ + high_) / 2;
      low_ = middle - least / 2, high_ = middle + least / 2;
    }
  }
  double at(double v) const { return from_ + (scale(v) - low_) / (high_ - low_) * (to_ - from_); }

  std::vector<double> ticks() const { return linear_ ? even_ticks() : decade_ticks(); }

 private:
  double scale(double v) const { return linear_ ? v : std::log10(v); }

  // Whole numbers, about ten of them.
  std::vector<double> even_ticks() const {
    double step = 1;
    for (int i = 0; (high_ - low_) / step > 14; ++i) step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10, 20, ...
    std::vector<double> all;
    for (double v = std::ceil(low_ / step) * step + 0.0; v <= high_; v += step) all.push_back(v);  // + 0.0: not -0
    return all;
  }

  std::vector<double> decade_ticks() const {
    const double decades = high_ - low_;
    std::vector<double> steps{1};
    if (decades < 4) steps = {1, 2, 5};
    if (decades < 1.6) steps = {1, 1.5, 2, 3, 4, 5, 6, 8};
    std::vector<double> all;
    for (auto k = static_cast<int>(std::floor(low_)); k <= static_cast<int>(std::ceil(high_)); ++k)
      for (const double s : steps) {
        const double v = s * std::pow(10.0, k);
        if (std::log10(v) >= low_ && std::log10(v) <= high_) all.push_back(v);
      }
    return all;
  }

  double from_, to_, low_ = 0, high_ = 0;
  bool linear_;
};

std::string tick_text(double v) { return fmt::format("{:.10g}", v); }

double text_width(const std::string& text, double size) { return 0.62 * size * static_cast<double>(text.size()); }

// Finds room for labels: beside the dot first, then further and further out, joined to it by a thin line.
class Labels {
 public:
  Labels(Box frame, const std::vector<Point2>& dots, const std::vector<Point2>& line) : frame_(frame), dots_(dots) {
    for (const Point2& p : dots) keep_free(p, kDot + 1);
    for (std::size_t i = 1; i < line.size(); ++i) keep_free(line[i - 1], line[i]);
  }

  void avoid(Point2 a, Point2 b) { keep_free(a, b); }  // a line that no label may cover

  void place(Scene* scene, Point2 dot, const std::string& text) {
    // Where every thin line would run through a label, rather that than two labels in one place.
    Box box{};
    double distance = 0;
    const bool found = search(dot, text, true, &box, &distance) || search(dot, text, false, &box, &distance);
    if (!found) {
      scene->text({dot.x + 8, dot.y + 4}, text, kFont, kInk);  // no room at all
      return;
    }
    taken_.push_back(box);
    labels_.push_back(box);
    if (distance > kNear) {
      scene->line({dot, nearest(box, dot)}, "#999999", 0.7);
      keep_free(dot, nearest(box, dot));
    }
    const Point2 middle{(box.left + box.right) / 2, (box.top + box.bottom) / 2};
    scene->text({middle.x, middle.y + kFont * 0.36}, text, kFont, kInk, Shape::Align::kMiddle);
  }

 private:
  static constexpr int kDirections = 24;
  static constexpr double kNear = 12;  // pixels at which it is plain whose label it is

  bool search(Point2 dot, const std::string& text, bool clear_lines, Box* box, double* distance) const {
    const double w = text_width(text, kFont), h = kFont + 2;
    for (double r = 8; r <= 400; r += 6)
      for (int i = 0; i < kDirections; ++i) {
        // To the right first, then in turn above and below it. Along that direction the box's edge is r from the dot.
        const double angle = std::numbers::pi * (i % 2 ? i + 1 : -i) / kDirections;
        const double x = dot.x + std::cos(angle) * (r + w / 2), y = dot.y + std::sin(angle) * (r + h / 2 - 2);
        *box = {x - w / 2, y - h / 2, x + w / 2, y + h / 2};
        *distance = r;
        if (is_free(*box) && (!clear_lines || r <= kNear || !crosses(dot, nearest(*box, dot)))) return true;
      }
    return false;
  }

  bool is_free(const Box& b) const {
    if (b.left < frame_.left + 2 || b.right > frame_.right - 2 || b.top < frame_.top + 2 ||
        b.bottom > frame_.bottom - 2)
      return false;
    return std::none_of(taken_.begin(), taken_.end(), [&](const Box& o) { return b.meets(o); });
  }

  // Whether a line from dot `a` to b runs through a label or another dot that is not at the same place.
  bool crosses(Point2 a, Point2 b) const {
    bool found = false;
    along(a, b, [&](Point2 p) {
      for (const Box& o : labels_) found = found || o.meets({p.x - 1, p.y - 1, p.x + 1, p.y + 1});
      for (const Point2& d : dots_)
        found = found || (std::hypot(d.x - p.x, d.y - p.y) < kDot && std::hypot(d.x - a.x, d.y - a.y) > 2 * kDot);
    });
    return found;
  }

  template <class Visit>
  static void along(Point2 a, Point2 b, Visit visit) {  // every 4 pixels, the ends left out
    const double pieces = std::ceil(std::hypot(b.x - a.x, b.y - a.y) / 4);
    for (double k = 1; k < pieces; ++k) visit(Point2{a.x + (b.x - a.x) * k / pieces, a.y + (b.y - a.y) * k / pieces});
  }
  void keep_free(Point2 p, double r) { taken_.push_back({p.x - r, p.y - r, p.x + r, p.y + r}); }
  void keep_free(Point2 a, Point2 b) {
    along(a, b, [&](Point2 p) { keep_free(p, 1); });
  }
  static Point2 nearest(const Box& b, Point2 p) {
    return {std::clamp(p.x, b.left, b.right), std::clamp(p.y, b.top, b.bottom)};
  }

  Box frame_;
  std::vector<Point2> dots_;
  std::vector<Box> taken_, labels_;
};

void draw_axes(Scene* scene, const Plot& plot, const Axis& x, const Axis& y, Box frame) {
  for (const double v : x.ticks()) {
    scene->line({{x.at(v), frame.top}, {x.at(v), frame.bottom}}, kPale, 1);
    scene->text({x.at(v), frame.bottom + 18}, tick_text(v), kFont, kInk, Shape::Align::kMiddle);
  }
  for (const double v : y.ticks()) {
    scene->line({{frame.left, y.at(v)}, {frame.right, y.at(v)}}, kPale, 1);
    scene->text({frame.left - 8, y.at(v) + 4}, tick_text(v), kFont, kInk, Shape::Align::kEnd);
  }
  scene->line({{frame.left, frame.top},
               {frame.right, frame.top},
               {frame.right, frame.bottom},
               {frame.left, frame.bottom},
               {frame.left, frame.top}},
              kInk, 1);
  scene->text({(frame.left + frame.right) / 2, frame.bottom + 42}, plot.x_label, 13, kInk, Shape::Align::kMiddle);
  scene->text({24, (frame.top + frame.bottom) / 2}, plot.y_label, 13, kInk, Shape::Align::kMiddle, true);
  scene->text({frame.left, 28}, plot.title, 16, kInk);
  scene->text({frame.left, 48}, plot.subtitle, kFont, "#555555");
}

// Those that no other point beats in both, from left to right.
std::vector<PlotPoint> frontier(std::vector<PlotPoint> points) {
  std::sort(points.begin(), points.end(),
            [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  std::vector<PlotPoint> best;
  for (const PlotPoint& p : points)
    if (best.empty() || p.y < best.back().y) best.push_back(p);
  return best;
}

Scene draw_lines(const Plot& plot) {
  std::vector<double> xs, ys;
  for (const PlotLine& line : plot.lines)
    for (const Point2& p : line.points)
      if (p.y > 0) xs.push_back(p.x), ys.push_back(p.y);
  const Box frame{kLeft, kTop, kWidth - kRight, kHeight - kBottom};
  const Axis x(xs, frame.left, frame.right, !plot.wide), y(ys, frame.bottom, frame.top);
  Scene scene{kWidth, kHeight, {}};
  draw_axes(&scene, plot, x, y, frame);
  std::vector<Point2> dots, ends;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const char* colour = kColours[i % std::size(kColours)];
    std::vector<Point2> corners;
    for (const Point2& p : plot.lines[i].points)
      if (p.y > 0) corners.push_back({x.at(p.x), y.at(p.y)});
    if (corners.size() > 1) scene.line(corners, colour, 1.6);
    for (const Point2& p : corners) scene.dot(p, colour, kDot - 1);
    dots.insert(dots.end(), corners.begin(), corners.end());
    ends.push_back(corners.empty() ? Point2{-1, -1} : corners.back());
  }
  Labels labels(frame, dots, {});
  for (const PlotLine& line : plot.lines)
    for (std::size_t i = 1; i < line.points.size(); ++i)
      if (line.points[i - 1].y > 0 && line.points[i].y > 0)
        labels.avoid({x.at(line.points[i - 1].x), y.at(line.points[i - 1].y)},
                     {x.at(line.points[i].x), y.at(line.points[i].y)});
  for (std::size_t i = 0; i < ends.size(); ++i)
    if (ends[i].x >= 0) labels.place(&scene, ends[i], plot.lines[i].label);
  scene.text({frame.left, kHeight - 14}, plot.note, kFont, "#555555");
  return scene;
}

}  // namespace

Scene draw(const Plot& plot) {
  if (!plot.lines.empty()) return draw_lines(plot);
  std::vector<PlotPoint> points;
  std::string left_out;
  for (const PlotPoint& p : plot.points) {
    const auto same =
        std::find_if(points.begin(), points.end(), [&](const PlotPoint& o) { return o.x == p.x && o.y == p.y; });
    if (!(p.x > 0 && p.y > 0))
      left_out += (left_out.empty() ? "" : ", ") + p.label;
    else if (same != points.end())
      same->label += ", " + p.label;
    else
      points.push_back(p);
  }
  std::vector<double> xs, ys;
  for (const PlotPoint& p : points) xs.push_back(p.x), ys.push_back(p.y);
  const Box frame{kLeft, kTop, kWidth - kRight, kHeight - kBottom};
  const Axis x(xs, frame.left, frame.right), y(ys, frame.bottom, frame.top);
  Scene scene{kWidth, kHeight, {}};
  draw_axes(&scene, plot, x, y, frame);
  std::vector<Point2> corners, dots;
  for (const PlotPoint& p : frontier(points)) corners.push_back({x.at(p.x), y.at(p.y)});
  if (corners.size() > 1) scene.line(corners, "#9db8d6", 1.2, true);
  for (const PlotPoint& p : points) dots.push_back({x.at(p.x), y.at(p.y)});
  for (const Point2& p : dots) scene.dot(p, kBlue, kDot);
  Labels labels(frame, dots, corners);
  for (std::size_t i = 0; i < points.size(); ++i) labels.place(&scene, dots[i], points[i].label);
  std::string note = plot.note;
  if (!left_out.empty()) note += (note.empty() ? "" : "; ") + ("not on logarithmic axes (0): " + left_out);
  scene.text({frame.left, kHeight - 14}, note, kFont, "#555555");
  return scene;
}

std::string to_html(const Plot& plot, const std::vector<std::vector<std::string>>& table) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>\n"
      "body {{ font-family: sans-serif; margin: 2em; color: #222; }}\n"
      "table {{ border-collapse: collapse; margin-top: 1em; }}\n"
      "th, td {{ padding: 0.25em 0.8em; text-align: right; border-bottom: 1px solid #ddd; }}\n"
      "th:first-child, td:first-child {{ text-align: left; }}\n</style>\n</head>\n<body>\n{1}<table>\n",
      escape_xml(plot.title), to_svg(draw(plot)));
  for (std::size_t r = 0; r < table.size(); ++r) {
    const char* cell = r == 0 ? "th" : "td";
    out += "<tr>";
    for (const std::string& text : table[r]) out += fmt::format("<{0}>{1}</{0}>", cell, escape_xml(text));
    out += "</tr>\n";
  }
  return out + "</table>\n</body>\n</html>\n";
}

void check_plot_path(const std::string& path) {
  if (path.ends_with(".svg") || path.ends_with(".html")) return check_replaceable(path);
  if (!path.ends_with(".png"))
    throw Error(Code::kBadInput, "is '" + path + "', expected a file that ends in .svg, .html or .png", "--plot");
  if (!can_write_png()) write_png({}, path);  // says why not
}

void write_plot(const Plot& plot, const std::vector<std::vector<std::string>>& table, const std::string& path) {
  if (path.ends_with(".png")) return write_png(draw(plot), path);
  const std::string text = path.ends_with(".html") ? to_html(plot, table) : to_svg(draw(plot));
  write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace kvasir::lab::eval
