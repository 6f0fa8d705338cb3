#include "cli/line_reader.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cwchar>
#include <filesystem>

#include "cli/terminal.hpp"

#ifdef KVASIR_EDIT
#include <histedit.h>
#endif

namespace kvasir::cli {
namespace {

// One byte of standard input; -1 at its end, or once `stop` is set.
int next_byte(const std::atomic<bool>& stop) {
  for (;;) {
    unsigned char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n == 1) return byte;
    if (n == 0 || errno != EINTR || stop.load(std::memory_order_relaxed)) return -1;
  }
}

}  // namespace

#ifdef KVASIR_EDIT

struct LineReader::Editor {
  static constexpr int kMostLines = 2000;

  Editor(const std::string& file, const std::atomic<bool>& stop_flag) : stop(stop_flag), history_file(file) {
    line = el_init("kvasir", stdin, stdout, stderr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kMostLines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) {
      std::error_code ignored;
      std::filesystem::create_directories(std::filesystem::path(history_file).parent_path(), ignored);
      ::history(history, &event, H_LOAD, history_file.c_str());
    }
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_SIGNAL, 0);  // Ctrl-C is the program's
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, ::history, history);
    el_set(
        line, EL_PROMPT, +[](EditLine* l) {
          Editor* self = nullptr;
          el_get(l, EL_CLIENTDATA, &self);
          return self->prompt.data();
        });
    el_set(
        line, EL_GETCFN, +[](EditLine* l, wchar_t* c) {
          Editor* self = nullptr;
          el_get(l, EL_CLIENTDATA, &self);
          return self->next(c);
        });
  }
  ~Editor() {
    HistEvent event;
    if (!history_file.empty()) ::history(history, &event, H_SAVE, history_file.c_str());
    history_end(history);
    el_end(line);
  }

  int next(wchar_t* c) {
    std::mbstate_t state{};
    for (;;) {
      const int byte = next_byte(stop);
      if (byte < 0) return 0;
      const char one = static_cast<char>(byte);
      const std::size_t n = std::mbrtowc(c, &one, 1, &state);
      if (n == static_cast<std::size_t>(-1)) state = {};  // no character: the byte is dropped
      if (n <= 1) return 1;
    }
  }

  std::optional<std::string> read(const std::string& shown) {
    prompt = shown;
    int count = 0;
    const char* text = el_gets(line, &count);
    if (!text || count <= 0) return std::nullopt;
    std::string out(text, static_cast<std::size_t>(count));
    if (out.find_first_not_of(" \t\r\n") != std::string::npos) {
      HistEvent event;
      ::history(history, &event, H_ENTER, out.c_str());
    }
    return out;
  }

  const std::atomic<bool>& stop;
  std::string history_file, prompt;
  EditLine* line;
  History* history;
};

LineReader::LineReader(const std::string& history, const std::atomic<bool>& stop) : stop_(stop) {
  if (is_terminal(stdin) && is_terminal(stdout)) editor_ = std::make_unique<Editor>(history, stop);
}

#else

struct LineReader::Editor {
  static std::optional<std::string> read(const std::string&) { return std::nullopt; }
};

LineReader::LineReader(const std::string&, const std::atomic<bool>& stop) : stop_(stop) {}

#endif

LineReader::~LineReader() = default;

std::optional<std::string> LineReader::one_line(const std::string& prompt) {
  std::string line;
  if (editor_) {
    const auto read = editor_->read(prompt);
    if (!read) return std::nullopt;
    line = *read;
  } else {
    if (is_terminal(stdin)) std::fputs(prompt.c_str(), stdout), std::fflush(stdout);
    for (;;) {
      const int byte = next_byte(stop_);
      if (byte < 0 && line.empty()) return std::nullopt;
      if (byte < 0) break;
      line += static_cast<char>(byte);
      if (byte == '\n') break;
    }
  }
  while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
  return line;
}

std::optional<std::string> LineReader::read(const std::string& prompt) {
  std::optional<std::string> text = one_line(prompt);
  while (text && text->ends_with('\\')) {
    const auto more = one_line(std::string(prompt.size() > 2 ? prompt.size() - 2 : 0, ' ') + ". ");
    text->back() = '\n';
    if (!more) break;
    *text += *more;
  }
  return stop_.load(std::memory_order_relaxed) ? std::nullopt : text;
}

}  // namespace kvasir::cli
