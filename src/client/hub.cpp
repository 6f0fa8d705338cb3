#include "client/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/sha256.hpp"
#include "client/download.hpp"
#include "weights/parts.hpp"

namespace kvasir::client {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 96;
constexpr int kMostPages = 1000;  // of a listing; Hugging Face shows up to 1000 files on one
constexpr std::string_view kPart = ".part";

// What is taken without a quant, in this order.
constexpr std::array<std::string_view, 14> kUsual = {"Q4_K_M", "Q4_K_S", "UD-Q4_K_XL", "Q4_0",  "IQ4_XS",
                                                     "Q5_K_M", "Q6_K",   "Q8_0",       "MXFP4", "Q3_K_M",
                                                     "Q2_K",   "BF16",   "F16",        "F32"};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return out;
}

// A component of a path that is a name and nothing else.
bool plain(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..") return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '+' || c == ' ' || c == '(' || c == ')' || c == ',' || c == '=' || c == '@';
  });
}

bool plain_path(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.find('/');
    if (!plain(path.substr(0, slash))) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_model(std::string_view path) {
  const std::string name = upper(path.substr(path.rfind('/') + 1));
  return name.ends_with(".GGUF") && name.find("MMPROJ") == name.npos && name.find("IMATRIX") == name.npos;
}

// Of a path without its extension and without which part it is.
std::string stem_of(std::string_view path) {
  if (const auto part = weights::parse_part_name(path)) return part->prefix;
  return std::string(path.substr(0, path.size() - std::string_view(".gguf").size()));
}

// Models by their stem; the parts in order.
std::map<std::string, std::vector<HubFile>> models_of(std::span<const HubFile> all) {
  std::map<std::string, std::vector<HubFile>> models;
  for (const HubFile& f : all)
    if (is_model(f.path)) models[stem_of(f.path)].push_back(f);
  for (auto& [stem, files] : models)
    std::sort(files.begin(), files.end(), [](const HubFile& a, const HubFile& b) { return a.path < b.path; });
  return models;
}

int parts_of(std::string_view path) {
  const auto part = weights::parse_part_name(path);
  return part ? part->count : 1;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string cache_home() {
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg;
  const std::string home = environment("HOME");
  return home.empty() ? ".cache" : home + "/.cache";
}

std::string trimmed(std::string text) {
  while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.pop_back();
  return text;
}

// In a URL's path.
std::string escaped(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' ||
                      c == '-' || c == '_' || c == '.';
    out += safe ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::string HubName::text() const {
  const std::string model = "hf:" + owner + "/" + repo;
  return !file.empty() ? model + "/" + file : quant.empty() ? model : model + ":" + quant;
}

bool is_hub_name(std::string_view text) { return text.starts_with("hf:"); }

HubName parse_hub_name(std::string_view text) {
  const auto refuse = [&] {
    throw Error(Code::kBadInput, "expected hf:OWNER/REPO, hf:OWNER/REPO:QUANT or hf:OWNER/REPO/FILE.gguf",
                std::string(text.substr(0, 2 * kLongestName)));
  };
  std::string_view rest = text;
  if (!is_hub_name(rest)) refuse();
  rest.remove_prefix(3);
  HubName name;
  const std::size_t first = rest.find('/');
  if (first == rest.npos) refuse();
  name.owner = rest.substr(0, first);
  rest.remove_prefix(first + 1);
  const std::size_t end = rest.find_first_of(":/");
  name.repo = rest.substr(0, end);
  if (end != rest.npos) {
    (rest[end] == ':' ? name.quant : name.file) = rest.substr(end + 1);
    if (name.quant.empty() && name.file.empty()) refuse();
  }
  if (!plain(name.owner) || !plain(name.repo) || name.owner.size() > kLongestName || name.repo.size() > kLongestName)
    refuse();
  if (!name.quant.empty() && (!plain(name.quant) || name.quant.size() > kLongestName)) refuse();
  if (!name.file.empty() && (!plain_path(name.file) || !is_model(name.file))) refuse();
  return name;
}

std::vector<HubFile> parse_listing(std::string_view json, const std::string& context) {
  const auto list = nlohmann::json::parse(json, nullptr, false);
  if (!list.is_array()) throw Error(Code::kBadInput, "is not the list of a repository's files", context);
  std::vector<HubFile> files;
  for (const auto& entry : list) {
    if (!entry.is_object() || entry.value("type", nlohmann::json()) != "file") continue;
    const auto path = entry.find("path"), size = entry.find("size"), lfs = entry.find("lfs");
    if (path == entry.end() || !path->is_string() || !plain_path(path->get_ref<const std::string&>())) continue;
    HubFile file{.path = path->get<std::string>()};
    if (size != entry.end() && size->is_number_unsigned()) file.size = size->get<std::uint64_t>();
    if (lfs != entry.end() && lfs->is_object()) {
      if (const auto oid = lfs->find("oid"); oid != lfs->end() && oid->is_string()) {
        const auto& hash = oid->get_ref<const std::string&>();
        if (hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == hash.npos) file.sha256 = hash;
      }
      if (const auto whole = lfs->find("size"); whole != lfs->end() && whole->is_number_unsigned())
        file.size = whole->get<std::uint64_t>();
    }
    files.push_back(std::move(file));
  }
  return files;
}

std::string next_page(std::string_view link, const std::string& endpoint) {
  while (!link.empty()) {
    const std::size_t open = link.find('<');
    const std::size_t close = open == link.npos ? open : link.find('>', open);
    if (close == link.npos) return {};
    const std::string_view target = link.substr(open + 1, close - open - 1);
    link.remove_prefix(close + 1);
    const std::string_view parameters = link.substr(0, link.find('<'));  // and a comma
    if (parameters.find("rel=\"next\"") == parameters.npos && parameters.find("rel=next") == parameters.npos) continue;
    const bool plain_url = std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (plain_url && target.starts_with(endpoint + "/")) return std::string(target);
    if (plain_url && target.starts_with('/') && !target.starts_with("//")) return endpoint + std::string(target);
    throw Error(Code::kBadInput, fmt::format("names a next page at another place, '{}'", target.substr(0, 200)),
                endpoint);
  }
  return {};
}

std::string quant_of(std::string_view path) {
  const std::string stem = stem_of(path);
  // The last of the words that looks like one: letters and a digit behind a mark.
  static const std::set<std::string, std::less<>> kWhole = {"BF16", "F16", "F32", "MXFP4", "FP16"};
  std::size_t end = stem.size();
  while (end > 0) {
    const std::size_t mark = stem.find_last_of("-./", end - 1);
    const std::size_t begin = mark == stem.npos ? 0 : mark + 1;
    const std::string word = upper(std::string_view(stem).substr(begin, end - begin));
    const std::size_t digit = word.starts_with("IQ") || word.starts_with("TQ") ? 2 : 1;
    const bool quant =
        word.size() > digit && (word[0] == 'Q' || digit == 2) && word[digit] >= '1' && word[digit] <= '8';
    if (quant || kWhole.contains(word)) {
      const bool dynamic = begin >= 3 && upper(std::string_view(stem).substr(begin - 3, 3)) == "UD-";
      return (dynamic ? "UD-" : "") + word;
    }
    if (mark == stem.npos) break;
    end = mark;
  }
  return {};
}

std::vector<HubFile> choose_files(std::span<const HubFile> all, const HubName& name) {
  const auto models = models_of(all);
  std::vector<std::string> quants;
  for (const auto& [stem, files] : models) quants.push_back(quant_of(files.front().path));
  const auto taken = [&](const std::vector<HubFile>& files) {
    if (static_cast<int>(files.size()) != parts_of(files.front().path))
      throw Error(Code::kBadInput, "has only some of the parts of " + files.front().path, name.text());
    return files;
  };
  const auto with = [&](std::string_view quant) -> const std::vector<HubFile>* {
    const std::vector<HubFile>* found = nullptr;
    for (const auto& [stem, files] : models)
      if (quant_of(files.front().path) == quant && (!found || stem.size() < stem_of(found->front().path).size()))
        found = &files;
    return found;
  };
  if (!name.file.empty()) {
    for (const auto& [stem, files] : models)
      if (std::any_of(files.begin(), files.end(), [&](const HubFile& f) { return f.path == name.file; }))
        return taken(files);
  } else if (!name.quant.empty()) {
    if (const auto* files = with(upper(name.quant))) return taken(*files);
  } else {
    for (const std::string_view usual : kUsual)
      if (const auto* files = with(usual)) return taken(*files);
    if (models.size() == 1) return taken(models.begin()->second);
  }
  if (models.empty()) throw Error(Code::kBadInput, "has no GGUF files", name.text());
  std::erase(quants, "");
  std::sort(quants.begin(), quants.end());
  quants.erase(std::unique(quants.begin(), quants.end()), quants.end());
  throw Error(Code::kBadInput,
              quants.empty() ? fmt::format("name one of its {} files", models.size())
                             : fmt::format("is not there; there is {}", fmt::join(quants, ", ")),
              name.text());
}

HubOptions hub_options() {
  HubOptions o;
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://"))
      throw Error(Code::kBadInput, "is '" + endpoint + "', expected https://HOST", "HF_ENDPOINT");
    o.endpoint = std::move(endpoint);
  }
  o.token = trimmed(environment("HF_TOKEN"));
  o.token.erase(0, std::min(o.token.find_first_not_of(" \t"), o.token.size()));
  if (o.token.empty()) {
    std::string home = environment("HF_HOME");
    if (home.empty()) home = cache_home() + "/huggingface";
    std::error_code none;
    if (fs::is_regular_file(home + "/token", none)) o.token = trimmed(read_text_file(home + "/token"));
  }
  if (o.token.find_first_of("\r\n") != o.token.npos) throw Error(Code::kBadInput, "is more than one line", "HF_TOKEN");
  o.folder = environment("KVASIR_MODELS");
  if (o.folder.empty()) o.folder = cache_home() + "/kvasir/models";
  return o;
}

std::vector<LocalModel> list_models(const std::string& folder) {
  std::map<std::string, LocalModel> models;  // by the path of the first file
  std::map<std::string, int> parts;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(folder, error); !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    std::error_code gone;
    if (!at->is_regular_file(gone)) continue;
    const std::string path = at->path().string();
    std::string relative = fs::relative(at->path(), folder, gone).generic_string();
    const bool partly = relative.ends_with(kPart);
    if (partly) {  // NAME.gguf.HASH.part
      relative.resize(relative.size() - kPart.size());
      if (const std::size_t dot = relative.rfind('.'); dot != relative.npos) relative.resize(dot);
    }
    const std::size_t owner = relative.find('/'), repo = owner == relative.npos ? owner : relative.find('/', owner + 1);
    if (repo == relative.npos || !is_model(relative)) continue;
    const std::string file = relative.substr(repo + 1), quant = quant_of(file);
    const auto part = weights::parse_part_name(file);
    LocalModel& model = models[relative.substr(0, repo) + "/" + stem_of(file)];
    model.name = "hf:" + relative.substr(0, repo) + (quant.empty() ? "/" + file : ":" + quant);
    if (model.path.empty() || path < model.path) model.path = path;
    model.bytes += fs::file_size(at->path(), gone);
    model.partly = model.partly || partly;
    if (!partly && part) model.missing_parts = part->count - ++parts[relative.substr(0, repo) + "/" + stem_of(file)];
  }
  std::vector<LocalModel> out;
  for (auto& [key, model] : models) out.push_back(std::move(model));
  return out;
}

std::optional<std::string> find_model(const HubName& name, const std::string& folder) {
  const std::string base = folder + "/" + name.owner + "/" + name.repo;
  std::vector<HubFile> files;
  std::error_code error;
  for (auto at = fs::recursive_directory_iterator(base, error); !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) files.push_back({.path = fs::relative(at->path(), base, gone).generic_string()});
  }
  try {
    return base + "/" + choose_files(files, name).front().path;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// All pages of the listing.
static std::vector<HubFile> list_files(const std::string& repository, const HubName& name, const HubOptions& o) {
  std::string url = o.endpoint + "/api/models/" + escaped(repository) + "/tree/main?recursive=true";
  std::vector<HubFile> all;
  for (int pages = 0; !url.empty(); ++pages) {
    if (pages == kMostPages) throw Error(Code::kBadInput, fmt::format("lists more than {} pages", pages), name.text());
    const Page page = fetch_page(url, o.token, name.text());
    const auto files = parse_listing(page.text, url);
    all.insert(all.end(), files.begin(), files.end());
    url = next_page(page.link, o.endpoint);
  }
  return all;
}

std::string pull_model(const HubName& name, const HubOptions& o, const PullProgress& progress) {
  const std::string repository = name.owner + "/" + name.repo;
  const auto files = choose_files(list_files(repository, name, o), name);
  const std::string base = o.folder + "/" + repository;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const HubFile& f = files[i];
    const std::string path = base + "/" + f.path;
    if (std::error_code none; fs::is_regular_file(path, none)) continue;  // it was checked before it got this name
    fs::create_directories(fs::path(path).parent_path());
    const std::string part = path + "." + (f.sha256.empty() ? "unknown" : f.sha256.substr(0, 12)) + std::string(kPart);
    const std::string what =
        files.size() > 1 ? fmt::format("{} ({} of {})", name.text(), i + 1, files.size()) : name.text();
    download({.url = o.endpoint + "/" + escaped(repository) + "/resolve/main/" + escaped(f.path),
              .token = o.token,
              .path = part,
              .size = f.size},
             [&](std::uint64_t done, std::uint64_t total) { return progress(what, done, total); });
    if (!f.sha256.empty()) {
      const std::string found =
          sha256_of_file(part, [&](std::uint64_t done) { return progress("checking " + what, done, f.size); });
      if (found != f.sha256) {
        fs::remove(part);
        throw Error(Code::kIo, "what came has the SHA-256 " + found + ", expected " + f.sha256 + "; it was deleted",
                    f.path);
      }
    }
    fs::rename(part, path);
  }
  return base + "/" + files.front().path;
}

}  // namespace kvasir::client
