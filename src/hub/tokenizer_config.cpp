#include "hub/tokenizer_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "hub/pretokenizer_name.hpp"
#include "weights/safetensors/fields.hpp"

namespace kvasir::hub {

using namespace weights;

namespace {

// tokenizer.ggml.token_type
enum Type : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

bool is_byte_name(std::string_view t) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return t.size() == 6 && t.starts_with("<0x") && hex(t[3]) && hex(t[4]) && t[5] == '>';
}

// What SentencePiece's BPE has in front of texts.
struct Space {
  bool added = false;
  std::string metaspace;  // "always" or "first": added where none is, by a step called Metaspace
};

class TokenizerReader {
 public:
  TokenizerReader(const TokenizerFiles& files, std::int64_t vocabulary, const std::string& folder, Metadata& out)
      : files_(files), folder_(folder), path_(folder + "/tokenizer.json"), vocabulary_(vocabulary), out_(out) {}

  void read() {
    const ConfigFields all(files_.tokenizer, path_);
    const FolderJson* model = all.object("model");
    if (!model) all.bad("model", "is missing");
    const ConfigFields fields(*model, path_, "model.");
    const std::string type = fields.text_if("type").value_or("BPE");
    if (type != "BPE" && type != "Unigram" && type != "WordPiece")
      fields.unsupported("type", fmt::format("is '{}', expected BPE, Unigram or WordPiece", type.substr(0, 80)));
    if (type == "Unigram")
      read_scored_vocabulary(fields);
    else
      read_vocabulary(fields);
    read_added(all);
    if (type == "BPE")
      read_merged(all, fields);
    else
      read_steps(all, fields, type == "Unigram");
    read_special_ids();
    set_generation(files_.generation, out_);
    read_beginning(all);
    read_templates();
    out_.set("tokenizer.ggml.tokens", std::move(tokens_));
    out_.set("tokenizer.ggml.token_type", std::move(types_));
  }

 private:
  std::string& token(std::int64_t id) { return tokens_[static_cast<std::size_t>(id)]; }

  void read_vocabulary(const ConfigFields& model) {
    const FolderJson* words = model.object("vocab");
    if (!words) model.bad("vocab", "is missing");
    tokens_.resize(static_cast<std::size_t>(vocabulary_));
    types_.assign(static_cast<std::size_t>(vocabulary_), kUnused);
    for (const auto& [text, id] : words->items()) put(model, text, id, kNormal);
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (types_[i] == kUnused) tokens_[i] = fmt::format("[PAD{}]", i);
  }

