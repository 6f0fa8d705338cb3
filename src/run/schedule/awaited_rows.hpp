// Rows of prompts that are computed beside the steps, of pictures for example: by a thread of their own. A prompt goes
// on up to rows that are not there yet; what runs beside it does not notice.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "base/team.hpp"
#include "run/schedule/job.hpp"

namespace kvasir::run {

class AwaitedRows {
 public:
  // `changed`: as RowLoader's.
  AwaitedRows(const Team& team, std::function<void()> changed) : team_(team), loader_(std::move(changed)) {}

  // Asks for the rows that the job will compute and nobody has computed yet: all of a prompt at once, so that those
  // behind others are computed while the prompt is. Says why some cannot be; empty: they are, or will be.
  std::string want(Job& job);
  void drop(Job& job);          // it wants none any more
  static void count(Job& job);  // in its receipt: rows of its prompt, and those that it reused
  int step_threads() const;     // while rows are being computed, half of the threads are theirs
  void beside_steps(bool on) { loader_.beside_steps(on); }

 private:
  const Team& team_;
  RowLoader loader_;
};

}  // namespace kvasir::run
