// PNG files through cairo, where the build found it (libcairo2-dev).
#include "base/error.hpp"
#include "lab/eval/scene.hpp"

#ifdef KVASIR_CAIRO
#include <cairo/cairo.h>

#include <cstdlib>
#include <memory>
#include <numbers>
#endif

namespace kvasir::lab::eval {

#ifdef KVASIR_CAIRO
namespace {

constexpr double kScale = 2;  // pixels per unit of the scene: sharp on the screens of today

void set_colour(cairo_t* cr, const std::string& colour) {  // "#rrggbb"
  const long rgb = std::strtol(colour.c_str() + 1, nullptr, 16);
  cairo_set_source_rgb(cr, static_cast<double>(rgb >> 16) / 255, static_cast<double>((rgb >> 8) & 255) / 255,
                       static_cast<double>(rgb & 255) / 255);
}

void draw_text(cairo_t* cr, const Shape& s) {
  cairo_text_extents_t extents;
  cairo_set_font_size(cr, s.size);
  cairo_text_extents(cr, s.text.c_str(), &extents);
  const double back = s.align == Shape::Align::kStart ? 0 : s.align == Shape::Align::kMiddle ? 0.5 : 1;
  cairo_save(cr);
  cairo_translate(cr, s.points.front().x, s.points.front().y);
  if (s.upwards) cairo_rotate(cr, -std::numbers::pi / 2);
  cairo_move_to(cr, -back * extents.x_advance, 0);
  cairo_show_text(cr, s.text.c_str());
  cairo_restore(cr);
}

void draw(cairo_t* cr, const Shape& s) {
  set_colour(cr, s.colour);
  if (s.kind == Shape::Kind::kText) return draw_text(cr, s);
  if (s.kind == Shape::Kind::kDot) {
    cairo_new_path(cr);
    cairo_arc(cr, s.points.front().x, s.points.front().y, s.size, 0, 2 * std::numbers::pi);
    cairo_fill(cr);
    return;
  }
  const double dashes[] = {5, 4};
  cairo_set_dash(cr, dashes, s.dashed ? 2 : 0, 0);
  cairo_set_line_width(cr, s.size);
  cairo_new_path(cr);  // a text leaves its end as the current point
  for (const Point2& p : s.points) cairo_line_to(cr, p.x, p.y);
  cairo_stroke(cr);
}

}  // namespace

bool can_write_png() { return true; }

void write_png(const Scene& scene, const std::string& path) {
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(scene.width * kScale),
                                 static_cast<int>(scene.height * kScale)),
      cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> cr(cairo_create(surface.get()), cairo_destroy);
  cairo_scale(cr.get(), kScale, kScale);
  cairo_set_source_rgb(cr.get(), 1, 1, 1);
  cairo_paint(cr.get());
  cairo_select_font_face(cr.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  for (const Shape& s : scene.shapes) draw(cr.get(), s);
  const cairo_status_t status = cairo_surface_write_to_png(surface.get(), path.c_str());
  if (status != CAIRO_STATUS_SUCCESS)
    throw Error(Code::kIo, std::string("cannot write: ") + cairo_status_to_string(status), path);
}

#else

bool can_write_png() { return false; }

void write_png(const Scene&, const std::string& path) {
  throw Error(Code::kUnsupported, "this build cannot write PNG (libcairo2-dev was missing); use .svg or .html", path);
}

#endif

}  // namespace kvasir::lab::eval