  // Pairs of a token and its score; their places are the ids.
  void read_scored_vocabulary(const ConfigFields& model) {
    const FolderJson* words = model.array("vocab");
    if (!words) model.bad("vocab", "is missing");
    if (std::cmp_greater(words->size(), vocabulary_))
      model.bad("vocab", fmt::format("has {} tokens, expected at most {}, the rows of the embedding", words->size(),
                                     vocabulary_));
    tokens_.resize(static_cast<std::size_t>(vocabulary_));
    types_.assign(static_cast<std::size_t>(vocabulary_), kUnused);
    scores_.assign(static_cast<std::size_t>(vocabulary_), 0.0);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (i >= words->size()) {
        tokens_[i] = fmt::format("[PAD{}]", i);
        continue;
      }
      const FolderJson& pair = (*words)[i];
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number())
        model.bad("vocab", fmt::format("entry {} is {}, expected a token and its score", i, pair.dump().substr(0, 80)));
      tokens_[i] = pair[0].get<std::string>();
      scores_[i] = pair[1].get<double>();
      types_[i] = kNormal;
    }
  }

  // Unigram and WordPiece, whose steps are interpreted (text/steps.hpp).
  void read_steps(const ConfigFields& all, const ConfigFields& model, bool unigram) {
    out_.set("tokenizer.ggml.model", std::string(unigram ? "steps-unigram" : "steps-wordpiece"));
    set_steps(all);
    if (unigram) {
      const bool bytes = model.flag_if("byte_fallback").value_or(false);
      out_.set("tokenizer.kvasir.byte_fallback", bytes);
      for (std::size_t i = 0; bytes && i < tokens_.size(); ++i)
        if (types_[i] != kUnused && is_byte_name(tokens_[i])) types_[i] = kByte;  // added or not
      out_.set("tokenizer.ggml.scores", scores_);
      if (const auto id = model.integer_if("unk_id", 0, vocabulary_ - 1)) set_unknown(*id);
      return;
    }
    if (const auto longest = model.integer_if("max_input_chars_per_word", 1, std::int64_t{1} << 30))
      out_.set("tokenizer.kvasir.longest_word", *longest);
    if (const auto id = id_of(model.text_if("unk_token").value_or("[UNK]"))) set_unknown(*id);
    // Words begin with a space, and what goes on has no sign.
    const std::string sign = model.text_if("continuing_subword_prefix").value_or("##");
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] != kNormal) continue;
      if (!sign.empty() && tokens_[i].starts_with(sign))
        tokens_[i].erase(0, sign.size());
      else
        tokens_[i] = fmt::format(" {}", tokens_[i]);
    }
  }

  void set_steps(const ConfigFields& all) {
    for (const char* name : {"normalizer", "pre_tokenizer"})
      if (const FolderJson* step = all.object(name)) out_.set(fmt::format("tokenizer.kvasir.{}", name), step->dump());
  }

  void set_unknown(std::int64_t id) {
    types_[static_cast<std::size_t>(id)] = kUnknown;
    out_.set("tokenizer.ggml.unknown_token_id", id);
  }

  void put(const ConfigFields& at, const std::string& text, const FolderJson& id, Type type) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocabulary_))
      at.bad(at.find("vocab") ? "vocab" : "id",
             fmt::format("gives '{}' the id {}, expected one below {}, the rows of the embedding", text.substr(0, 80),
                         id.dump().substr(0, 40), vocabulary_));
    const auto i = id.get<std::size_t>();
    if (types_[i] != kUnused && tokens_[i] != text)
      at.bad(at.find("vocab") ? "vocab" : "id",
             fmt::format("gives the id {} to '{}' and to '{}'", i, tokens_[i].substr(0, 80), text.substr(0, 80)));
    tokens_[i] = text;
    types_[i] = type;
  }

  void read_added(const ConfigFields& all) {
    out_.set("tokenizer.kvasir.types_told", true);
    const FolderJson* added = all.array("added_tokens");
    if (!added) return;
    std::array<std::pair<const char*, std::vector<std::int64_t>>, 3> edges{
        {{"lstrip", {}}, {"rstrip", {}}, {"single_word", {}}}};
    for (std::size_t i = 0; i < added->size(); ++i) {
      if (!(*added)[i].is_object()) all.bad("added_tokens", "holds what is no object");
      const ConfigFields one((*added)[i], path_, fmt::format("added_tokens[{}].", i));
      const auto text = one.text_if("content");
      const FolderJson* id = one.find("id");
      if (!text || !id) one.bad("content", "or 'id' is missing");
      put(one, *text, *id, one.flag_if("special").value_or(false) ? kControl : kUserDefined);
      for (auto& [name, ids] : edges)
        if (one.flag_if(name).value_or(false)) ids.push_back(id->get<std::int64_t>());
    }
    for (auto& [name, ids] : edges)
      if (!ids.empty()) out_.set(std::string("tokenizer.kvasir.") + name, std::move(ids));
  }

  template <class Each>
  void each_merge(const ConfigFields& model, Each each) const {
    const FolderJson* merges = model.array("merges");
    if (!merges) model.bad("merges", "is missing");
    for (std::size_t i = 0; i < merges->size(); ++i) {
      const FolderJson& m = (*merges)[i];
      if (m.is_array() && m.size() == 2 && m[0].is_string() && m[1].is_string()) {
        each(m[0].get_ref<const std::string&>(), m[1].get_ref<const std::string&>());
        continue;
      }
      const std::string text = m.is_string() ? m.get<std::string>() : "";
      const std::size_t space = text.find(' ', 1);
      if (space == text.npos) model.bad("merges", fmt::format("entry {} is no pair of tokens", i));
      each(text.substr(0, space), text.substr(space + 1));
    }
  }

  // BPE: in GGUF's words where steps and patterns are those of a tokenizer there, else with the steps as they stand.
  void read_merged(const ConfigFields& all, const ConfigFields& model) {
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model.text_if(name).value_or("").empty())
        model.unsupported(name, "is not empty: tokens that say where in a word they stand are not supported in BPE");
    const bool bytes = model.flag_if("byte_fallback").value_or(false);
    const auto space = bytes ? space_in_front(all) : std::nullopt;
    const auto pre = bytes ? std::nullopt : pretokenizer_name(files_.tokenizer);
    if (space) {
      read_characters(model, *space);
    } else if (pre) {
      out_.set("tokenizer.ggml.model", std::string("gpt2"));
      out_.set("tokenizer.ggml.pre", *pre);
      set_merges(model);
    } else {
      set_stepped(all, model, bytes);
    }
  }

  void set_merges(const ConfigFields& model) {
    std::vector<std::string> merges;
    each_merge(model, [&](const std::string& left, const std::string& right) { merges.push_back(left + " " + right); });
    out_.set("tokenizer.ggml.merges", std::move(merges));
  }

  void set_stepped(const ConfigFields& all, const ConfigFields& model, bool byte_fallback) {
    const bool bytes =
        has_step(all.find("normalizer"), "ByteLevel") || has_step(all.find("pre_tokenizer"), "ByteLevel");
    out_.set("tokenizer.ggml.model", std::string(bytes ? "steps-bytes" : "steps-characters"));
    set_steps(all);
    set_merges(model);
    out_.set("tokenizer.kvasir.byte_fallback", byte_fallback);
    out_.set("tokenizer.kvasir.fuse_unknown", model.flag_if("fuse_unk").value_or(false));
    out_.set("tokenizer.kvasir.whole_words", model.flag_if("ignore_merges").value_or(false));
    for (std::size_t i = 0; byte_fallback && i < tokens_.size(); ++i)
      if (types_[i] != kUnused && is_byte_name(tokens_[i])) types_[i] = kByte;
    if (const auto unknown = model.text_if("unk_token"))
      if (const auto id = id_of(*unknown)) set_unknown(*id);
  }

  static bool has_step(const FolderJson* step, std::string_view type) {
    if (!step || !step->is_object()) return false;
    if (step->value("type", "") == type) return true;
    for (const char* name : {"normalizers", "pretokenizers"})
      if (const auto inner = step->find(name); inner != step->end() && inner->is_array())
        for (const FolderJson& s : *inner)
          if (has_step(&s, type)) return true;
    return false;
  }

  // SentencePiece's BPE: characters and byte tokens, "▁" for spaces. GGUF orders joins by the score of what comes out:
  // minus the rank of the first merge that gives it.
  void read_characters(const ConfigFields& model, const Space& space) {
    out_.set("tokenizer.ggml.model", std::string("llama"));
    std::unordered_map<std::string, double> rank;
    double next = 0;
    each_merge(model, [&](const std::string& left, const std::string& right) { rank.emplace(left + right, next++); });
    std::vector<double> scores;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (types_[i] != kUnused && is_byte_name(tokens_[i])) types_[i] = kByte;
      const auto it = rank.find(tokens_[i]);
      scores.push_back(types_[i] != kNormal ? 0.0 : it == rank.end() ? -1e9 : -it->second);
    }
    out_.set("tokenizer.ggml.scores", std::move(scores));
    out_.set("tokenizer.ggml.add_space_prefix", space.added);
    if (!space.metaspace.empty()) out_.set("tokenizer.kvasir.metaspace", space.metaspace);
    if (const auto unknown = model.text_if("unk_token"))
      if (const auto id = id_of(*unknown)) set_unknown(*id);
  }

  // Whether a space is put in front of texts, by a normalizer or a pre-tokenizer; nothing: there are other steps, too.
  static std::optional<Space> space_in_front(const ConfigFields& all) {
    Space space;
    bool others = false;
    const auto look = [&](const FolderJson& step, const auto& self) -> void {
      const std::string type = step.is_object() ? step.value("type", "") : "";
      if (type == "Sequence") {
        for (const char* name : {"normalizers", "pretokenizers"})
          if (const auto inner = step.find(name); inner != step.end() && inner->is_array())
            for (const FolderJson& s : *inner) self(s, self);
      } else if (type == "Prepend") {
        others = others || step.value("prepend", "") != "\u2581" || space.added;
        space.added = true;
      } else if (type == "Metaspace") {
        const auto scheme = step.value("prepend_scheme", step.value("add_prefix_space", true) ? "always" : "never");
        const bool known = scheme == "always" || scheme == "first" || scheme == "never";
        others = others || step.value("replacement", "\u2581") != "\u2581" || step.value("split", true) || !known ||
                 space.added;
        space.added = scheme != "never";
        if (space.added) space.metaspace = scheme;
      } else if (type == "Replace" || (type == "Split" && step.value("behavior", "") == "MergedWithPrevious")) {
        // " " by "▁"; Gemma then splits at spaces, of which none are left.
        const auto pattern = step.find("pattern");
        others = others || pattern == step.end() || *pattern != FolderJson{{"String", " "}} ||
                 (type == "Replace" && step.value("content", "") != "\u2581");
      } else {
        others = true;
      }
    };
    for (const char* name : {"normalizer", "pre_tokenizer"})
      if (const FolderJson* step = all.find(name)) look(*step, look);
    return others ? std::nullopt : std::optional(space);
  }

  std::optional<std::int64_t> id_of(std::string_view text) const {
    const auto it = std::find(tokens_.begin(), tokens_.end(), text);
    if (it == tokens_.end()) return std::nullopt;
    return it - tokens_.begin();
  }

  // A token in tokenizer_config.json: its text, or an object that has it.
  std::optional<std::int64_t> named(const char* field) const {
    if (!files_.config.is_object()) return std::nullopt;
    const auto value = files_.config.find(field);
    if (value == files_.config.end()) return std::nullopt;
    if (value->is_string()) return id_of(value->get<std::string>());
    if (value->is_object() && value->contains("content") && (*value)["content"].is_string())
      return id_of((*value)["content"].get<std::string>());
    return std::nullopt;
  }

  // Ids that a configuration gives under `field`, alone or in a list.
  std::vector<std::int64_t> ids(const FolderJson& file, const char* name, const char* field) const {
    if (!file.is_object()) return {};
    const auto value = file.find(field);
    if (value == file.end() || value->is_null()) return {};
    const FolderJson list = value->is_array() ? *value : FolderJson::array({*value});
    std::vector<std::int64_t> out;
    for (const FolderJson& id : list) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocabulary_))
        throw Error(
            Code::kBadInput,
            fmt::format("'{}' holds {}, expected token ids below {}", field, id.dump().substr(0, 40), vocabulary_),
            fmt::format("{}/{}", folder_, name));
      out.push_back(id.get<std::int64_t>());
    }
    return out;
  }

  void read_special_ids() {
    // What generates knows best where answers end.
    std::vector<std::int64_t> ends = ids(files_.generation, "generation_config.json", "eos_token_id");
    for (const std::int64_t id : ids(files_.model, "config.json", "eos_token_id"))
      if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
    const auto own = named("eos_token");
    if (own) {  // first: it ends texts, the others messages
      std::erase(ends, *own);
      ends.insert(ends.begin(), *own);
    }
    const char* keys[] = {"eos", "eot", "eom"};
    for (std::size_t i = 0; i < ends.size() && i < std::size(keys); ++i)
      out_.set(fmt::format("tokenizer.ggml.{}_token_id", keys[i]), ends[i]);
    if (!ends.empty()) eos_ = ends.front();
    auto bos = named("bos_token");
    if (const auto given = ids(files_.model, "config.json", "bos_token_id"); !bos && !given.empty())
      bos = given.front();
    bos_ = bos;
    if (bos) out_.set("tokenizer.ggml.bos_token_id", *bos);
    if (const auto pad = named("pad_token")) out_.set("tokenizer.ggml.padding_token_id", *pad);
  }

  // Whether texts begin with the BOS and end with the EOS: the post-processor adds them, or tokenizer_config.json says
  // so of the former.
  void read_beginning(const ConfigFields& all) {
    bool add = false, end = false;
    const auto special = [&](const FolderJson& part) -> std::optional<std::int64_t> {
      if (!part.is_object() || !part.contains("SpecialToken") || !part["SpecialToken"].is_object()) return std::nullopt;
      return id_of(part["SpecialToken"].value("id", ""));
    };
    const auto look = [&](const FolderJson& step, const auto& self) -> void {
      const std::string type = step.is_object() ? step.value("type", "") : "";
      if (type == "Sequence") {
        if (const auto inner = step.find("processors"); inner != step.end() && inner->is_array())
          for (const FolderJson& s : *inner) self(s, self);
      } else if (type == "TemplateProcessing") {
        const auto single = step.find("single");
        if (single == step.end() || !single->is_array() || single->empty()) return;
        const auto first = special(single->front()), last = special(single->back());
        add = first && first == bos_;
        end = single->size() > 1 && last && last == eos_;
      }
    };
    if (const FolderJson* step = all.find("post_processor")) look(*step, look);
    if (files_.config.is_object())
      if (const auto given = files_.config.find("add_bos_token"); given != files_.config.end() && given->is_boolean())
        add = given->get<bool>();
    out_.set("tokenizer.ggml.add_bos_token", add && bos_.has_value());
    if (end) out_.set("tokenizer.ggml.add_eos_token", true);
  }

  void read_templates() {
    const auto set = [&](const std::string& name, const std::string& text) {
      out_.set(name.empty() || name == "default" ? "tokenizer.chat_template" : "tokenizer.chat_template." + name, text);
    };
    if (files_.config.is_object()) {
      const auto given = files_.config.find("chat_template");
      if (given != files_.config.end() && given->is_string()) set("", given->get<std::string>());
      if (given != files_.config.end() && given->is_array())
        for (const FolderJson& one : *given)
          if (one.is_object()) set(one.value("name", ""), one.value("template", ""));
    }
    if (!files_.chat_template.empty()) set("", files_.chat_template);
    if (!files_.config.is_object()) return;
    const auto response = files_.config.find("response_template");
    if (response != files_.config.end() && response->is_object())
      out_.set("tokenizer.response_template", response->dump(-1, ' ', false, FolderJson::error_handler_t::replace));
  }

  const TokenizerFiles& files_;
  const std::string& folder_;
  const std::string path_;
  const std::int64_t vocabulary_;
  Metadata& out_;
  std::vector<std::string> tokens_;
  std::vector<std::int64_t> types_;
  std::vector<double> scores_;  // of Unigram
  std::optional<std::int64_t> bos_, eos_;
};

}  // namespace

void read_tokenizer(const TokenizerFiles& files, std::int64_t vocabulary, const std::string& path, Metadata& metadata) {
  try {
    TokenizerReader(files, vocabulary, path, metadata).read();
  } catch (const FolderJson::exception& e) {  // a field of another type than all such files have
    throw Error(Code::kBadInput, fmt::format("has a field of an unexpected type: {}", e.what()),
                path + "/tokenizer.json");
  }
}

}  // namespace kvasir::hub
