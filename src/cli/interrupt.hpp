// Ctrl-C: the first asks the running command to stop after the current step, the second ends the program at once.
#pragma once

#include <atomic>
#include <csignal>

namespace kvasir::cli {

// While one lives, the first SIGINT only sets the flag and gives the signal its default action back, so that a second
// one kills the process. The destructor restores what was there before. REQUIRES: at most one at a time (signal actions
// are the process's).
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // To be polled (relaxed) by generation; lives as long as the program.
  const std::atomic<bool>& requested() const;

 private:
  struct sigaction before_ {};
};

}  // namespace kvasir::cli
