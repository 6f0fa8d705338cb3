#include "store/redis/remote.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace kvasir::store::redis {
namespace {

constexpr auto kUsageEvery = std::chrono::seconds(1);
constexpr auto kUsageLimit = std::chrono::milliseconds(200);

// "used_memory:1234\r\n" of the reply to INFO.
std::uint64_t info_field(std::string_view info, std::string_view field) {
  const std::string wanted = "\n" + std::string(field) + ":";
  const std::size_t at = info.find(wanted);
  std::uint64_t value = 0;
  if (at != std::string_view::npos) {
    const char* const begin = info.data() + at + wanted.size();
    std::from_chars(begin, info.data() + info.size(), value);
  }
  return value;
}

// The answer to OBJECT IDLETIME under a policy that counts uses.
bool keeps_no_times(std::string_view error) { return error.find("LFU maxmemory policy") != std::string_view::npos; }

}  // namespace

class Remote::Lease {
 public:
  explicit Lease(Remote& remote) : remote_(remote) {
    const std::lock_guard lock(remote_.mutex_);
    if (!remote_.idle_.empty()) {
      client_ = std::move(remote_.idle_.back());
      remote_.idle_.pop_back();
    }
    if (!client_) client_ = std::make_unique<Client>(remote_.config_);
  }
  ~Lease() {
    const std::lock_guard lock(remote_.mutex_);
    remote_.idle_.push_back(std::move(client_));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Client* operator->() const { return client_.get(); }
  Client& operator*() const { return *client_; }

 private:
  Remote& remote_;
  std::unique_ptr<Client> client_;
};

std::string Remote::name(const Key& key) const { return config_.prefix + ":" + to_hex(key); }

std::vector<Request> Remote::requests(std::span<const Key> keys, std::string_view verb) const {
  std::vector<Request> all(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::string n = name(keys[i]);
    all[i].command = command({verb, n});
    all[i].slot = slot_of(n);
  }
  return all;
}

Status Remote::get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) {
  auto all = requests(keys, "GET");
  const Status status = Lease(*this)->run(all, deadline);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Reply& r = all[i].reply;
    answers[i] = {r ? Outcome::kAbsent : Outcome::kFailed, {}};
    if (!r || r->type != REDIS_REPLY_STRING) continue;
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(r->str), r->len);
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPayloadAlign == 0;
    answers[i] = {Outcome::kFound, aligned ? SharedBytes{r, bytes, true} : copy_bytes(bytes)};
  }
  return status;
}

Status Remote::contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) {
  auto all = requests(keys, "EXISTS");
  const Status status = Lease(*this)->run(all, deadline);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Reply& r = all[i].reply;
    outcomes[i] = !r ? Outcome::kFailed : r->integer != 0 ? Outcome::kFound : Outcome::kAbsent;
  }
  return status;
}

Status Remote::put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) {
  using std::chrono::milliseconds;
  std::vector<Request> all(offers.size());
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const std::string n = name(offers[i].key);
    const auto ttl = std::max<std::int64_t>(1, std::chrono::duration_cast<milliseconds>(config_.ttl).count());
    all[i].command = config_.ttl.count() > 0
                         ? command_with_body({"PSETEX", n, std::to_string(ttl)}, offers[i].record.bytes)
                         : command_with_body({"SET", n}, offers[i].record.bytes);
    all[i].slot = slot_of(n);
  }
  const Status status = Lease(*this)->run(all, deadline);
  for (std::size_t i = 0; i < offers.size(); ++i)
    outcomes[i] = all[i].reply                                       ? PutOutcome::kStored
                  : all[i].error.find(": OOM ") != std::string::npos ? PutOutcome::kRefused  // full
                                                                     : PutOutcome::kFailed;
  return status;
}

Status Remote::erase(std::span<const Key> keys, Deadline deadline) {
  auto all = requests(keys, "UNLINK");
  return Lease(*this)->run(all, deadline);
}

// Children first, so that to a server that drops what was used longest ago parents are the youngest.
Status Remote::touch(std::span<const Key> keys, Deadline deadline) {
  std::vector<Key> reversed(keys.rbegin(), keys.rend());
  auto all = requests(reversed, "TOUCH");
  return Lease(*this)->run(all, deadline);
}

