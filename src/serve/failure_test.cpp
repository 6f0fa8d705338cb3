// Every way a request can end, and what the client is told.
#include "serve/failure.hpp"

#include <gtest/gtest.h>

namespace kvasir::serve {
namespace {

using run::Failure;
using run::Finish;

TEST(Failures, BecomeStatuses) {
  struct Case {
    Failure failure;
    Finish finish;
    int status;  // 0: an answer
    const char* code;
    bool retry;
  };
  const Case cases[] = {{Failure::kNone, Finish::kEnd, 0, "", false},
                        {Failure::kNone, Finish::kStop, 0, "", false},
                        {Failure::kNone, Finish::kLength, 0, "", false},
                        {Failure::kNone, Finish::kContext, 0, "", false},
                        {Failure::kNone, Finish::kCancelled, 503, "cancelled", true},
                        {Failure::kNone, Finish::kNothing, 500, "generation_failed", false},
                        {Failure::kQueueTimeout, Finish::kCancelled, 503, "queue_timeout", true},
                        {Failure::kNoRoom, Finish::kContext, 503, "no_room", false},
                        {Failure::kWeights, Finish::kCancelled, 503, "weights_unreadable", true},
                        {Failure::kEngine, Finish::kCancelled, 500, "generation_failed", false}};
  for (const Case& c : cases) {
    const auto error = failure_of({.finish = c.finish, .failure = c.failure, .error = "why"});
    ASSERT_EQ(error.has_value(), c.status != 0) << run::name(c.failure) << " " << run::name(c.finish);
    if (!error) continue;
    EXPECT_EQ(error->status, c.status) << run::name(c.failure) << " " << run::name(c.finish);
    EXPECT_EQ(error->code, c.code);
    EXPECT_EQ(error->retry_after > 0, c.retry);
    EXPECT_EQ(error->type, "server_error");
    EXPECT_EQ(error->message == "why", c.failure != Failure::kNone);
  }
}

}  // namespace
}  // namespace kvasir::serve
