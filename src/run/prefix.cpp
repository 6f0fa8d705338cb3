#include "run/prefix.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace kvasir::run {
namespace {

std::int64_t prefix_of(const Request& request) {
  return request.prefix_tokens < 0 ? static_cast<std::int64_t>(request.prompt.size()) : request.prefix_tokens;
}

}  // namespace

void check_prefix(const Engine& engine, const Request& request) {
  if (request.prefix_tokens == 0) return;
  const auto refuse = [](const std::string& what) { throw Error(Code::kBadInput, what, "prefix_tokens"); };
  const std::int64_t n = prefix_of(request);
  const std::string is = "is " + std::to_string(n);
  if (!engine.model().spec().prefix)
    refuse(is + ", expected 0: every token of this model sees what is before it (no prefix_lm)");
  if (!request.runs.empty()) refuse(is + ", expected 0 for a prompt with pictures or other rows");
  if (request.prompt_logprobs) refuse(is + ", expected 0 where log-probabilities of the prompt are asked for");
  if (request.keep >= 0) refuse(is + ", expected 0 where the oldest tokens are left out when the context is full");
  if (n > static_cast<std::int64_t>(request.prompt.size()))
    refuse(is + ", expected at most the prompt's " + std::to_string(request.prompt.size()) + " tokens");
  const std::int64_t most = std::min<std::int64_t>(engine.options().chunk, engine.context()) - engine.sequences();
  if (n > most)
    refuse(is + ", expected at most " + std::to_string(most) + ", which fit a step beside answers (see --chunk)");
}

std::shared_ptr<const model::RowBlock> prefix_block(const Engine& engine, std::span<const std::int32_t> ids) {
  store::KeyStream stream({}, "kvasir.b");
  stream.add(std::as_bytes(ids));
  const model::RowShape shape{.count = static_cast<std::int64_t>(ids.size()),
                              .width = static_cast<int>(engine.model().spec().dim),
                              .sight = model::Sight::kAll};
  return std::make_shared<const model::RowBlock>(
      stream.key(), shape,
      [&spec = engine.model().spec(), tokens = std::vector<std::int32_t>(ids.begin(), ids.end())](model::RowWatch&) {
        const auto dim = static_cast<std::size_t>(spec.dim);
        std::vector<float> rows(tokens.size() * dim);
        for (std::size_t i = 0; i < tokens.size(); ++i) spec.embedding.tokens.row(tokens[i], rows.data() + i * dim);
        for (float& x : rows) x *= spec.embedding.scale;
        return rows;
      });
}

void take_prefix(const Engine& engine, Request& request) {
  const std::int64_t n = prefix_of(request);
  if (n == 0) return;
  auto block = prefix_block(engine, std::span(request.prompt).first(static_cast<std::size_t>(n)));
  std::copy(block->ids().begin(), block->ids().end(), request.prompt.begin());
  request.runs = {{0, std::move(block)}};
  request.prefix_tokens = 0;
}

}  // namespace kvasir::run
