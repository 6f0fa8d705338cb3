// Lines that a person types, with editing and history where the build has libedit and both ends are a terminal.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace kvasir::cli {

class LineReader {
 public:
  // `history`: a file that lines are kept in; "": none. `stop` ends a read (set by a signal handler).
  LineReader(const std::string& history, const std::atomic<bool>& stop);
  ~LineReader();

  // A line without its end, or several when they end with a backslash. Nothing at the end of the input or when `stop`
  // is set. The prompt is only shown on a terminal.
  std::optional<std::string> read(const std::string& prompt);

 private:
  struct Editor;
  std::optional<std::string> one_line(const std::string& prompt);

  const std::atomic<bool>& stop_;
  std::unique_ptr<Editor> editor_;  // null: lines come as they are
};

}  // namespace kvasir::cli
