// A picture as a list of shapes, so that one drawing can be written as SVG and as PNG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvasir::lab::eval {

struct Point2 {
  double x = 0, y = 0;
};

struct Shape {
  enum class Kind { kLine, kDot, kText };
  enum class Align { kStart, kMiddle, kEnd };
  Kind kind = Kind::kLine;
  std::vector<Point2>
      points;  // a line's corners; a dot's centre; where a text's baseline starts, has its middle, or ends
  std::string colour = "#000000";
  double size = 1;  // width of a line, radius of a dot, font size
  bool dashed = false;
  std::string text;
  Align align = Align::kStart;
  bool upwards = false;  // a text turned by 90 degrees
};

struct Scene {
  double width = 0, height = 0;  // pixels
  std::vector<Shape> shapes;

  void line(std::vector<Point2> points, const char* colour, double width_px, bool dashed = false);
  void dot(Point2 at, const char* colour, double radius);
  void text(Point2 at, std::string words, double size, const char* colour, Shape::Align align = Shape::Align::kStart,
            bool upwards = false);
};

// The text with the characters that XML reserves replaced.
std::string escape_xml(std::string_view text);

std::string to_svg(const Scene& scene);

// Writes a PNG file with cairo. Throws Error(kUnsupported) in a build without it.
void write_png(const Scene& scene, const std::string& path);
bool can_write_png();

}  // namespace kvasir::lab::eval
