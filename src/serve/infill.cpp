#include "serve/infill.hpp"

namespace kvasir::serve {

std::vector<std::int32_t> encode_gap(const text::Tokenizer& tokenizer, const Gap& gap) {
  const text::GapIds& ids = tokenizer.gap();
  if (!ids.known())
    throw ApiException({.status = 400,
                        .message = "this model cannot fill gaps: its vocabulary has no tokens for it",
                        .param = "suffix",
                        .code = "unsupported"});
  std::vector<std::int32_t> out;
  const auto text = [&](std::string_view part) {
    if (part.empty()) return;
    const auto more = tokenizer.encode(part, {.behind_text = true});
    out.insert(out.end(), more.begin(), more.end());
  };
  const auto mark = [&](std::int32_t id) {
    if (id >= 0) out.push_back(id);
    return id >= 0;
  };
  if (tokenizer.add_bos()) mark(tokenizer.bos());
  if (!gap.files.empty() && mark(ids.repository)) text("project\n");
  for (const Gap::File& file : gap.files) {
    text(mark(ids.file) ? file.name + "\n" : "--- " + file.name + " ---\n");
    text(file.text + "\n");
  }
  if (!gap.files.empty() && mark(ids.file)) text("current\n");
  mark(ids.prefix);
  text(gap.prefix);
  mark(ids.suffix);
  text(gap.suffix);
  mark(ids.middle);
  return out;
}

}  // namespace kvasir::serve
