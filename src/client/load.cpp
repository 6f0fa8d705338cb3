#include "client/load.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "client/api_client.hpp"
#include "lab/conversations.hpp"

namespace kvasir::client {

namespace asio = boost::asio;
using boost::system::error_code;

const OptionTable<LoadOptions>& load_table() {
  using O = LoadOptions;
  static const OptionTable<O> table{
      "load",
      {{"requests",
        &O::requests,
        {.help = "requests of all clients together; 0 is 4 for each client", .low = 0, .high = 1 << 24}},
       {"prompt_tokens",
        &O::prompt_tokens,
        {.help = "of a prompt, about", .unit = "tokens", .low = 1, .high = 1 << 20}},
       {"shared_tokens",
        &O::shared_tokens,
        {.help = "of them, at the beginning, that are the same in all prompts",
         .unit = "tokens",
         .low = 0,
         .high = 1 << 20}},
       {"tokens", &O::tokens, {.help = "of an answer", .unit = "tokens", .low = 1, .high = 1 << 20}},
       {"conversations",
        &O::conversations,
        {.help = "chats that clients play turn by turn, in place of made-up prompts", .placeholder = "FILE"}},
       {"patience",
        &O::patience,
        {.help = "without a byte after which an answer counts as dropped",
         .unit = "seconds",
         .low = 0.01,
         .high = 1e6}}}};
  return table;
}

double jain_index(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double x : values) {
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

namespace {

constexpr auto kWords = std::to_array<const char*>(
    {"the",  "of",    "and",  "to",    "in",    "a",     "that", "he",   "was",   "it",    "his",  "is",    "with",
     "as",   "had",   "for",  "she",   "not",   "at",    "but",  "be",   "on",    "they",  "have", "him",   "which",
     "said", "from",  "all",  "this",  "her",   "were",  "by",   "one",  "all",   "there", "who",  "them",  "would",
     "out",  "their", "when", "what",  "some",  "then",  "into", "now",  "could", "time",  "man",  "day",   "more",
     "very", "after", "down", "night", "house", "white", "long", "well", "came",  "old",   "went", "before"});

// Words that depend on nothing but `seed`.
std::string words(std::uint64_t seed, std::int64_t count) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    text += i == 0 ? "" : " ";
    text += kWords[(seed >> 33) % kWords.size()];
  }
  return text;
}

class Run {
 public:
  Run(const Endpoint& endpoint, const std::string& model, std::int32_t clients, const LoadOptions& options,
      const std::function<bool(std::int64_t, std::int64_t)>& poll)
      : endpoint_(endpoint),
        to_(resolve(endpoint)),
        model_(model),
        options_(options),
        poll_(poll),
        total_(options.requests > 0 ? options.requests : std::int64_t{kRequestsPerClient} * clients),
        clock_(io_) {
    report_.clients = clients;
    if (!options.conversations.empty()) chats_ = lab::read_conversations(options.conversations);
    monitor_ = std::make_shared<ApiClient>(io_, to_, options.patience);
    for (std::int32_t i = 0; i < clients; ++i) {
      users_.push_back(std::make_unique<User>(io_));
      users_.back()->client = std::make_shared<ApiClient>(io_, to_, options.patience);
    }
  }

  LoadReport go() {
    if (chats_.empty()) measure_words();
    report_.memory_before = look();
    start_ = last_end_ = steady_seconds();
    for (auto& user : users_) next(*user);
    tick();
    io_.restart();
    io_.run();
    look();
    summarize();
    return std::move(report_);
  }

 private:
  struct User {
    explicit User(asio::io_context& io) : pause(io) {}
    std::shared_ptr<ApiClient> client;
    asio::steady_timer pause;
    double tokens = 0;  // until the store ran empty
    const lab::Conversation* chat = nullptr;
    std::size_t turn = 0;  // of its messages, the next one
    Json history = Json::array();
  };

