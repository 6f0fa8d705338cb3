#include "text/jinja/meter.hpp"

#include <fmt/format.h>

#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

void Meter::too_many_steps() const { fail(fmt::format("the template takes more than {} steps", limits_.steps)); }

void Meter::too_much_memory() const {
  fail(fmt::format("the template makes more than {} MiB of values", limits_.memory >> 20));
}

void Meter::too_much_output() const {
  fail(fmt::format("the template writes more than {} MiB of text", limits_.output >> 20));
}

void Meter::too_deep() const {
  fail(fmt::format("blocks, macros and expressions are nested more than {} deep", limits_.depth));
}

}  // namespace kvasir::text::jinja
