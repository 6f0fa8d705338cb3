// A session is its ids. The file of a session is one JSON object:
//   {"kvasir_session": 1, "vocabulary": 49152, "tenant": "", "ids": [1, 2, 3]}
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/guard.hpp"
#include "api/host.hpp"
#include "base/file.hpp"
#include "base/json.hpp"

namespace kvasir {
namespace {

constexpr int kFormat = 1;

[[noreturn]] void bad_file(const std::string& path, const std::string& what) {
  throw Error(Code::kBadInput, what, path);
}

}  // namespace

Session::Session(Engine& engine, std::string tenant) : engine_(&engine), tenant_(std::move(tenant)) {}

void Session::append(std::string_view text) {
  api::guarded([&] {
    const Engine::Impl& impl = engine_->impl();
    const bool behind = !ids_.empty() && !impl.tokenizer().is_special(ids_.back());
    const auto more = ids_.empty() ? impl.encode(text, true, true, false)
                      : behind     ? impl.encode(text, false, true, true)
                                   : impl.tokenizer().encode(text, {.parse_special = true});
    ids_.insert(ids_.end(), more.begin(), more.end());
  });
}

void Session::append(std::span<const std::int32_t> ids) {
  api::guarded([&] { engine_->impl().engine->check_ids(ids); });
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

Reply Session::generate(const Options& options, const OnText& on_text) {
  return api::guarded([&] {
    if (ids_.empty()) throw Error(Code::kBadInput, "is empty, expected some tokens in front of an answer", "session");
    api::Ask ask(engine_->impl().scheduler_options.blend, options);
    if (ask.request.tenant.empty()) ask.request.tenant = tenant_;
    Reply reply = api::ask(engine_->impl(), ask, ids_, on_text);
    ids_.insert(ids_.end(), reply.ids.begin(), reply.ids.end());
    return reply;
  });
}

std::string Session::text() const { return engine_->detokenize(ids_); }

void Session::truncate(std::int64_t size) {
  if (size < 0 || size > this->size())
    throw std::invalid_argument(fmt::format("truncate: {} tokens, expected 0 to {}", size, this->size()));
  ids_.resize(static_cast<std::size_t>(size));
}

void Session::save(const std::string& path) const {
  const Json json{
      {"kvasir_session", kFormat}, {"vocabulary", engine_->info().vocabulary}, {"tenant", tenant_}, {"ids", ids_}};
  const std::string text = json.dump() + "\n";
  api::guarded([&] { write_file(path, std::as_bytes(std::span(text))); });
}

Session Session::load(Engine& engine, const std::string& path) {
  return api::guarded([&] {
    const Json json = Json::parse(read_text_file(path), nullptr, false);
    if (!json.is_object() || !json.contains("kvasir_session")) bad_file(path, "is no file of a session");
    const auto integer = [&](const char* name) {
      if (!json.contains(name) || !json[name].is_number_integer())
        bad_file(path, fmt::format("{}: expected an integer", name));
      return json[name].get<std::int64_t>();
    };
    if (const std::int64_t format = integer("kvasir_session"); format != kFormat)
      bad_file(path, fmt::format("kvasir_session: is {}, this build reads {}", format, kFormat));
    if (const std::int64_t vocabulary = integer("vocabulary"); vocabulary != engine.info().vocabulary)
      bad_file(path, fmt::format("vocabulary: has {} tokens, the model has {}", vocabulary, engine.info().vocabulary));
    if (!json.contains("tenant") || !json["tenant"].is_string()) bad_file(path, "tenant: expected a text");
    if (!json.contains("ids") || !json["ids"].is_array()) bad_file(path, "ids: expected an array of token ids");
    Session session(engine, json["tenant"].get<std::string>());
    for (const Json& id : json["ids"]) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= engine.info().vocabulary)
        bad_file(path, fmt::format("ids[{}]: is {}, expected an id below {}", session.ids_.size(), id.dump(),
                                   engine.info().vocabulary));
      session.ids_.push_back(id.get<std::int32_t>());
    }
    return session;
  });
}

}  // namespace kvasir
