#include "lab/eval/scene.hpp"

#include <fmt/format.h>

#include <utility>

namespace kvasir::lab::eval {

void Scene::line(std::vector<Point2> points, const char* colour, double width_px, bool dashed) {
  shapes.push_back(
      {.kind = Shape::Kind::kLine, .points = std::move(points), .colour = colour, .size = width_px, .dashed = dashed});
}

void Scene::dot(Point2 at, const char* colour, double radius) {
  shapes.push_back({.kind = Shape::Kind::kDot, .points = {at}, .colour = colour, .size = radius});
}

void Scene::text(Point2 at, std::string words, double size, const char* colour, Shape::Align align, bool upwards) {
  shapes.push_back({.kind = Shape::Kind::kText,
                    .points = {at},
                    .colour = colour,
                    .size = size,
                    .text = std::move(words),
                    .align = align,
                    .upwards = upwards});
}

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

const char* anchor(Shape::Align align) {
  return align == Shape::Align::kStart ? "start" : align == Shape::Align::kMiddle ? "middle" : "end";
}

std::string element(const Shape& s) {
  const Point2 p = s.points.front();
  switch (s.kind) {
    case Shape::Kind::kDot:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\"/>\n", p.x, p.y, s.size,
                         s.colour);
    case Shape::Kind::kText: {
      const std::string turn = s.upwards ? fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", p.x, p.y) : "";
      return fmt::format(
          "<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" fill=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", p.x, p.y,
          s.size, s.colour, anchor(s.align), turn, escape_xml(s.text));
    }
    case Shape::Kind::kLine:
      break;
  }
  std::string corners;
  for (const Point2& q : s.points) corners += fmt::format("{}{:.1f},{:.1f}", corners.empty() ? "" : " ", q.x, q.y);
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\"{}/>\n", corners,
                     s.colour, s.size, s.dashed ? " stroke-dasharray=\"5 4\"" : "");
}

}  // namespace

std::string to_svg(const Scene& scene) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\">\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n",
      scene.width, scene.height);
  for (const Shape& s : scene.shapes) out += element(s);
  return out + "</svg>\n";
}

}  // namespace kvasir::lab::eval
