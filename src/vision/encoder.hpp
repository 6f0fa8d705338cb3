// From pictures to rows of a text model. vision::open_encoder reads the file beside the text model (`mmproj`, GGUF's
// architecture "clip"), or a folder that has the model and its encoder (hub/vision_folder.hpp), and
// finds its kind in vision/encoders, by the projector that the file names.
//
//   Team team(2);
//   const auto encoder = vision::open_encoder("mmproj.gguf", {}, team);
//   const vision::Prepared p = encoder->prepare(vision::read_picture("cat.png"));
//   const vision::PictureKey key = vision::key_of(p, *encoder);                // a cache may be asked here
//   const vision::Encoding e = encoder->encode(p, team);                      // e.rows: (e.count(), encoder->width())
//   for (const vision::Run& run : e.runs) {          // or, before anything is computed, encoder->runs(p)
//     ids += tokens of run.before;                // special tokens of the text model
//     rows [run.first, run.first + run.grid.count()); run.sight says which of each other they see
//     ids += tokens of run.after;
//   }
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.hpp"
#include "base/registry.hpp"
#include "base/team.hpp"
#include "vision/picture.hpp"

namespace kvasir::weights {
class ModelFile;
}

namespace kvasir::vision {

class Reader;  // vision/linear.hpp

struct EncoderOptions {
  bool exact = false;          // products in float32, whatever the type of the weights
  std::int32_t most_rows = 0;  // of a picture; 0: as the model's own processor has it
  // Matrices of 16 and 32 bits are rounded to Q8_0 and multiplied in integers, but for those of patches. Not with
  // exact.
  bool eight_bits = false;
};

// Resized pictures, which an encoder takes: one, or several parts of one.
struct Prepared {
  Size original;  // upright
  std::vector<Picture> parts;
  std::vector<std::string> marks;  // of an encoder that cuts pictures: what stands in front of each part
};

// Places of rows: row (t h + y) w + x lies at (t, y, x). Positions of M-RoPE are counted in it.
struct Grid {
  int t = 1, h = 0, w = 0;
  std::int64_t count() const { return std::int64_t{t} * h * w; }
};

// Which of a run's rows the text model's attention lets each of them see, besides what stands before the run.
enum class Sight {
  kEarlier,            // those before it, as with text
  kBothWays,           // all
  kBothWaysInWindows,  // all in layers with a window (and within it), those before it in the others
};
std::string_view name(Sight sight);  // "earlier", "both_ways", "both_ways_in_windows"

// Rows that stand together in a prompt, and what stands around them.
struct Run {
  std::string before, after;  // texts of special tokens; empty: nothing
  std::int64_t first = 0;     // of Encoding::rows
  Grid grid;
  Sight sight = Sight::kEarlier;
  bool places = false;  // whether rows have positions of three parts, by their places in the grid (M-RoPE)
};

struct Encoding {
  std::int64_t width = 0;   // of the text model's embedding
  std::vector<float> rows;  // (count, width)
  // Element i is added, row by row, to what layer i of the text model gives, at the places of `rows` alone (deepstack).
  std::vector<std::vector<float>> deep;  // each (count, width)
  std::vector<Run> runs;

  std::int64_t count() const { return static_cast<std::int64_t>(rows.size()) / width; }
};

// BLAKE2b-256 of everything that decides about the rows.
struct PictureKey {
  std::array<std::byte, 32> bytes{};
  auto operator<=>(const PictureKey&) const = default;
};
std::string to_hex(const PictureKey& key);

// Called between parts of the computing, `done` of about `all` of which are over, on the thread that called: it may
// change the team's use() and throw, which ends it.
using Watch = FunctionRef<void(std::int64_t done, std::int64_t all)>;

class Encoder {
 public:
  virtual ~Encoder() = default;

  virtual std::int64_t width() const = 0;
  virtual int deep() const { return 0; }  // elements of Encoding::deep
  // What a picture of this size is resized to. Throws Error(kBadInput) for one that the model's processor refuses.
  virtual Size size_for(Size picture) const = 0;
  // Throws Error(kBadInput) as size_for.
  virtual Prepared prepare(const Picture& picture) const = 0;
  // Encoding::runs of what prepare() gave, which take no computing.
  virtual std::vector<Run> runs(const Prepared& prepared) const = 0;
  // REQUIRES: what prepare() of this encoder gave; one call at a time. Throws Error(kMemory), and what `watch` throws.
  virtual Encoding encode(const Prepared& prepared, Team& team, Watch watch) = 0;
  Encoding encode(const Prepared& prepared, Team& team) {
    return encode(prepared, team, [](std::int64_t, std::int64_t) {});
  }
  // All that prepare() and encode() do besides reading weights, as text.
  virtual std::string description() const = 0;

  // Of description(), the file's tensors and the kernels' arithmetic: two encoders with the same give the same rows.
  const PictureKey& fingerprint() const { return fingerprint_; }
  const std::string& kind() const { return kind_; }  // as in the file

 private:
  friend std::unique_ptr<Encoder> open_encoder(const std::string&, const EncoderOptions&, Team&);
  PictureKey fingerprint_;
  std::string kind_;
};

// Of the encoder's fingerprint, size and bytes of every part, and what stands in front of it.
PictureKey key_of(const Prepared& prepared, const Encoder& encoder);

// Contract of an entry in vision/encoders; its file is called as clip.projector_type calls it, with _ for a dot.
struct EncoderKind {
  const char* summary;
  // Reads keys and tensors. Throws Error naming the file and what is wrong.
  std::unique_ptr<Encoder> (*open)(const Reader& reader, const EncoderOptions& options);
};
std::span<const Entry<EncoderKind>> encoders();

// Throws Error naming file, key or tensor: kBadInput, kUnsupported for a projector that is in no entry.
std::unique_ptr<Encoder> open_encoder(const std::string& path, const EncoderOptions& options, Team& team);

}  // namespace kvasir::vision
