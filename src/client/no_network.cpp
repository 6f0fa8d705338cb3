// What stands in for the network in builds without Boost or OpenSSL (cmake/serve.cmake): everything that would open a
// connection says what is missing.
#include "base/error.hpp"
#include "client/load.hpp"
#include "client/remote_target.hpp"

namespace kvasir::client {
namespace {

[[noreturn]] void absent(const char* what) {
  throw Error(
      Code::kUnsupported,
      "this build has no HTTP client: install libboost1.81-dev and libssl-dev (./dev setup) and build again with "
      "KVASIR_SERVER=ON",
      what);
}

}  // namespace

const OptionTable<LoadOptions>& load_table() {
  static const OptionTable<LoadOptions> t{"load", {}};
  return t;
}
LoadReport run_load(const Endpoint&, const std::string&, std::int32_t, const LoadOptions&,
                    const std::function<bool(std::int64_t, std::int64_t)>&) {
  absent("bench load");
}
std::string model_of(const Endpoint&) { absent("--url"); }

std::unique_ptr<lab::ReplayTarget> remote_target(const Endpoint&, const std::string&, const lab::ReplayOptions&) {
  absent("--url");
}

}  // namespace kvasir::client
