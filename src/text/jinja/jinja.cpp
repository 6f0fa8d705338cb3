#include "text/jinja/jinja.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "base/error.hpp"
#include "text/jinja/lexer.hpp"
#include "text/jinja/parser.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

std::string_view checked(std::string_view source) {
  int line = 1;
  for (std::size_t i = 0; i < source.size();) {
    const auto [code, size] = unicode::decode_char(source.substr(i));
    if (code >= unicode::kInvalidByte) fail_at(line, "the template is not well-formed UTF-8");
    line += code == '\n';
    i += size;
  }
  return source;
}

}  // namespace

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  localtime_r(&now, &t);
  return t;
}

Template::Template(std::string_view source) : program_(parse(checked(source))) {}

std::string Template::render(const Json& context, const RenderOptions& options) const {
  KVASIR_CHECK(context.is_object());
  Machine machine(program_, options.limits, options.clock);
  try {
    return machine.run(context);
  } catch (const Error& e) {
    if (e.code() != Code::kBadInput || !e.context().empty()) throw;
    fail_at(machine.line(), e.message());
  }
}

}  // namespace kvasir::text::jinja
