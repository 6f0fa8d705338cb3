#include "lab/eval/plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace kvasir::lab::eval {
namespace {

struct Box {
  double left, top, right, bottom;
};

// Where a label's ink is, by the width that common sans-serif fonts have at most on average.
Box box_of(const Shape& s) {
  const double w = 0.6 * s.size * static_cast<double>(s.text.size());
  const Point2 p = s.points[0];
  const double left = s.align == Shape::Align::kMiddle ? p.x - w / 2 : p.x;
  return {left, p.y - 0.8 * s.size, left + w, p.y + 0.2 * s.size};
}

bool meet(const Box& a, const Box& b) {
  return a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
}

// Twenty presets such as there will be: many at nearly the same size and quality.
Plot crowded() {
  Plot plot{.title = "t", .x_label = "x", .y_label = "y", .points = {}};
  const char* names[] = {"int2_channel", "int4_channel", "int4_token/int4_token",
                         "rq3",          "rq4",          "hqq4",
                         "kivi4",        "quanto4",      "uniform4",
                         "turbo4",       "tiny",         "small",
                         "balanced",     "polar4"};
  for (std::size_t i = 0; i < std::size(names); ++i)
    plot.points.push_back(
        {names[i], 512 + 20 * static_cast<double>(i % 5), 1e-3 * (1 + 0.1 * static_cast<double>(i % 3))});
  plot.points.push_back({"f16", 2048, 4e-8});
  return plot;
}

TEST(Plot, LabelsDoNotOverlapEachOtherOrPoints) {
  const Plot plot = crowded();
  const Scene scene = draw(plot);
  std::vector<Box> labels;
  std::vector<Point2> dots;
  for (const Shape& s : scene.shapes) {
    if (s.kind == Shape::Kind::kDot) dots.push_back(s.points[0]);
    if (s.kind == Shape::Kind::kText)
      for (const PlotPoint& p : plot.points)
        if (p.label == s.text) labels.push_back(box_of(s));
  }
  ASSERT_EQ(labels.size(), plot.points.size());
  ASSERT_EQ(dots.size(), plot.points.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(meet(labels[i], labels[j])) << i << " and " << j;
    for (const Point2& d : dots) EXPECT_FALSE(meet(labels[i], {d.x - 3, d.y - 3, d.x + 3, d.y + 3})) << i;
    EXPECT_GT(labels[i].left, 0);
    EXPECT_LT(labels[i].right, scene.width);
  }
}

TEST(Plot, AxesAreLogarithmic) {
  const Scene scene = draw({.points = {{"a", 100, 1e-4}, {"b", 1000, 1e-3}, {"c", 10000, 1e-2}, {"nothing", 4096, 0}}});
  std::vector<Point2> dots;
  bool named = false;
  for (const Shape& s : scene.shapes) {
    if (s.kind == Shape::Kind::kDot) dots.push_back(s.points[0]);
    named = named || s.text.find("(0): nothing") != std::string::npos;
  }
  ASSERT_EQ(dots.size(), 3u);  // 0 has no place
  EXPECT_TRUE(named);
  EXPECT_NEAR(dots[1].x - dots[0].x, dots[2].x - dots[1].x, 1e-9);
  EXPECT_NEAR(dots[0].y - dots[1].y, dots[1].y - dots[2].y, 1e-9);
  EXPECT_GT(dots[0].y, dots[1].y);  // upwards
}

TEST(Plot, LinesHaveEvenSteps) {
  const Scene scene = draw({.lines = {{"slow", {{1, 10}, {2, 100}, {3, 1000}}}, {"flat", {{1, 10}, {2, 0}, {3, 10}}}}});
  std::vector<Point2> dots;
  std::vector<std::size_t> corners;
  int labels = 0;
  for (const Shape& s : scene.shapes) {
    if (s.kind == Shape::Kind::kDot) dots.push_back(s.points[0]);
    if (s.kind == Shape::Kind::kLine && s.size == 1.6) corners.push_back(s.points.size());
    labels += s.text == "slow" || s.text == "flat";
  }
  ASSERT_EQ(dots.size(), 5u);  // 0 has no place
  EXPECT_EQ(corners, (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(labels, 2);
  EXPECT_NEAR(dots[1].x - dots[0].x, dots[2].x - dots[1].x, 1e-9);
  EXPECT_NEAR(dots[0].y - dots[1].y, dots[1].y - dots[2].y, 1e-9);
  EXPECT_NEAR(dots[3].y, dots[4].y, 1e-9);
}

TEST(Plot, WideLinesAreLogarithmicAndTicksAreWholeNumbers) {
  const Scene wide = draw({.lines = {{"one", {{1e4, 1}, {1e5, 1}, {1e6, 1}}}}, .wide = true});
  std::vector<double> dots;
  std::vector<std::string> texts;
  for (const Shape& s : wide.shapes) {
    if (s.kind == Shape::Kind::kDot) dots.push_back(s.points[0].x);
    texts.push_back(s.text);
  }
  ASSERT_EQ(dots.size(), 3u);
  EXPECT_NEAR(dots[1] - dots[0], dots[2] - dots[1], 1e-9);
  EXPECT_NE(std::find(texts.begin(), texts.end(), "1000000"), texts.end());
  texts.clear();
  for (const Shape& s : draw({.lines = {{"one", {{1, 1}, {1000, 1}}}}}).shapes) texts.push_back(s.text);
  EXPECT_NE(std::find(texts.begin(), texts.end(), "0"), texts.end());
  EXPECT_EQ(std::find(texts.begin(), texts.end(), "-0"), texts.end());
}

TEST(Plot, NamesAreEscapedAndPagesNeedNothingFromOutside) {
  const Plot plot{.title = "a < b & \"c\"", .points = {{"<k>", 1, 1}}};
  const std::string page = to_html(plot, {{"kv", "ppl"}, {"<k>", "1"}});
  EXPECT_NE(page.find("a &lt; b &amp; &quot;c&quot;"), std::string::npos);
  EXPECT_NE(page.find("<th>kv</th>"), std::string::npos);
  EXPECT_NE(page.find("<td>&lt;k&gt;</td>"), std::string::npos);
  EXPECT_EQ(page.find("<k>"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href="), std::string::npos);
  EXPECT_EQ(to_svg(draw(plot)).find("nan"), std::string::npos);
  EXPECT_EQ(to_svg(draw({})).find("nan"), std::string::npos);  // no points at all
}

TEST(Plot, PathsAreCheckedFirst) {
  EXPECT_THROW(check_plot_path("plot.gif"), Error);
  EXPECT_NO_THROW(check_plot_path("plot.svg"));
  EXPECT_EQ(can_write_png(), [] {
    try {
      check_plot_path("plot.png");
      return true;
    } catch (const Error&) {
      return false;
    }
  }());
}

}  // namespace
}  // namespace kvasir::lab::eval
