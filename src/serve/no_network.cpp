// What stands in for the network in builds without Boost or OpenSSL (cmake/serve.cmake): everything that would open a
// connection says what is missing.
#include "base/error.hpp"
#include "serve/keys.hpp"
#include "serve/roster.hpp"
#include "serve/server.hpp"

namespace kvasir::serve {
namespace {

[[noreturn]] void absent(const char* what) {
  throw Error(
      Code::kUnsupported,
      "this build has no HTTP server: install libboost1.81-dev and libssl-dev (./dev setup) and build again with "
      "KVASIR_SERVER=ON",
      what);
}

}  // namespace

void require_network() { absent("serve"); }

struct Server::Impl {};

Server::Server(ServerOptions, run::Service&, const ChatFormat*, LogWriter) { absent("serve"); }
Server::Server(ServerOptions, std::vector<Offer>, std::int64_t, LogWriter) { absent("serve"); }
Server::~Server() = default;
void Server::run(bool) {}
void Server::stop() {}
std::uint16_t Server::port() const { return 0; }

std::string first_key(const std::string&) { absent("--api-key-file"); }

}  // namespace kvasir::serve
