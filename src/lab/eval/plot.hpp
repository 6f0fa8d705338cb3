// Quality against bytes: one labelled point per choice of codecs, logarithmic on both axes. Or lines over an even x
// axis, such as times over turns.
#pragma once

#include <string>
#include <vector>

#include "lab/eval/scene.hpp"

namespace kvasir::lab::eval {

struct PlotPoint {
  std::string label;
  double x = 0, y = 0;  // > 0
};

struct PlotLine {
  std::string label;           // at the last point
  std::vector<Point2> points;  // from left to right, y > 0
};

struct Plot {
  std::string title, subtitle, note, x_label, y_label;  // the note stands below the picture
  std::vector<PlotPoint> points;
  std::vector<PlotLine> lines = {};  // in place of points; the x axis is linear then
  bool wide = false;                 // lines have a logarithmic x axis, too: every x > 0
};

// Points that are not above 0 in both have no place on logarithmic axes: they are left out and named below the picture.
// Equal points share one. No label covers another, a point, or the frame as long as there is room. A line joins the
// points that no other beats in both. Of a plot of lines each has its colour and dots.
Scene draw(const Plot& plot);

// A page with the picture and a table, and nothing from outside. The first row of `table` is its head.
std::string to_html(const Plot& plot, const std::vector<std::vector<std::string>>& table);

// Throws Error(kBadInput) unless `path` ends in .svg, .html or .png, kUnsupported for .png where it cannot be written.
void check_plot_path(const std::string& path);
void write_plot(const Plot& plot, const std::vector<std::vector<std::string>>& table, const std::string& path);

}  // namespace kvasir::lab::eval
