#include "run/picture_prompt.hpp"

#include "text/prompt.hpp"

namespace kvasir::run {

void PicturePrompt::add(const text::Tokenizer& tokenizer, std::string_view text, std::size_t at,
                        std::span<const PicturePlace> places, const text::EncodeOptions& how) {
  std::string pending;
  std::vector<std::size_t> plain;  // of it
  std::size_t told = 0;            // of how.plain
  bool begun = false;
  const auto say = [&](std::size_t begin, std::size_t end) {
    while (told < how.plain.size() && how.plain[told] < begin) ++told;
    for (; told < how.plain.size() && how.plain[told] < end; ++told)
      plain.push_back(pending.size() + how.plain[told] - begin);
    pending += text.substr(begin, end - begin);
  };
  const auto write = [&] {
    text::EncodeOptions options = how;
    options.add_bos = how.add_bos && !begun;
    options.behind_text = how.behind_text || begun;
    options.plain = plain;
    const std::vector<std::int32_t> more =
        begun ? tokenizer.encode(pending, options) : text::encode_prompt(tokenizer, pending, options);
    ids.insert(ids.end(), more.begin(), more.end());
    begun = true;
    pending.clear(), plain.clear();
  };
  std::size_t done = 0;
  for (const PicturePlace& place : places) {
    say(done, place.begin);
    done = place.end;
    const PromptPicture& picture = *place.picture;
    pending += place.lead;
    Shown one{.begin = at + place.begin,
              .end = at + place.end,
              .before = place.lead.size() + picture.runs.front().before.size(),
              .after = picture.runs.back().after.size(),
              .first_row = 0,
              .rows_end = 0};
    for (const PromptPicture::Run& run : picture.runs) {
      pending += run.before;
      write();
      if (&run == &picture.runs.front()) one.first_row = std::ssize(ids);
      runs.push_back({std::ssize(ids), run.block});
      ids.insert(ids.end(), run.block->ids().begin(), run.block->ids().end());
      one.rows_end = std::ssize(ids);
      pending += run.after;
    }
    shown.push_back(one);
  }
  say(done, text.size());
  if (!begun || !pending.empty()) write();
}

}  // namespace kvasir::run
