#include "kv/families/affine/products_of_width.hpp"

namespace kvasir::kv::entries::codecs::KVASIR_TARGET {
template struct Products<3>;
}
