#include "hub/vision_folder.hpp"
#include "run/pictures.hpp"

namespace kvasir::run {

const OptionTable<PictureOptions>& picture_table() {
  using O = PictureOptions;
  static const OptionTable<O> table{
      "pictures",
      {{"mmproj",
        &O::mmproj,
        {.help = "read pictures, with the encoder in this file or folder, which goes with the model; default the "
                 "model's own folder, if it has one; none reads none",
         .placeholder = "FILE"}},
       {"image_memory",
        &O::image_memory,
        {.help = "memory for pictures that were read and their rows, so that the same bytes are not decoded again; 0 "
                 "for none",
         .unit = "bytes",
         .low = 0,
         .high = std::int64_t{1} << 40}},
       {"image_seconds",
        &O::image_seconds,
        {.help = "time that a picture may take to be decoded, else it is refused; 0 for no bound",
         .unit = "s",
         .low = 0,
         .high = 3600}}}};
  return table;
}

std::string encoder_beside(const std::string& model, const std::string& mmproj) {
  if (mmproj == "none") return {};
  return mmproj.empty() && hub::folder_has_vision(model) ? model : mmproj;
}

}  // namespace kvasir::run
