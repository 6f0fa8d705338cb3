// Rotary positions as config.json has them: "rope_parameters", or of older files "rope_theta" and "rope_scaling".
#pragma once

#include <string_view>
#include <vector>

#include "hub/config.hpp"
#include "weights/safetensors/fields.hpp"

namespace kvasir::hub {

// Sets the keys of the family of `out` and adds factors to `out`. `head` is the size of a head, `context` the most
// positions that the model was trained for. Throws Error as read_config does.
void read_rope(const weights::ConfigFields& config, std::int64_t head, std::int64_t context,
               weights::Metadata& metadata, Configuration& out);

// Divisors of the frequencies of a head of `head` elements of which proportional RoPE turns the first pairs alone: the
// others' are huge. `rope` has the share ("partial_rotary_factor").
std::vector<float> proportional_factors(const weights::ConfigFields& rope, std::int64_t head);

}  // namespace kvasir::hub
