#include "store/redis/client.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace kvasir::store::redis {
namespace {

constexpr int kRounds = 6;  // a request is redirected at most this often
constexpr auto kLearnEvery = std::chrono::seconds(1);

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// -1: not a number.
int number(std::string_view text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status != std::errc{} || end != text.data() + text.size() ? -1 : value;
}

bool is_array(const redisReply* r, std::size_t at_least) {
  return r && r->type == REDIS_REPLY_ARRAY && r->elements >= at_least;
}

}  // namespace

Connection& Client::connection(const Address& address) {
  auto& c = connections_[address];
  if (!c) c = std::make_unique<Connection>(address, config_);
  return *c;
}

// Asks the servers it knows, those of the configuration first.
Status Client::learn(Deadline deadline) {
  if (known_ && !(cluster_ && stale_ && Clock::now() >= learn_at_)) return {};
  std::vector<Address> places = config_.seeds;
  for (const auto& [address, unused] : connections_)
    if (std::find(places.begin(), places.end(), address) == places.end()) places.push_back(address);
  Status status;
  for (const Address& place : places) {
    if (Clock::now() >= deadline) return {"no answer in time"};
    Connection* const c = &connection(place);
    const Command ask = command({"CLUSTER", "SLOTS"});
    Reply reply;
    c->start(std::span(&ask, 1), std::span(&reply, 1));
    // One server that does not answer must not take the time of the next.
    const auto share = (deadline - Clock::now()) / (places.size() > 1 ? 2 : 1);
    converse(std::span(&c, 1), within(share));
    if (!reply) {
      status.why = c->error();
      continue;
    }
    learn_at_ = within(kLearnEvery);
    if (is_error(reply) && text_of(*reply).find("cluster support disabled") == std::string_view::npos &&
        text_of(*reply).find("unknown command") == std::string_view::npos) {
      status.why = place.shown() + ": " + std::string(text_of(*reply));
      continue;
    }
    if (is_error(reply)) {
      known_ = true;
      cluster_ = false;
      single_ = place;
      return {};
    }
    if (read_slots(*reply, place)) return {};
    status.why = place.shown() + ": the cluster has no slots yet";
  }
  return known_ ? Status{} : status;
}

// An array of {first, last, {host, port, ...} of the master, replicas...}.
bool Client::read_slots(const redisReply& reply, const Address& from) {
  if (!is_array(&reply, 1)) return false;
  std::vector<Address> owners(kSlots);
  for (std::size_t i = 0; i < reply.elements; ++i) {
    const redisReply* range = reply.element[i];
    if (!is_array(range, 3) || !is_array(range->element[2], 2)) return false;
    const redisReply* master = range->element[2];
    Address address{std::string(text_of(*master->element[0])), static_cast<int>(master->element[1]->integer)};
    if (address.host.empty() || address.host == "?") address.host = from.host;
    const auto first = range->element[0]->integer, last = range->element[1]->integer;
    for (long long slot = std::max(first, 0LL); slot <= std::min<long long>(last, kSlots - 1); ++slot)
      owners[static_cast<std::size_t>(slot)] = address;
  }
  owners_ = std::move(owners);
  known_ = cluster_ = true;
  stale_ = false;
  return true;
}

