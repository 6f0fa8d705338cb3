// kvasir tokenize -m MODEL [-p TEXT|-f FILE] [--ids|--count] [--special] [--sections SEPARATOR] [--json]
#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/command.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/models.hpp"
#include "cli/sections.hpp"
#include "cli/standard_input.hpp"
#include "text/tokenizer.hpp"
#include "weights/model_file.hpp"

namespace kvasir::cli::commands_tokenize {
namespace {

struct TokenizeOptions {
  std::string model;
  std::string prompt;
  std::string file;
  bool ids = false;
  bool count = false;
  bool special = false;
  std::string sections;
  bool json = false;
};

const OptionTable<TokenizeOptions>& table() {
  using O = TokenizeOptions;
  static const OptionTable<O> t{
      "tokenize",
      {{"model", &O::model, {.help = "model file", .letter = 'm', .placeholder = "FILE", .required = true}},
       {"prompt", &O::prompt, {.help = "the text to tokenise", .letter = 'p', .placeholder = "TEXT"}},
       {"file",
        &O::file,
        {.help = "read the text from a file; standard input when neither is given, or -",
         .letter = 'f',
         .placeholder = "FILE"}},
       {"ids", &O::ids, {.help = "print only the ids, one line"}},
       {"count", &O::count, {.help = "print only how many tokens there are"}},
       {"special",
        &O::special,
        {.help = "BOS and EOS as the model wants them, and special tokens written in the text become those tokens"}},
       {"sections",
        &O::sections,
        {.help = "tokenise the texts between lines equal to SEPARATOR alone", .placeholder = "SEPARATOR"}},
       {"json", &O::json, {.help = "one object per text: section, count, ids"}}}};
  return t;
}

void check(const TokenizeOptions& o) {
  if (!o.prompt.empty() && !o.file.empty())
    throw Error(Code::kBadInput, "expected one of -p TEXT and -f FILE, found both", "tokenize");
  if (o.ids && o.count) throw Error(Code::kBadInput, "expected one of --ids and --count, found both", "tokenize");
  if (o.sections.find('\n') != std::string::npos)
    throw Error(Code::kBadInput, "expected a separator of one line, found a line break in it", "--sections");
}

std::string text_of(const TokenizeOptions& o) {
  if (!o.prompt.empty()) return o.prompt;
  return o.file.empty() || o.file == "-" ? read_standard_input() : read_text_file(o.file);
}

std::unique_ptr<text::Tokenizer> open_tokenizer(const std::string& path) {
  const auto file = weights::open_model_file(path);
  auto tokenizer = text::make_tokenizer(file->metadata());
  if (!tokenizer) throw Error(Code::kBadInput, "the model has no vocabulary, expected tokenizer.ggml.* metadata", path);
  return tokenizer;
}

// A token's bytes on one line: what is not printable ASCII or valid in a terminal is left to the terminal, except
// control characters, quotes and backslashes.
std::string quoted(std::string_view piece) {
  std::string out = "'";
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n')
      out += "\\n";
    else if (c == '\'' || c == '\\')
      out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + "'";
}

void write_out(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_table(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, std::size_t section,
                 bool headings) {
  std::string out = headings ? fmt::format("section {}: {} tokens\n", section, ids.size()) : "";
  for (const std::int32_t id : ids)
    fmt::format_to(std::back_inserter(out), "{:>8}  {}\n", id, quoted(tokenizer.piece(id)));
  if (!headings) fmt::format_to(std::back_inserter(out), "{} tokens\n", ids.size());
  write_out(out);
}

void print_json(const TokenizeOptions& o, const std::vector<std::int32_t>& ids, std::size_t section) {
  nlohmann::ordered_json row{{"section", section}, {"count", ids.size()}};
  if (!o.count) row["ids"] = ids;
  print_json_row(row);
}

int tokenize(const TokenizeOptions& o) {
  check(o);
  const auto tokenizer = open_tokenizer(local_model(o.model));
  const std::string text = text_of(o);
  const text::EncodeOptions encode{.add_bos = o.special && tokenizer->add_bos(),
                                   .add_eos = o.special && tokenizer->add_eos(),
                                   .parse_special = o.special};
  std::vector<std::string_view> texts{text};
  if (!o.sections.empty()) texts = split_sections(text, o.sections);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto ids = tokenizer->encode(texts[i], encode);
    if (o.json)
      print_json(o, ids, i);
    else if (o.count)
      write_out(fmt::format("{}\n", ids.size()));
    else if (o.ids)
      write_out(fmt::format("{}\n", fmt::join(ids, " ")));
    else
      print_table(*tokenizer, ids, i, !o.sections.empty());
  }
  return kSuccess;
}

Action setup(Flags& flags) {
  auto options = std::make_shared<TokenizeOptions>();
  add_options(flags, table(), *options);
  return [options] { return tokenize(*options); };
}

}  // namespace

const Command entry{"print the tokens of a text", setup};

}  // namespace kvasir::cli::commands_tokenize