Status Remote::scan(Client& client, FunctionRef<bool(const std::vector<std::string>&)> each, Deadline deadline) {
  std::vector<std::vector<Reply>> masters;
  const Command ping[] = {command({"PING"})};
  if (Status s = client.run_everywhere(ping, deadline, &masters); !s.ok()) return s;
  for (std::size_t m = 0; m < masters.size(); ++m) {
    std::string cursor = "0";
    do {
      const Command scan[] = {command({"SCAN", cursor, "MATCH", config_.prefix + ":*", "COUNT", "1000"})};
      std::vector<Reply> replies;
      if (Status s = client.run_at(m, scan, deadline, &replies); !s.ok()) return s;
      const redisReply& r = *replies[0];
      if (r.type != REDIS_REPLY_ARRAY || r.elements != 2 || r.element[1]->type != REDIS_REPLY_ARRAY)
        return {"SCAN: unexpected reply"};
      cursor = text_of(*r.element[0]);
      std::vector<std::string> names;
      for (std::size_t i = 0; i < r.element[1]->elements; ++i) names.emplace_back(text_of(*r.element[1]->element[i]));
      if (!names.empty() && !each(names)) return {};
    } while (cursor != "0");
  }
  return {};
}

Status Remote::clear(Deadline deadline) {
  const Lease client(*this);
  Status failed;
  const Status s = scan(
      *client,
      [&](const std::vector<std::string>& names) {
        std::vector<Request> all(names.size());
        for (std::size_t i = 0; i < names.size(); ++i) {
          all[i].command = command({"UNLINK", names[i]});
          all[i].slot = slot_of(names[i]);
        }
        failed = client->run(all, deadline);
        return failed.ok();
      },
      deadline);
  return failed.ok() ? s : failed;
}

Status Remote::ask_all(FunctionRef<Command(const std::string&)> question, Deadline deadline,
                       FunctionRef<bool(const Key&, const Request&)> each) {
  const Lease client(*this);
  Status failed;
  const Status s = scan(
      *client,
      [&](const std::vector<std::string>& names) {
        std::vector<Request> all;
        std::vector<Key> keys;
        for (const std::string& n : names) {
          const auto key = key_from_hex(std::string_view(n).substr(config_.prefix.size() + 1));
          if (!key) continue;  // somebody else's
          keys.push_back(*key);
          all.emplace_back();
          all.back().command = question(n);
          all.back().slot = slot_of(n);
        }
        client->run(all, deadline);
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (!all[i].reply && !keeps_no_times(all[i].error)) failed.why = all[i].error;
          if (!failed.ok() || !each(keys[i], all[i])) return false;
        }
        return true;
      },
      deadline);
  return failed.ok() ? s : failed;
}

Status Remote::list(FunctionRef<bool(const Listed&)> each, Deadline deadline) {
  const auto length = [](const std::string& n) { return command({"STRLEN", n}); };
  return ask_all(length, deadline, [&](const Key& key, const Request& r) {
    if (!r.reply || r.reply->integer <= 0) return true;  // it went meanwhile
    return each({.key = key, .bytes = static_cast<std::uint64_t>(r.reply->integer)});
  });
}

Status Remote::list_ages(FunctionRef<bool(const Listed&)> each, Deadline deadline) {
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const auto idle = [](const std::string& n) { return command({"OBJECT", "IDLETIME", n}); };
  return ask_all(idle, deadline, [&](const Key& key, const Request& r) {
    if (!r.reply) return each({.key = key});
    if (r.reply->type != REDIS_REPLY_INTEGER) return true;  // it went meanwhile
    return each({.key = key, .used = now - r.reply->integer});
  });
}

Usage Remote::usage() {
  {
    const std::lock_guard lock(mutex_);
    if (Clock::now() < usage_at_) return usage_;
    usage_at_ = within(kUsageEvery);
  }
  const Command ask[] = {command({"INFO", "memory"}), command({"DBSIZE"})};
  std::vector<std::vector<Reply>> masters;
  const Status s = Lease(*this)->run_everywhere(ask, within(kUsageLimit), &masters);
  Usage u;
  for (const auto& replies : masters) {
    if (!s.ok()) break;
    u.bytes += info_field(text_of(*replies[0]), "used_memory");
    u.budget += info_field(text_of(*replies[0]), "maxmemory");
    u.records += static_cast<std::uint64_t>(replies[1]->integer);
  }
  const std::lock_guard lock(mutex_);
  if (s.ok()) usage_ = u;
  return usage_;
}

}  // namespace kvasir::store::redis
