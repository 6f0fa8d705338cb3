// kvasir picture --mmproj FILE [--rows] [--exact] IMAGE...
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/host.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "vision/encoder.hpp"

namespace kvasir::cli::commands_picture {
namespace {

struct PictureOptions {
  std::string mmproj;
  std::vector<std::string> images;
  bool rows = false;
  bool exact = false;
  bool eight_bits = false;
  std::int32_t most_rows = 0;
  std::int32_t threads = 0;
};

const OptionTable<PictureOptions>& table() {
  using O = PictureOptions;
  static const OptionTable<O> t{
      "picture",
      {{"mmproj",
        &O::mmproj,
        {.help = "the encoder's file, as convert_hf_to_gguf.py --mmproj writes it, or the model's folder",
         .placeholder = "FILE",
         .required = true}},
       {"rows", &O::rows, {.help = "print the rows, too, as numbers"}},
       {"exact", &O::exact, {.help = "multiply in float32, whatever the type of the weights"}},
       {"eight_bits",
        &O::eight_bits,
        {.help = "round matrices of 16 and 32 bits to Q8_0, as it is with a model's --weights"}},
       {"most_rows",
        &O::most_rows,
        {.help = "rows of a picture at most; 0: as the model's own processor", .low = 0, .high = 65536}},
       {"threads", &O::threads, {.help = "0 is one per core", .letter = 't', .low = 0, .high = 512}}}};
  return t;
}

nlohmann::ordered_json numbers(const std::vector<float>& rows, std::int64_t width) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (auto at = rows.begin(); at < rows.end(); at += width) all.push_back(std::vector<float>(at, at + width));
  return all;
}

void print_one(const std::string& path, vision::Encoder& encoder, Team& team, bool with_rows) {
  const double begin = steady_seconds();
  const vision::Picture picture = vision::read_picture(path);
  const double decoded = steady_seconds();
  const vision::Prepared prepared = encoder.prepare(picture);
  const std::string hash = to_hex(vision::key_of(prepared, encoder));
  const double ready = steady_seconds();
  const vision::Encoding e = encoder.encode(prepared, team);
  const double end = steady_seconds();

  nlohmann::ordered_json out{{"file", path}, {"width", picture.size.width}, {"height", picture.size.height}};
  out["parts"] = nlohmann::ordered_json::array();
  for (const vision::Picture& p : prepared.parts)
    out["parts"].push_back({{"width", p.size.width}, {"height", p.size.height}});
  out["rows"] = e.count();
  out["row_width"] = e.width;
  out["runs"] = nlohmann::ordered_json::array();
  for (const vision::Run& r : e.runs)
    out["runs"].push_back({{"before", r.before},
                           {"after", r.after},
                           {"first", r.first},
                           {"grid", {r.grid.t, r.grid.h, r.grid.w}},
                           {"sight", vision::name(r.sight)}});
  out["deep"] = e.deep.size();
  out["hash"] = hash;
  out["seconds"] = {{"decode", decoded - begin}, {"prepare", ready - decoded}, {"encode", end - ready}};
  if (with_rows) {
    out["values"] = numbers(e.rows, e.width);
    for (const std::vector<float>& layer : e.deep) out["deep_values"].push_back(numbers(layer, e.width));
  }
  print_json_row(out);
}

int picture(const PictureOptions& o) {
  Team team(o.threads > 0 ? o.threads : std::clamp(describe_host().usable_cores, 1, 512));
  const auto encoder =
      vision::open_encoder(o.mmproj, {.exact = o.exact, .most_rows = o.most_rows, .eight_bits = o.eight_bits}, team);
  for (const std::string& path : o.images) print_one(path, *encoder, team, o.rows);
  return kSuccess;
}

Action setup(Flags& flags) {
  auto options = std::make_shared<PictureOptions>();
  add_options(flags, table(), *options);
  flags.values("IMAGE", options->images, -1, "JPEG, PNG or WebP files", {.placeholder = "FILE", .required = true});
  return [options] { return picture(*options); };
}

}  // namespace

const Command entry{"show what a model's encoder makes of pictures, as JSON", setup};

}  // namespace kvasir::cli::commands_picture
