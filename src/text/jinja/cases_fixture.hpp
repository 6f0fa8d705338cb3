// Shared by the tests of this folder: templates over one set of variables, at one time.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "text/jinja/jinja.hpp"

namespace kvasir::text::jinja {
struct Case {
  const char* source;
  const char* text;
};

inline const Json& context() {
  static const Json json = Json::parse(
      R"json({"a": 5, "s": "Hello World", "l": [3, 1, 2], "d": {"b": 1, "A": 2, "c": null}, "u": "Zürich 你好 🙂", "n": null, "t": true, "f": 1.5, "users": [{"name": "Bo", "age": 3, "addr": {"city": "X"}}, {"name": "al", "age": 3, "addr": {"city": "Y"}}, {"name": "Cy", "age": 1}], "e": [], "es": "", "big": [[1, 2], [3, 4]], "html": "<a href='x'>&\"</a>"})json");
  return json;
}

inline std::tm sunday_morning() {
  std::tm t{};
  t.tm_year = 126;
  t.tm_mon = 6;
  t.tm_mday = 26;
  t.tm_hour = 9;
  t.tm_min = 5;
  t.tm_yday = 206;
  return t;
}

inline std::string render(const std::string& source, const Json& variables = context()) {
  RenderOptions options;
  options.clock = sunday_morning;
  return Template(source).render(variables, options);
}

inline void check(const std::vector<Case>& cases) {
  for (const auto& c : cases) {
    try {
      EXPECT_EQ(render(c.source), c.text) << c.source;
    } catch (const Error& e) {
      ADD_FAILURE() << c.source << ": " << e.what();
    }
  }
}

}  // namespace kvasir::text::jinja
