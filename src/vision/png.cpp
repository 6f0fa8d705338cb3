// PNG by libpng.
#include "vision/decoders.hpp"

#ifdef KVASIR_PNG
#include <png.h>

#include <csetjmp>
#include <cstring>
#endif

namespace kvasir::vision {

#ifdef KVASIR_PNG
namespace {

struct Png {
  const Encoded* file = nullptr;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> rest;
  char message[128] = {};

  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
};

// Errors leave the library by longjmp to the function below that called it: those have no locals that would have to be
// destroyed or that change.
void leave_png(png_structp png, png_const_charp message) {
  Png& p = *static_cast<Png*>(png_get_error_ptr(png));
  std::strncpy(p.message, message, sizeof p.message - 1);
  png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

void take_bytes(png_structp png, png_bytep to, png_size_t n) {
  Png& p = *static_cast<Png*>(png_get_io_ptr(png));
  if (p.rest.size() < n) png_error(png, "it is cut off");
  std::memcpy(to, p.rest.data(), n);
  p.rest = p.rest.subspan(n);
}

// Called behind every row of every pass.
void watch_rows(png_structp png, png_uint_32, int) {
  Png& p = *static_cast<Png*>(png_get_io_ptr(png));
  if (!p.file->is_late()) return;
  p.file->late().copy(p.message, sizeof p.message - 1);
  png_longjmp(png, 1);
}

bool read_info(Png& p, Decoded& d) {
  if (setjmp(png_jmpbuf(p.png))) return false;
  png_set_read_fn(p.png, &p, take_bytes);
  png_set_read_status_fn(p.png, watch_rows);
  // The side is limited by the number of pixels; what belongs to no pixel is skipped or small.
  png_set_user_limits(p.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_chunk_cache_max(p.png, 64);
  png_set_chunk_malloc_max(p.png, 1 << 20);
  png_read_info(p.png, p.info);
  d.size = {static_cast<int>(png_get_image_width(p.png, p.info)),
            static_cast<int>(png_get_image_height(p.png, p.info))};
  return true;
}

// 8 bits of RGB or RGBA.
bool choose_form(Png& p, Decoded& d) {
  if (setjmp(png_jmpbuf(p.png))) return false;
  png_set_expand(p.png);
  png_set_strip_16(p.png);
  png_set_gray_to_rgb(p.png);
  png_set_interlace_handling(p.png);
  png_read_update_info(p.png, p.info);
  d.channels = png_get_channels(p.png, p.info);
  return true;
}

bool read_image(Png& p, std::vector<png_bytep>& rows) {
  if (setjmp(png_jmpbuf(p.png))) return false;
  png_read_image(p.png, rows.data());
  png_read_end(p.png, p.info);
  return true;
}

}  // namespace

Decoded decode_png(const Encoded& file) {
  Png p;
  Decoded d;
  p.file = &file;
  p.rest = file.bytes;
  p.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &p, leave_png, ignore_warning);
  p.info = p.png ? png_create_info_struct(p.png) : nullptr;
  if (!p.info) throw Error(Code::kMemory, "no memory to read it", file.name);
  const auto stop = [&] { file.fail(std::string("is a PNG picture that cannot be read: ") + p.message); };
  if (!read_info(p, d)) stop();
  file.check(d.size);
  if (!choose_form(p, d)) stop();
  d.allocate();
  std::vector<png_bytep> rows;
  for (int y = 0; y < d.size.height; ++y) rows.push_back(d.row(y));
  if (!read_image(p, rows)) stop();
#ifdef PNG_eXIf_SUPPORTED
  png_bytep exif = nullptr;
  png_uint_32 exif_bytes = 0;
  if (png_get_eXIf_1(p.png, p.info, &exif_bytes, &exif))
    d.orientation = exif_orientation(std::as_bytes(std::span(exif, exif_bytes)));
#endif
  return d;
}
#else
Decoded decode_png(const Encoded& file) { file.lacks("PNG", "libpng", "libpng-dev"); }
#endif

}  // namespace kvasir::vision