  // How many words a token is, from what the server counts; a word where it does not count.
  void measure_words() {
    constexpr int kSample = 200;
    BlockingClient client(to_, options_.patience);
    const ApiAnswer answer =
        client.post(endpoint_.path + "/completions",
                    {{"model", model_}, {"prompt", words(0, kSample)}, {"max_tokens", 1}, {"temperature", 0}});
    if (answer.end != ApiAnswer::End::kComplete)
      throw Error(Code::kIo, "does not complete a prompt of a few words: " + answer.error, endpoint_.host);
    if (answer.prompt_tokens > 0) words_per_token_ = kSample / static_cast<double>(answer.prompt_tokens);
  }

  std::string make_prompt(std::int64_t number) const {
    const auto count = [&](std::int64_t tokens) {
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(tokens) * words_per_token_));
    };
    const std::int64_t shared = std::min(options_.shared_tokens, options_.prompt_tokens);
    if (shared == 0) return words(static_cast<std::uint64_t>(number) + 1, count(options_.prompt_tokens));
    const std::string beginning = words(0, count(shared));
    if (shared == options_.prompt_tokens) return beginning;
    return beginning + " " + words(static_cast<std::uint64_t>(number) + 1, count(options_.prompt_tokens - shared));
  }

  // The next turn of the user's conversation, or the first one of the next conversation.
  void advance(User& user) {
    const auto ask = [&] {
      while (user.chat && user.turn < user.chat->size()) {
        const lab::Message& m = (*user.chat)[user.turn++];
        if (m.role == "assistant") continue;  // the server's own answer stands in its place
        user.history.push_back({{"role", m.role}, {"content", m.content}});
        if (m.role == "user") return true;
      }
      return false;
    };
    for (std::size_t tries = 0; !ask(); ++tries) {
      if (tries > chats_.size())
        throw Error(Code::kBadInput, "no conversation has a turn of a user", options_.conversations);
      user.chat = &chats_[next_chat_++ % chats_.size()];
      user.turn = 0;
      user.history = Json::array();
    }
  }

  void next(User& user) {
    if (stopped_ || taken_ >= total_) {
      if (open_ == 0) clock_.cancel();
      return;
    }
    Json body{{"model", model_},  {"max_tokens", options_.tokens},
              {"temperature", 0}, {"ignore_eos", true},
              {"stream", true},   {"stream_options", {{"include_usage", true}}}};
    const char* route = "/completions";
    if (chats_.empty()) {
      body["prompt"] = make_prompt(taken_);
    } else {
      route = "/chat/completions";
      advance(user);
      body["messages"] = user.history;
    }
    ++taken_;
    ++open_;
    user.client->post(endpoint_.path + route, body, [this, &user](ApiAnswer answer) { took(user, answer); });
  }

  void took(User& user, const ApiAnswer& answer) {
    --open_;
    if (stopped_) return;
    ++ended_;
    last_end_ = answer.ended;
    count(user, answer);
    if (answer.end != ApiAnswer::End::kComplete) {
      user.chat = nullptr;  // its history has a hole
    } else if (!chats_.empty()) {
      user.history.push_back({{"role", "assistant"}, {"content", answer.text}});
    }
    if (answer.end != ApiAnswer::End::kRefused || taken_ >= total_) return next(user);
    ++open_;  // so that the run does not end meanwhile
    user.pause.expires_after(
        std::chrono::milliseconds(static_cast<int>(1e3 * std::clamp(answer.retry_after, 0.05, 60.0))));
    user.pause.async_wait([this, &user](error_code) {
      --open_;
      next(user);
    });
  }

  void count(User& user, const ApiAnswer& answer) {
    using End = ApiAnswer::End;
    LoadReport& r = report_;
    if (answer.end != End::kComplete) {
      ++(answer.end == End::kRefused ? r.refused : answer.end == End::kError ? r.failed : r.dropped);
      ++r.errors[answer.error];
      if (answer.end == End::kRefused) r.refusals.push_back(static_cast<float>(answer.ended - answer.sent));
      return;
    }
    ++r.completed;
    r.prompt_tokens += answer.prompt_tokens;
    r.cached_tokens += answer.cached_tokens;
    const std::int64_t pieces = answer.first > 0 ? static_cast<std::int64_t>(answer.gaps.size()) + 1 : 0;
    const std::int64_t tokens = answer.has_usage ? answer.completion_tokens : pieces;
    r.completion_tokens += tokens;
    if (taken_ < total_ || total_ <= r.clients) user.tokens += static_cast<double>(tokens);
    r.whole.push_back(static_cast<float>(answer.ended - answer.sent));
    if (answer.first == 0) return;
    r.ttft.push_back(static_cast<float>(answer.first - answer.sent));
    r.gaps.insert(r.gaps.end(), answer.gaps.begin(), answer.gaps.end());
    if (answer.last > answer.first) rates_.push_back(static_cast<double>(tokens) / (answer.last - answer.first));
  }

  // Asks the server about itself, before and after the run; `note` takes what it says meanwhile. A server that has
  // stopped may have taken the connection and never answer.
  std::uint64_t look() {
    BlockingClient client(to_, std::min(options_.patience, 10.0));
    return note(client.get(endpoint_.root + "/v1/stats"));
  }

  std::uint64_t note(const ApiAnswer& answer) {
    if (answer.end != ApiAnswer::End::kComplete || !answer.body.is_object()) return 0;
    const auto figure = [&](const char* path) -> std::int64_t {
      const Json::json_pointer at(path);
      return answer.body.contains(at) && answer.body[at].is_number() ? answer.body[at].get<std::int64_t>() : 0;
    };
    const auto bytes = static_cast<std::uint64_t>(figure("/memory/resident"));
    report_.memory_most = std::max(report_.memory_most, bytes);
    report_.connections = std::max(report_.connections, figure("/connections"));
    report_.running = std::max(report_.running, figure("/queue/running"));
    report_.waiting = std::max(report_.waiting, figure("/queue/waiting"));
    return bytes;
  }

  void tick() {
    clock_.expires_after(std::chrono::milliseconds(250));
    clock_.async_wait([this](error_code) {
      if (open_ == 0) return monitor_->close();
      if (!poll_(ended_, total_) && !stopped_) {
        stopped_ = true;
        for (auto& user : users_) {
          user->pause.cancel();
          user->client->close();
        }
        return monitor_->close();
      }
      if (!looking_) {
        looking_ = true;
        monitor_->get(endpoint_.root + "/v1/stats", [this](const ApiAnswer& answer) {
          looking_ = false;
          note(answer);
        });
      }
      tick();
    });
  }

  void summarize() {
    report_.seconds = last_end_ - start_;
    std::vector<double> tokens;
    for (const auto& user : users_) tokens.push_back(user->tokens);
    report_.client_fairness = jain_index(tokens);
    report_.stream_fairness = jain_index(rates_);
  }

  const Endpoint endpoint_;
  const DestinationPtr to_;
  const std::string model_;
  const LoadOptions options_;
  const std::function<bool(std::int64_t, std::int64_t)>& poll_;
  const std::int64_t total_;
  std::vector<lab::Conversation> chats_;
  std::size_t next_chat_ = 0;
  double words_per_token_ = 1;

  asio::io_context io_;
  asio::steady_timer clock_;
  std::shared_ptr<ApiClient> monitor_;
  bool looking_ = false;
  std::vector<std::unique_ptr<User>> users_;
  std::int64_t taken_ = 0, open_ = 0, ended_ = 0;
  bool stopped_ = false;
  double start_ = 0, last_end_ = 0;
  std::vector<double> rates_;
  LoadReport report_;
};

}  // namespace

LoadReport run_load(const Endpoint& endpoint, const std::string& model, std::int32_t clients,
                    const LoadOptions& options, const std::function<bool(std::int64_t, std::int64_t)>& poll) {
  return Run(endpoint, model, clients, options, poll).go();
}

std::string model_of(const Endpoint& endpoint) {
  BlockingClient client(resolve(endpoint), 60);
  return first_model(client, endpoint);
}

}  // namespace kvasir::client
