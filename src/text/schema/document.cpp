#include "text/schema/document.hpp"

#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr int kDeepest = 512;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// RFC 6901, section 6: a fragment is percent-decoded first. What is no escape stays as it is.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = text[i] == '%' && i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) {
      out += text[i];
    } else {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

// Where the scheme of an absolute URI ends; 0: there is none.
std::size_t scheme_end(std::string_view uri) {
  const std::size_t colon = uri.find(':');
  if (colon == uri.npos || colon < 2 || uri.find_first_of("/?#") < colon) return 0;
  return colon + 1;
}

// RFC 3986, section 5.2, as far as names of schemas go. Without the fragment.
std::string resolved(const std::string& base, std::string_view reference) {
  reference = reference.substr(0, reference.find('#'));
  if (reference.empty()) return base;
  if (scheme_end(reference) > 0) return std::string(reference);
  std::size_t root = scheme_end(base);  // where the path of the base begins
  if (std::string_view(base).substr(root).starts_with("//")) {
    if (reference.starts_with("//")) return base.substr(0, root) + std::string(reference);
    root = std::min(base.find('/', root + 2), base.size());
  }
  std::string path =
      reference[0] == '/'
          ? std::string(reference)
          : base.substr(root, base.rfind('/') + 1 > root ? base.rfind('/') + 1 - root : 0) + std::string(reference);
  std::vector<std::string> parts;
  const bool absolute = path.starts_with('/');
  for (std::size_t i = absolute ? 1 : 0; i <= path.size();) {
    const std::size_t end = std::min(path.find('/', i), path.size());
    const std::string part = path.substr(i, end - i);
    if (part == "..") {
      if (!parts.empty()) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    i = end + 1;
  }
  std::string out = base.substr(0, root) + (absolute || root > 0 ? "/" : "");
  for (std::size_t i = 0; i < parts.size(); ++i) out += (i > 0 ? "/" : "") + parts[i];
  return out;
}

std::string text_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::string escaped(const std::string& key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

}  // namespace

SchemaDocument::SchemaDocument(const Json& root) : root_(root) {
  by_uri_[""] = {&root_, "#"};
  read(root, "", "#", 0);
}

void SchemaDocument::read(const Json& json, const std::string& base, const std::string& pointer, int depth) {
  if (depth > kDeepest) return;
  std::string here = base;
  if (json.is_object()) {
    std::string id = text_of(json, "$id");
    if (id.empty()) id = text_of(json, "id");
    if (id.starts_with('#')) {  // drafts 4 to 7 name places so
      by_uri_.try_emplace(base + id, Target{&json, pointer});
    } else if (!id.empty()) {
      here = resolved(base, id);
      by_uri_.try_emplace(here, Target{&json, pointer});
    }
    if (!here.empty()) bases_[&json] = here;
    for (const char* word : {"$anchor", "$dynamicAnchor"})
      if (const std::string name = text_of(json, word); !name.empty())
        by_uri_.try_emplace(here + "#" + name, Target{&json, pointer});
    for (const auto& [key, value] : json.items()) {
      if (!value.is_structured() || key == "const" || key == "enum" || key == "default" || key == "examples") continue;
      read(value, here, pointer + "/" + escaped(key), depth + 1);
    }
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i)
      if (json[i].is_structured()) read(json[i], here, pointer + "/" + std::to_string(i), depth + 1);
  }
}

SchemaDocument::Target SchemaDocument::find(const Json& from, const std::string& reference) const {
  const auto own = bases_.find(&from);
  const std::string base = own == bases_.end() ? std::string() : own->second;
  const std::string uri = resolved(base, reference);
  const std::size_t mark = reference.find('#');
  const std::string fragment = mark == reference.npos ? std::string() : decoded(reference.substr(mark + 1));
  if (!fragment.empty() && fragment[0] != '/') {
    if (const auto named = by_uri_.find(uri + "#" + fragment); named != by_uri_.end()) return named->second;
  } else if (const auto resource = by_uri_.find(uri); resource != by_uri_.end()) {
    if (fragment.empty()) return resource->second;
    try {
      return {&resource->second.schema->at(Json::json_pointer(fragment)),
              resource->second.path + reference.substr(mark + 1)};
    } catch (const Json::exception&) {
    }
  }
  throw Error(Code::kBadInput, "'" + reference + "' is not in this schema");
}

}  // namespace kvasir::text
