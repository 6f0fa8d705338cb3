// A request that generates: all its answers, from the service's thread to the connection.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/dialect.hpp"
#include "serve/exchange.hpp"
#include "serve/prompt.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

// The engine's thread only copies what it has into an inbox and posts one task; the connection's strand turns it into
// what the dialect writes. Nothing in between waits: when the client reads too slowly and more than
// options.stream_buffer bytes stand in the inbox and before the socket, the request is cancelled and the connection
// closed.
class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits every answer of `request`. Throws what Service::submit throws, and then nothing runs.
  static void start(const std::shared_ptr<Exchange>& exchange, const Dialect& dialect, ApiRequest request,
                    std::vector<EncodedPrompt> prompts);

 private:
  friend class ChoiceListener;
  enum class What { kStarted, kProgress, kScored, kPieces, kDone };
  struct Event {
    int choice = 0;
    What what = What::kStarted;
    bool is_last = false;  // the answer ended without anything else
    double time = 0;
    std::string text;
    std::uint64_t tokens = 0;
    std::vector<std::int32_t> ids;          // of kDone: the answer's, where they are remembered
    std::vector<run::TokenRecord> records;  // only with log-probabilities
    Progress progress;
    run::Outcome outcome;
  };
  struct Stream;  // of one answer

  Generation(const std::shared_ptr<Exchange>& exchange, const Dialect& dialect, ApiRequest request,
             std::vector<EncodedPrompt> prompts);

  void submit();
  void take_back(const ApiError& error);  // not all answers could be submitted
  void cancel();
  void deliver(Event event);  // any thread

  // On the strand.
  void drain();
  void handle(Event& event);
  void count_tokens(Stream& stream, const Event& event);
  void on_progress(Stream& stream, int index, const Event& event);
  void on_scored(Stream& stream, int index, const Event& event);
  void say_echo(Stream& stream, int index);
  void on_pieces(Stream& stream, int index, Event& event);
  void on_done(Stream& stream, int index, Event& event);
  void locate_miss(int index);
  void open();
  void write(std::string_view bytes);
  void finish_choice(Stream& stream, int index, std::span<const std::int32_t> ids);
  void describe(int index, const Stream& stream, std::span<const std::int32_t> ids);
  void finish();
  void fail(const ApiError& error);
  void measure();
  void tick();  // signs of life in silent streams and the time limit
  bool over_limit() const;

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<Exchange> exchange_;
  const ApiRequest request_;
  const std::vector<EncodedPrompt> prompts_;
  const std::unique_ptr<AnswerWriter> writer_;
  const double start_;

  std::mutex mutex_;  // guards the next block
  std::vector<Event> inbox_;
  std::size_t inbox_bytes_ = 0;
  bool posted_ = false;
  bool cancelled_ = false;
  bool overflow_ = false;
  std::vector<run::RequestId> ids_;

  // The strand's.
  std::vector<Stream> streams_;
  std::vector<Choice> choices_;
  std::size_t done_ = 0;
  bool answered_ = false;
  double last_write_ = 0;
};

}  // namespace kvasir::serve
