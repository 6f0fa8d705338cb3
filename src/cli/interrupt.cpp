#include "cli/interrupt.hpp"

namespace kvasir::cli {
namespace {

// A signal handler gets no pointer to its owner: this is the one place for a variable of the process.
std::atomic<bool> g_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a handler may only touch lock-free atomics");

void on_interrupt(int) { g_requested.store(true, std::memory_order_relaxed); }

}  // namespace

Interrupt::Interrupt() {
  g_requested.store(false, std::memory_order_relaxed);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  // RESETHAND gives the second Ctrl-C its default action; no RESTART, so that a blocking read ends.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, &before_);
}

Interrupt::~Interrupt() { ::sigaction(SIGINT, &before_, nullptr); }

const std::atomic<bool>& Interrupt::requested() const { return g_requested; }

}  // namespace kvasir::cli
