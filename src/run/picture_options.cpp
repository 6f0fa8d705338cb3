#include "run/pictures.hpp"

namespace kvasir::run {

const OptionTable<PictureOptions>& picture_table() {
  using O = PictureOptions;
  static const OptionTable<O> table{
      "pictures",
      {{"mmproj",
        &O::mmproj,
        {.help = "read pictures, with the encoder in this file, which goes with the model", .placeholder = "FILE"}},
       {"image_memory",
        &O::image_memory,
        {.help = "memory for pictures that were read and their rows, so that the same bytes are not decoded again; 0 "
                 "for none",
         .unit = "bytes",
         .low = 0,
         .high = std::int64_t{1} << 40}}}};
  return table;
}

}  // namespace kvasir::run
