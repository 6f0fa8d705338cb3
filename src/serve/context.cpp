#include "serve/context.hpp"

#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <random>

#include "base/clock.hpp"
#include "base/splitmix.hpp"

namespace kvasir::serve {

void InFlight::enter() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void InFlight::leave() {
  const std::lock_guard lock(mutex_);
  if (--count_ == 0) idle_.notify_all();
}

std::int64_t InFlight::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool InFlight::wait_idle(double seconds) const {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return count_ == 0; });
}

Shared::Shared(ServerOptions server_options, LogWriter log_writer)
    : options(std::move(server_options)),
      start(steady_seconds()),
      created(std::time(nullptr)),
      responses(options.response_memory),
      picture_urls(options.image_urls),
      write_log_(std::move(log_writer)),
      ids_((std::uint64_t{std::random_device{}()} << 32) ^ static_cast<std::uint64_t>(created)) {}

void Shared::log(std::string_view line) {
  if (!write_log_) return;
  const std::lock_guard lock(log_mutex_);
  write_log_(line);
}

std::string Shared::next_id(std::string_view prefix) {
  std::uint64_t state = ids_.fetch_add(1);  // splitmix64 is a bijection: different states, different ids
  return fmt::format("{}{:016x}", prefix, splitmix64(state));
}

ModelMemory::ModelMemory(const ServerOptions& options, const run::ModelCard& card)
    : prefix_ids(options.prefix_key_file, card), turns(options.answer_memory) {}

Context::Context(ServerOptions server_options, run::Service& run_service, const ChatFormat* chat_format,
                 LogWriter log_writer, run::Pictures* of_pictures)
    : Context(std::make_shared<Shared>(std::move(server_options), std::move(log_writer)), nullptr, run_service,
              chat_format, of_pictures) {}

Context::Context(std::shared_ptr<Shared> of_all, std::shared_ptr<ModelMemory> of_model, run::Service& run_service,
                 const ChatFormat* chat_format, run::Pictures* of_pictures)
    : shared(std::move(of_all)),
      memory(of_model ? std::move(of_model) : std::make_shared<ModelMemory>(shared->options, run_service.card())),
      service(run_service),
      chat(chat_format),
      pictures(of_pictures),
      fingerprint(fmt::format("kvasir-{}-{}", service.card().k_codec, service.card().v_codec)) {}

}  // namespace kvasir::serve
