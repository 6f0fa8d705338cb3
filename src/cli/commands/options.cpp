// kvasir options [--json]: the options of requests and engines, for docs/options.md and for whoever writes a client.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "run/blend.hpp"
#include "run/drafting.hpp"
#include "run/engine.hpp"
#include "run/pictures.hpp"
#include "run/request_options.hpp"
#include "run/sampling_options.hpp"
#include "run/scheduler.hpp"
#include "store/reuse_options.hpp"

namespace kvasir::cli::commands_options {
namespace {

constexpr const char* kBegin = R"(# Options

Made by `kvasir options`. The names are the same on the command line, in configuration files, over HTTP, in C, C++ and
Python; [library.md](library.md) and [http.md](http.md) say more.

## Of a request

On the command line `add_bos` and `special` are `--no-bos` and `--no-special`, `select` and `draft` are the engine's, and there is one tenant.
Over HTTP the key says who the tenant is, `json_schema` and `logprobs` have each API's own form, and `logit_bias` is an object.

)";
constexpr const char* kEngine = R"(
## Of an engine or a server

)";

int print_options(bool json) {
  const auto show = [&](const auto& table, const char* before) {
    if (json) {
      for (std::size_t i = 0; i < table.specs().size(); ++i) {
        const OptionSpec& s = table.specs()[i];
        const auto presets = table.to_json({});
        print_json_row({{"table", table.title()},
                        {"name", s.name},
                        {"flag", s.flag},
                        {"expects", s.expects()},
                        {"unit", s.unit},
                        {"preset", presets[s.name]},
                        {"help", s.help}});
      }
    } else {
      fmt::print("{}{}", before, table.markdown());
    }
  };
  show(run::request_table(), kBegin);
  show(run::sampling_table(), "\n");
  show(run::blend_table(), "\n");
  show(run::engine_table(), kEngine);
  show(run::scheduler_table(), "\n");
  show(run::draft_table(), "\n");
  show(run::picture_table(), "\n");
  show(store::reuse_table(), "\n");
  return kSuccess;
}

Action setup(Flags& flags) {
  auto json = std::make_shared<bool>(false);
  flags.flag("--json", *json, "one object per option");
  return [json] { return print_options(*json); };
}

}  // namespace

const Command entry{"list the options of requests and engines", setup};

}  // namespace kvasir::cli::commands_options
