#include "cli/auto_codecs.hpp"

#include <algorithm>
#include <string_view>

#include "text/prompt.hpp"

namespace kvasir::cli {
namespace {

// Prose, a list, code, figures, a question: about 500 tokens.
constexpr std::string_view kSample =
    "The harbour wakes before the town does. Long before the first tram rattles down the hill, the boats come in one "
    "by one, their lamps still lit, and the men on the quay read the day's catch from the way the hulls sit in the "
    "water. Nobody speaks much. An old woman sells coffee from a cart that her mother used before her, and whoever "
    "has no money today pays tomorrow; she keeps no book, and it has never been wrong.\n\n"
    "How to repair a bicycle tyre:\n"
    "1. Take the wheel out and let the remaining air escape.\n"
    "2. Lift the tyre over the rim with two levers, and pull out the tube.\n"
    "3. Pump it up, hold it under water, and look for bubbles.\n"
    "4. Roughen the place, spread the glue thinly, wait five minutes, and press the patch on.\n\n"
    "def moving_average(values, width):\n"
    "    if width <= 0 or width > len(values):\n"
    "        raise ValueError(f\"width must be between 1 and {len(values)}, got {width}\")\n"
    "    total = sum(values[:width])\n"
    "    result = [total / width]\n"
    "    for i in range(width, len(values)):\n"
    "        total += values[i] - values[i - width]\n"
    "        result.append(total / width)\n"
    "    return result\n\n"
    "In 1998 the region had 12,480 inhabitants, 3.7 % fewer than ten years earlier; by 2016 there were 14,205. "
    "\"We did not plan this,\" the mayor said when she was asked about it. \"People came because others had come, and "
    "then the school stayed open, and so more people came.\" The railway, closed since 1971, carried passengers "
    "again from May 2019.\n\n"
    "Question: Why does bread rise? Answer: Yeast turns sugar into carbon dioxide and alcohol. The gas cannot leave "
    "the dough, because gluten holds it in small bubbles, so the dough grows. In the oven the bubbles expand once "
    "more until the crust sets.\n";

}  // namespace

void choose_codecs(run::Engine& engine) {
  const text::Tokenizer& tokenizer = *engine.tokenizer();
  auto ids = text::encode_prompt(tokenizer, kSample, {.add_bos = tokenizer.add_bos()});
  ids.resize(std::min(ids.size(), static_cast<std::size_t>(engine.context())));
  engine.choose_codecs(ids);
}

}  // namespace kvasir::cli
