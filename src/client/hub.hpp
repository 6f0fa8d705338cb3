// Models by name: "hf:OWNER/REPO", "hf:OWNER/REPO:QUANT", "hf:OWNER/REPO/FILE.gguf". Which files they are at a hub that
// speaks Hugging Face's API, and which of them are in a folder here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::client {

struct HubName {
  std::string owner, repo;
  std::string quant;  // "Q4_K_M", in any case; "": the usual one
  std::string file;   // of the repository, instead of `quant`; "": none
  std::string text() const;
};

bool is_hub_name(std::string_view text);  // begins with "hf:"
// Throws Error(kBadInput) that says what was expected.
HubName parse_hub_name(std::string_view text);

struct HubFile {
  std::string path;  // in the repository: relative, of plain components
  std::uint64_t size = 0;
  std::string sha256;  // 64 hexadecimal digits; "": the hub does not say
};

// The answer of GET /api/models/OWNER/REPO/tree/main?recursive=true. Files whose names could lead out of a folder are
// left out. Throws Error(kBadInput) with `context` for anything else than that.
std::vector<HubFile> parse_listing(std::string_view json, const std::string& context);

// The URL of the next page by a header Link (RFC 8288), "" for the last page. Only a place at `endpoint` is taken,
// since it is given the token. Throws Error(kBadInput) with `endpoint` for others.
std::string next_page(std::string_view link, const std::string& endpoint);

// The files of the model, its parts in order. Without a quant the usual one: Q4_K_M, else the nearest in a list. Throws
// Error(kBadInput) that says what there is.
std::vector<HubFile> choose_files(std::span<const HubFile> all, const HubName& name);

// What a file is called behind its model's name: "Q4_K_M" of "qwen3-8b-Q4_K_M-00001-of-00002.gguf"; "": nothing known.
std::string quant_of(std::string_view path);

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;   // "": none
  std::string folder;  // of all models; a file lies at FOLDER/OWNER/REPO/PATH
};
// By the environment: HF_ENDPOINT; HF_TOKEN, or the file "token" in HF_HOME or ~/.cache/huggingface; KVASIR_MODELS, or
// kvasir/models in XDG_CACHE_HOME or ~/.cache.
HubOptions hub_options();

struct LocalModel {
  std::string name;         // that parse_hub_name takes
  std::string path;         // of the first part
  std::uint64_t bytes = 0;  // of all parts that are there
  int missing_parts = 0;    // of a model in parts
  bool partly = false;      // a download that did not end
  bool whole() const { return missing_parts == 0 && !partly; }
};
// In order of their names. A folder that is not there has none.
std::vector<LocalModel> list_models(const std::string& folder);

// The first file of a model that is here whole; nothing when it is not.
std::optional<std::string> find_model(const HubName& name, const std::string& folder);

// What comes in: the file and its bytes so far; false stops with Error(kCancelled).
using PullProgress = std::function<bool(const std::string& what, std::uint64_t done, std::uint64_t total)>;

// Downloads what is not here yet and checks it by its SHA-256. A download that did not end goes on where it ended.
// Returns the path of the first file. Throws Error.
std::string pull_model(const HubName& name, const HubOptions& options, const PullProgress& progress);

}  // namespace kvasir::client
