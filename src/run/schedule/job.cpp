#include "run/schedule/job.hpp"

#include "base/clock.hpp"

namespace kvasir::run {

bool Job::draw(std::span<const float> row, std::int64_t tokens) {
  const std::int64_t before = answer->size();
  const bool more = answer->next(row, tokens);
  if (at.first_token == 0) note_first_token();
  if (answer->size() > before) {
    ids.push_back(answer->token());
    const Piece piece{answer->record(), answer->text()};
    listener->pieces({&piece, 1});
  } else {
    say_rest();
  }
  return more;
}

void Job::say_rest() {
  if (answer->text().empty()) return;
  const TokenRecord none{-1, 0, {}};
  const Piece piece{none, answer->text()};
  listener->pieces({&piece, 1});
}

void Job::note_first_token() {
  at.first_token = steady_seconds();
  outcome.receipt.prefill_seconds = at.first_token - at.started;
}

}  // namespace kvasir::run
