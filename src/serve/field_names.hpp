// The names that a client knows the fields of the one request by: dialects are translated before they are checked, and
// an error that names a field has to name the client's.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http.hpp"

namespace kvasir::serve {

class FieldNames {
 public:
  // `field` and all that lies in it ("messages[2]", "messages[2].role") came from `client` ("input[5]"). A later call
  // for the same field wins.
  void add(std::string field, std::string client);

  // The client's name; a field that was never renamed keeps its own. What lies in a field whose whole is a text at the
  // client's (a name without an index: "instructions") is called like the whole.
  std::string client(std::string_view field) const;

  // The same error in the client's words.
  ApiError in_client_words(ApiError error) const;

  // Calls `work`; what it throws about fields is thrown in the client's words.
  template <class Work>
  auto run(Work&& work) const {
    try {
      return work();
    } catch (const ApiException& e) {
      throw ApiException(in_client_words(e.error()));
    } catch (const Error& e) {
      if (client(e.context()) == e.context()) throw;
      throw ApiException(in_client_words(api_error(e)));
    }
  }

 private:
  std::vector<std::pair<std::string, std::string>> names_;
};

}  // namespace kvasir::serve
