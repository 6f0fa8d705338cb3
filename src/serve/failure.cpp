#include "serve/failure.hpp"

namespace kvasir::serve {
namespace {

constexpr int kRetrySeconds = 5;

ApiError server_error(int status, std::string message, std::string code, int retry_after = 0) {
  return {.status = status,
          .message = std::move(message),
          .type = "server_error",
          .code = std::move(code),
          .retry_after = retry_after};
}

}  // namespace

std::optional<ApiError> failure_of(const run::Outcome& outcome) {
  switch (outcome.failure) {
    case run::Failure::kQueueTimeout:
      return server_error(503, outcome.error, "queue_timeout", kRetrySeconds);
    case run::Failure::kNoRoom:  // even alone: trying again does not help
      return server_error(503, outcome.error, "no_room");
    case run::Failure::kWeights:
      return server_error(503, outcome.error, "weights_unreadable", kRetrySeconds);
    case run::Failure::kRows:
      return server_error(503, outcome.error, "rows_failed", kRetrySeconds);
    case run::Failure::kEngine:
      return server_error(500, outcome.error, "generation_failed");
    case run::Failure::kNone:
      break;
  }
  if (outcome.finish == run::Finish::kCancelled)
    return server_error(503, "the server cancelled the request", "cancelled", kRetrySeconds);
  if (outcome.finish == run::Finish::kNothing)
    return server_error(500, "the model gave no number to choose a token by", "generation_failed");
  return std::nullopt;
}

}  // namespace kvasir::serve
