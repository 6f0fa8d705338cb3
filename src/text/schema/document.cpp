#include "text/schema/document.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/hex.hpp"

namespace kvasir::text {
namespace {

constexpr int kDeepestDocument = 512;
constexpr std::size_t kMostName = 2048;                   // bytes of $id and anchors
constexpr std::size_t kMostNames = std::size_t{4} << 20;  // of all of them, resolved
constexpr std::size_t kMostPath = 1024;                   // of what is shown

// RFC 6901, section 6: a fragment is percent-decoded first. What is no escape stays as it is.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int byte = text[i] == '%' ? hex_byte(text.substr(i + 1, 2)) : -1;
    out += byte < 0 ? text[i] : static_cast<char>(byte);
    if (byte >= 0) i += 2;
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

std::string name_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_string()) return {};
  const auto& name = at->get_ref<const std::string&>();
  if (name.size() > kMostName)
    throw Error(Code::kBadInput, "is longer than " + std::to_string(kMostName) + " bytes", key);
  return name;
}

std::string escaped(const std::string& key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

// What an RFC 6901 pointer, "/a/0", leads to. Objects look at all their keys for one, so that is what it costs.
const Json* pointed_at(const Json* json, std::string_view pointer, Work& work) {
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    const std::string_view token = pointer.substr(0, pointer.find('/'));
    pointer.remove_prefix(token.size());
    std::string key;
    for (std::size_t i = 0; i < token.size(); ++i) {
      const bool escape = token[i] == '~';
      if (escape && (++i == token.size() || (token[i] != '0' && token[i] != '1'))) return nullptr;
      key += !escape ? token[i] : token[i] == '0' ? '~' : '/';
    }
    work.spend(16 + key.size() + json->size());
    if (json->is_object()) {
      const auto at = json->find(key);
      if (at == json->end()) return nullptr;
      json = &*at;
    } else if (json->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
      if (error != std::errc() || end != key.data() + key.size() || (key[0] == '0' && key.size() > 1)) return nullptr;
      if (index >= json->size()) return nullptr;
      json = &(*json)[index];
    } else {
      return nullptr;
    }
  }
  return json;
}

}  // namespace

std::string SchemaDocument::shortened(std::string path) {
  if (path.size() <= kMostPath) return path;
  path.resize(kMostPath);
  while (!path.empty() && (static_cast<unsigned char>(path.back()) & 0xc0) == 0x80) path.pop_back();
  if (!path.empty() && static_cast<unsigned char>(path.back()) >= 0xc0) path.pop_back();
  return path + "...";
}

struct SchemaDocument::Place {
  const Place* parent;
  const std::string* key;  // null: the value at `index`
  std::size_t index;

  std::string pointer() const {
    std::vector<const Place*> way;
    for (const Place* p = this; p->parent; p = p->parent) way.push_back(p);
    std::string out = "#";
    for (auto p = way.rbegin(); p != way.rend() && out.size() <= kMostPath; ++p)
      out += "/" + ((*p)->key ? escaped((*p)->key->substr(0, kMostPath + 1)) : std::to_string((*p)->index));
    return shortened(std::move(out));
  }
};

SchemaDocument::SchemaDocument(const Json& root) : root_(root) {
  by_uri_[""] = {&root_, "#"};
  read(root, std::make_shared<const std::string>(), {nullptr, nullptr, 0}, 0);
}

void SchemaDocument::name(std::string uri, const Json& json, const Place& place) {
  if (by_uri_.contains(uri)) return;
  Target target{&json, place.pointer()};
  named_ += 64 + uri.size() + target.path.size();
  if (named_ > kMostNames)
    throw Error(Code::kBadInput, "names take more than " + std::to_string(kMostNames >> 20) + " MiB together", "$id");
  by_uri_.emplace(std::move(uri), std::move(target));
}

void SchemaDocument::read(const Json& json, const Base& base, const Place& place, int depth) {
  if (depth > kDeepestDocument) return;
  if (json.is_object()) {
    Base here = base;
    std::string id = name_of(json, "$id");
    if (id.empty()) id = name_of(json, "id");
    if (id.starts_with('#')) {  // drafts 4 to 7 name places so
      name(*base + id, json, place);
    } else if (!id.empty()) {
      here = std::make_shared<const std::string>(resolved(*base, id));
      if (here->size() > kMostName)
        throw Error(Code::kBadInput, "is longer than " + std::to_string(kMostName) + " bytes", "$id");
      named_ += here->size();
      name(*here, json, place);
    }
    if (!here->empty()) bases_[&json] = here;
    for (const char* word : {"$anchor", "$dynamicAnchor"})
      if (const std::string anchor = name_of(json, word); !anchor.empty()) name(*here + "#" + anchor, json, place);
    for (auto at = json.begin(); at != json.end(); ++at) {
      const std::string& key = at.key();
      if (!at->is_structured() || key == "const" || key == "enum" || key == "default" || key == "examples") continue;
      read(*at, here, {&place, &key, 0}, depth + 1);
    }
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i)
      if (json[i].is_structured()) read(json[i], base, {&place, nullptr, i}, depth + 1);
  }
}

const SchemaDocument::Target& SchemaDocument::find(const Json& from, const std::string& reference, Work& work) const {
  work.spend(64 + reference.size());
  const auto own = bases_.find(&from);
  const std::string* const base = own == bases_.end() ? nullptr : own->second.get();
  const auto [at, added] = found_.try_emplace({base, reference});
  Target& target = at->second;
  if (!added) return target;
  work.spend(1024 + 4 * reference.size());
  const std::string uri = resolved(base ? *base : std::string(), reference);
  const std::size_t mark = reference.find('#');
  const std::string fragment = mark == reference.npos ? std::string() : decoded(reference.substr(mark + 1));
  if (!fragment.empty() && fragment[0] != '/') {
    if (const auto named = by_uri_.find(uri + "#" + fragment); named != by_uri_.end()) target = named->second;
  } else if (const auto resource = by_uri_.find(uri); resource != by_uri_.end()) {
    target = resource->second;
    if (fragment.empty()) return target;
    target.schema = pointed_at(target.schema, fragment, work);
    target.path = shortened(target.path + reference.substr(mark + 1));
  }
  return target;
}

}  // namespace kvasir::text
