// What the commands of `kvasir eval` share that measure a model.
#pragma once

#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/config.hpp"
#include "cli/interrupt.hpp"
#include "cli/models.hpp"
#include "cli/terminal.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::cli {

// Loads, then shows how far the work is. Behind Ctrl-C both end with Error(kCancelled).
class EvalRun {
 public:
  // command: "eval ppl". work: what the bar says behind "loading". stopped: what is said behind Ctrl-C.
  EvalRun(const char* command, const char* work, const char* stopped = "stopped; nothing was measured to the end")
      : command_(command), stopped_(stopped), bar_(work) {}

  void load(lab::eval::Subject& subject) {
    ProgressBar loading("loading");
    subject.load([&](std::int64_t done, std::int64_t total) { update(loading, done, total); });
    loading.finish();
  }
  // To be called with how much is done, and of how much; valid as long as this object.
  auto progress() {
    return [this](std::int64_t done, std::int64_t total) { update(bar_, done, total); };
  }
  ProgressBar& bar() { return bar_; }

 private:
  void update(ProgressBar& bar, std::int64_t done, std::int64_t total) const {
    if (interrupt_.requested().load(std::memory_order_relaxed)) throw Error(Code::kCancelled, stopped_, command_);
    bar.update(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  }

  const char* const command_;
  const char* const stopped_;
  const Interrupt interrupt_;
  ProgressBar bar_;
};

// The subject's options and the command's own, `table`, which are a member of the settings; then `run`.
template <class Settings, class Options, class Run>
Action eval_action(Flags& flags, std::shared_ptr<Settings> settings, const OptionTable<Options>& table,
                   Options Settings::*own, Run run) {
  const auto config = std::make_shared<Config>(flags);
  config->add(flags, lab::eval::subject_table(), settings->subject);
  config->add(flags, table, (*settings).*own);
  return [settings, config, run] {
    if (!config->resolve()) return kSuccess;
    settings->subject.model = local_model(settings->subject.model);
    return run(*settings);
  };
}

}  // namespace kvasir::cli
