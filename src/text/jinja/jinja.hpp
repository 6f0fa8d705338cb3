// Jinja templates, as far as chat templates need them: what jinja2 renders under Hugging Face's settings (immutable
// sandbox, trim_blocks, lstrip_blocks, loop controls, tojson without HTML escapes, {% generation %}).
//
// Not there: template inheritance and includes, autoescape, i18n; the filters filesizeformat, pprint, random,
// striptags, urlize, wordwrap, xmlattr. Integers have 64 bits. Methods of Markup return plain strings. Generators are
// evaluated at once.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/jinja/machine.hpp"

namespace kvasir::text::jinja {

// The local time of the machine.
std::tm local_time();

struct RenderOptions {
  Limits limits;
  Clock clock = local_time;  // for strftime_now
};

// Immutable; any number of threads may render one.
class Template {
 public:
  // Throws Error(kBadInput) that names the line, also for text that is not UTF-8.
  explicit Template(std::string_view source);

  // `context`: an object with the template's variables. Throws Error(kBadInput) that names the line for what the
  // template itself raises, for what Python would raise, and when a limit is passed; and one that names the variable
  // for a context that is not UTF-8 or too deep.
  std::string render(const Json& context, const RenderOptions& options = {}) const;

 private:
  Program program_;
};

}  // namespace kvasir::text::jinja