std::vector<Address> Client::masters() const {
  if (!cluster_) return {single_};
  std::vector<Address> all;
  for (const Address& a : owners_)
    if (a.port != 0) all.push_back(a);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Address Client::owner(const Request& request) const {
  if (request.redirected) return *request.redirected;
  if (!cluster_ || request.slot < 0) return cluster_ ? config_.seeds.front() : single_;
  return owners_[static_cast<std::size_t>(request.slot)];
}

Status Client::run(std::span<Request> requests, Deadline deadline) {
  const Status known = learn(deadline);
  for (int i = 0; known.ok() && i < kRounds; ++i) {
    if (std::none_of(requests.begin(), requests.end(), [](const Request& r) { return r.open; })) break;
    if (i > 0 && Clock::now() >= deadline) break;
    round(requests, deadline);
  }
  Status status;
  for (Request& r : requests) {
    if (r.open) r.error = known.ok() ? "redirected too often, or too late" : known.why;
    if (!r.error.empty()) {
      r.reply.reset();
      status.why = r.error;
    }
  }
  return status;
}

// Every open request to its server, all servers at once.
void Client::round(std::span<Request> requests, Deadline deadline) {
  struct Batch {
    std::vector<Command> commands;
    std::vector<Request*> requests;  // null: the reply to ASKING
    std::vector<Reply> replies;
  };
  std::map<Address, Batch> batches;
  for (Request& r : requests) {
    if (!r.open) continue;
    const Address to = owner(r);
    if (to.port == 0) {
      r.error = "no server of the cluster has slot " + std::to_string(r.slot);
      r.open = false;
      stale_ = true;
      continue;
    }
    Batch& b = batches[to];
    if (r.ask) {
      b.commands.push_back(command({"ASKING"}));
      b.requests.push_back(nullptr);
    }
    b.commands.push_back(r.command);
    b.requests.push_back(&r);
    r.sent_to = to;
    r.redirected.reset();
    r.ask = false;
  }
  std::vector<Connection*> all;
  for (auto& [address, b] : batches) {
    b.replies.resize(b.commands.size());
    all.push_back(&connection(address));
    all.back()->start(b.commands, b.replies);
  }
  converse(all, deadline);
  for (auto& [address, b] : batches) {
    const std::string& why = connection(address).error();
    if (!why.empty()) stale_ = true;
    for (std::size_t i = 0; i < b.requests.size(); ++i)
      if (b.requests[i]) settle(b.requests[i], std::move(b.replies[i]), why);
  }
}

void Client::settle(Request* request, Reply reply, const std::string& why) {
  if (is_error(reply) && redirect(request, text_of(*reply))) return;
  request->open = false;
  if (!reply)
    request->error = why.empty() ? "no answer" : why;
  else if (is_error(reply))
    request->error = request->sent_to->shown() + ": " + std::string(text_of(*reply));
  else
    request->reply = std::move(reply);
}

// "MOVED 3999 127.0.0.1:6381" for good, "ASK 3999 127.0.0.1:6381" for this once; without a host it is the same one.
bool Client::redirect(Request* request, std::string_view error) {
  const auto w = words(error);
  if (w.size() < 3 || (w[0] != "MOVED" && w[0] != "ASK")) return false;
  const int slot = number(w[1]);
  const std::size_t colon = std::min(w[2].rfind(':'), w[2].size());
  const int port = colon == w[2].size() ? -1 : number(w[2].substr(colon + 1));
  if (slot < 0 || slot >= kSlots || port <= 0) return false;
  Address to{std::string(w[2].substr(0, colon)), port};
  if (to.host.empty() || to.host == "?") to.host = request->sent_to->host;
  request->ask = w[0] == "ASK";
  if (!request->ask) {
    stale_ = true;
    if (cluster_) owners_[static_cast<std::size_t>(slot)] = to;
  }
  request->redirected = std::move(to);
  return true;
}

Status Client::run_everywhere(std::span<const Command> commands, Deadline deadline,
                              std::vector<std::vector<Reply>>* replies) {
  if (Status s = learn(deadline); !s.ok()) return s;
  std::vector<Connection*> all;
  const auto places = masters();
  replies->assign(places.size(), std::vector<Reply>(commands.size()));
  for (std::size_t i = 0; i < places.size(); ++i) {
    all.push_back(&connection(places[i]));
    all.back()->start(commands, (*replies)[i]);
  }
  converse(all, deadline);
  Status status;
  for (std::size_t i = 0; i < places.size(); ++i)
    for (const Reply& r : (*replies)[i])
      if (!r || is_error(r)) status.why = r ? places[i].shown() + ": " + std::string(text_of(*r)) : all[i]->error();
  return status;
}

Status Client::run_at(std::size_t master, std::span<const Command> commands, Deadline deadline,
                      std::vector<Reply>* replies) {
  if (Status s = learn(deadline); !s.ok()) return s;
  const auto places = masters();
  if (master >= places.size()) return {"the cluster changed"};
  Connection* const c = &connection(places[master]);
  replies->assign(commands.size(), nullptr);
  c->start(commands, *replies);
  converse(std::span(&c, 1), deadline);
  for (const Reply& r : *replies)
    if (!r || is_error(r)) return {r ? places[master].shown() + ": " + std::string(text_of(*r)) : c->error()};
  return {};
}

}  // namespace kvasir::store::redis
