#include "serve/field_names.hpp"

namespace kvasir::serve {
namespace {

bool lies_in(std::string_view field, std::string_view whole) {
  return field.starts_with(whole) &&
         (field.size() == whole.size() || field[whole.size()] == '.' || field[whole.size()] == '[');
}

}  // namespace

void FieldNames::add(std::string field, std::string client) {
  names_.emplace_back(std::move(field), std::move(client));
}

std::string FieldNames::client(std::string_view field) const {
  const std::pair<std::string, std::string>* best = nullptr;
  for (const auto& name : names_)
    if (lies_in(field, name.first) && (!best || name.first.size() >= best->first.size())) best = &name;
  if (!best) return std::string(field);
  const bool whole_text = best->second.find('[') == std::string::npos && best->first.ends_with(']');
  return whole_text ? best->second : best->second + std::string(field.substr(best->first.size()));
}

ApiError FieldNames::in_client_words(ApiError error) const {
  const std::string name = client(error.param);
  if (name == error.param) return error;
  // Messages name the field in quotes, or begin with it.
  const std::string quoted = "'" + error.param + "'";
  if (const std::size_t at = error.message.find(quoted); at != std::string::npos) {
    error.message.replace(at + 1, error.param.size(), name);
  } else if (error.message.starts_with(error.param)) {
    error.message.replace(0, error.param.size(), name);
  }
  error.param = name;
  return error;
}

}  // namespace kvasir::serve
