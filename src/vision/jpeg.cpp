// JPEG by libjpeg-turbo.
#include "vision/decoders.hpp"

#ifdef KVASIR_JPEG
// The library's header needs what comes before it.
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#endif

namespace kvasir::vision {

#ifdef KVASIR_JPEG
namespace {

// A file of a few bytes can ask for thousands of passes over all of its coefficients; real ones have some ten.
constexpr int kMostScans = 64;
constexpr std::string_view kExifName{"Exif\0\0", 6};

struct Jpeg {
  const Encoded* file = nullptr;
  jpeg_decompress_struct c = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX] = {};
  bool created = false;

  ~Jpeg() {
    if (created) jpeg_destroy_decompress(&c);
  }
};

// Errors leave the library by longjmp to the function below that called it: those have no locals that would have to be
// destroyed or that change.
Jpeg& jpeg_of(j_common_ptr c) { return *static_cast<Jpeg*>(c->client_data); }

void leave(j_common_ptr c) {
  (*c->err->format_message)(c, jpeg_of(c).message);
  std::longjmp(jpeg_of(c).jump, 1);
}

void leave_with(Jpeg& j, const char* message) {
  std::strncpy(j.message, message, sizeof j.message - 1);
  std::longjmp(j.jump, 1);
}

void leave_late(Jpeg& j) {
  j.file->late().copy(j.message, sizeof j.message - 1);
  std::longjmp(j.jump, 1);
}

void say_nothing(j_common_ptr) {}

boolean at_end(j_decompress_ptr c) {
  leave_with(jpeg_of(reinterpret_cast<j_common_ptr>(c)), "it is cut off");
  return FALSE;
}

void skip(j_decompress_ptr c, long bytes) {
  if (bytes <= 0) return;
  if (static_cast<std::size_t>(bytes) > c->src->bytes_in_buffer) at_end(c);
  c->src->next_input_byte += bytes;
  c->src->bytes_in_buffer -= static_cast<std::size_t>(bytes);
}

void begin(j_decompress_ptr) {}

// Called for every row of blocks that is read or given, in every scan.
void watch_scans(j_common_ptr c) {
  if (jpeg_of(c).file->is_late()) leave_late(jpeg_of(c));
  if (reinterpret_cast<j_decompress_ptr>(c)->input_scan_number > kMostScans)
    leave_with(jpeg_of(c), "it has more than 64 scans");
}

bool read_header(Jpeg& j, const Encoded& file) {
  if (setjmp(j.jump)) return false;
  j.c.err = jpeg_std_error(&j.errors);
  j.errors.error_exit = leave;
  j.errors.output_message = say_nothing;
  j.c.client_data = &j;
  j.file = &file;
  jpeg_create_decompress(&j.c);
  j.created = true;
  j.source.next_input_byte = file.data();
  j.source.bytes_in_buffer = file.bytes.size();
  j.source.init_source = begin;
  j.source.fill_input_buffer = at_end;
  j.source.skip_input_data = skip;
  j.source.resync_to_restart = jpeg_resync_to_restart;
  j.source.term_source = begin;
  j.c.src = &j.source;
  j.progress.progress_monitor = watch_scans;
  j.c.progress = &j.progress;
  jpeg_save_markers(&j.c, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&j.c, TRUE);
  return true;
}

// `samples` has as many channels as the library gives: 4 of CMYK.
bool read_rows(Jpeg& j, Decoded& d) {
  if (setjmp(j.jump)) return false;
  jpeg_start_decompress(&j.c);
  while (j.c.output_scanline < j.c.output_height) {
    JSAMPROW row = d.row(static_cast<int>(j.c.output_scanline));
    jpeg_read_scanlines(&j.c, &row, 1);
  }
  return true;
}

// Inverted: a sample is how much of an ink is not there.
void drop_inks(Decoded& d) {
  const std::uint8_t* from = d.samples.data();
  std::uint8_t* to = d.samples.data();
  for (const std::uint8_t* const end = from + d.samples.size(); from < end; from += 4, to += 3)
    for (int c = 0; c < 3; ++c) {
      const int ink = (255 - from[c]) * from[3] + 128;
      to[c] = static_cast<std::uint8_t>(from[3] - ((ink + (ink >> 8)) >> 8));
    }
  d.channels = 3;
  d.allocate();
}

}  // namespace

Decoded decode_jpeg(const Encoded& file) {
  Jpeg j;
  Decoded d;
  if (!read_header(j, file)) file.fail(std::string("is no JPEG picture that can be read: ") + j.message);
  d.size = {static_cast<int>(j.c.image_width), static_cast<int>(j.c.image_height)};
  file.check(d.size);
  const bool inks = j.c.jpeg_color_space == JCS_CMYK || j.c.jpeg_color_space == JCS_YCCK;
  j.c.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  d.channels = inks ? 4 : 3;
  d.allocate();
  for (const jpeg_marker_struct* m = j.c.marker_list; m; m = m->next)
    if (m->data_length > kExifName.size() && std::memcmp(m->data, kExifName.data(), kExifName.size()) == 0) {
      d.orientation = exif_orientation(std::as_bytes(std::span(m->data, m->data_length)).subspan(kExifName.size()));
      break;
    }
  if (!read_rows(j, d)) file.fail(std::string("is a JPEG picture that cannot be read: ") + j.message);
  if (inks) drop_inks(d);
  return d;
}
#else
Decoded decode_jpeg(const Encoded& file) { file.lacks("JPEG", "libjpeg", "libjpeg62-turbo-dev"); }
#endif

}  // namespace kvasir::vision
