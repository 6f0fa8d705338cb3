#include "serve/turns.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "serve/given.hpp"
#include "text/prompt.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr std::size_t kEnd = sizeof(TurnPlace::end);
constexpr const char* kWhiteSpace = " \t\r\n\f\v";
// Fewer tokens of an answer that came back changed are not worth it that they stay as they were generated.
constexpr std::size_t kLeastParted = 32;

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  const unsigned char lower = byte | 32;
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (lower >= 'a' && lower <= 'z');
}

// Keys of the places in a prompt, from left to right. Two streams are hashed: the text, and what else decides its ids:
// where names of control tokens are text (EncodeOptions::plain), and which ids stand for parts of it.
//   key(p) = H(secret, "kvasir.a", tenant's size and bytes, text[0, p), H(secret, "kvasir.m", marks before p))
//   mark   = 0, position  |  1, begin, end, number of ids, ids         numbers have 64 bits, ids 32
class PlaceKeys {
 public:
  PlaceKeys(const text::Prompt& prompt, const store::Key& secret, std::string_view tenant)
      : prompt_(prompt), text_(secret, "kvasir.a"), marks_(secret, "kvasir.m") {
    const std::uint64_t size = tenant.size();
    text_.add(std::as_bytes(std::span(&size, 1)));
    text_.add(std::as_bytes(std::span(tenant)));
  }

  // REQUIRES: positions of all calls ascend.
  store::Key at(std::size_t position) {
    advance(position);
    store::KeyStream all = text_;
    all.add(marks_.key().bytes);
    return all.key();
  }

  void replace(std::size_t begin, std::size_t end, std::span<const std::int32_t> ids) {
    advance(begin);
    mark(std::array<std::uint64_t, 4>{1, begin, end, ids.size()});
    marks_.add(std::as_bytes(ids));
    while (plain_ < prompt_.plain.size() && prompt_.plain[plain_] < end) ++plain_;
    advance(end);
  }

 private:
  void advance(std::size_t position) {
    text_.add(std::as_bytes(std::span(prompt_.text)).subspan(done_, position - done_));
    done_ = position;
    for (; plain_ < prompt_.plain.size() && prompt_.plain[plain_] < position; ++plain_)
      mark(std::array<std::uint64_t, 2>{0, prompt_.plain[plain_]});
  }
  template <std::size_t N>
  void mark(const std::array<std::uint64_t, N>& numbers) {
    marks_.add(std::as_bytes(std::span(numbers)));
  }

  const text::Prompt& prompt_;
  store::KeyStream text_, marks_;
  std::size_t done_ = 0, plain_ = 0;
};

// How much of a text an answer spells.
struct Fit {
  std::size_t ids = 0;
  std::size_t bytes = 0;
};

// `message`: the text from the answer's place to the next control token.
Fit fit(const TurnMemory::Answer& answer, std::string_view message, const text::Tokenizer& tokenizer) {
  std::string spelled;
  std::int32_t previous = answer.last;
  const auto ids = std::span(answer.ids).first(answer.plain);
  for (const std::int32_t id : ids) spelled += tokenizer.text_behind(std::exchange(previous, id), id);
  // Clients saw it as UTF-8.
  const std::string shown = unicode::to_valid_utf8(spelled);
  const auto differ = std::mismatch(shown.begin(), shown.end(), message.begin(), message.end());
  const auto common = static_cast<std::size_t>(differ.first - shown.begin());
  const bool whole = shown.find_first_not_of(kWhiteSpace, common) == std::string::npos;
  const auto in_word = [&](std::size_t at) {
    return at > 0 && at < message.size() && is_word(message[at - 1]) && is_word(message[at]);
  };
  const bool parted = !whole && common < message.size();
  if (common == 0 || (!parted && in_word(common))) return {};
  Fit fit;
  std::vector<std::size_t> ends;  // of the pieces, in the message
  previous = answer.last;
  for (const std::int32_t id : ids) {
    const std::string_view piece = tokenizer.text_behind(std::exchange(previous, id), id);
    if (fit.bytes + piece.size() > common || message.substr(fit.bytes, piece.size()) != piece) break;
    fit.bytes += piece.size();
    ++fit.ids;
    ends.push_back(fit.bytes);
  }
  if (parted) {  // what stands around the place where they part is encoded together
    if (fit.ids > 0) --fit.ids;
    while (fit.ids > 0 && in_word(ends[fit.ids - 1])) --fit.ids;
    if (fit.ids < kLeastParted) return {};
    fit.bytes = ends[fit.ids - 1];
  }
  return fit.bytes > 0 ? fit : Fit{};
}

// Without the token that ends it.
std::span<const std::int32_t> answer_of(const text::Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const auto end = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return tokenizer.is_eog(id); });
  return ids.first(static_cast<std::size_t>(end - ids.begin()));
}

class Encoding {
 public:
  Encoding(text::Prompt prompt, const text::Tokenizer& tokenizer, TurnMemory& memory, std::string_view tenant,
           const History* history, std::span<const run::PicturePlace> pictures)
      : prompt_(std::move(prompt)),
        tokenizer_(tokenizer),
        memory_(memory),
        tenant_(tenant),
        history_(history),
        pictures_(pictures),
        keys_(prompt_, memory.secret(), tenant) {}

  EncodedPrompt run() {
    const std::size_t size = prompt_.text.size();
    const std::vector<std::uint64_t> ends = memory_.ends(tenant_);
    std::array<bool, 256> last{};  // bytes that some end has last
    for (const std::uint64_t end : ends) last[last_byte(end)] = true;
    for (std::size_t at = kEnd; at < size; ++at) {
      if (!last[static_cast<unsigned char>(prompt_.text[at - 1])]) continue;
      if (at < encoded_ || std::find(ends.begin(), ends.end(), end_at(at)) == ends.end()) continue;
      take_answer(at);
    }
    encode_to(size);
    EncodedPrompt out;
    if (size >= kEnd && !coded_.ids.empty()) out.place = TurnPlace{keys_.at(size), end_at(size), coded_.ids.back()};
    out.ids = std::move(coded_.ids);
    out.text = spliced_text();
    out.splices = std::move(splices_);
    out.runs = std::move(coded_.runs);
    out.shown = std::move(coded_.shown);
    for (run::PicturePrompt::Shown& s : out.shown) s.begin = out.in_text(s.begin), s.end = out.in_text(s.end);
    out.remembered = remembered_;
    return out;
  }

 private:
  static unsigned char last_byte(std::uint64_t end) {
    unsigned char bytes[kEnd];
    std::memcpy(bytes, &end, kEnd);
    return bytes[kEnd - 1];
  }
  std::uint64_t end_at(std::size_t at) const {
    std::uint64_t end = 0;
    std::memcpy(&end, prompt_.text.data() + at - kEnd, kEnd);
    return end;
  }

  // Puts the ids of an answer that begins at `at` in the place of its text, if there is one.
  void take_answer(std::size_t at) {
    const store::Key key = keys_.at(at);
    const std::vector<TurnMemory::AnswerPtr> answers = memory_.find(key);
    if (answers.empty()) return;
    for (const TurnMemory::AnswerPtr& answer : answers)
      if (splice(key, answer, at)) return;
    const std::size_t end = next_control(at);
    if (end < at) return;
    const std::string_view message = std::string_view(prompt_.text).substr(at, end - at);
    TurnMemory::AnswerPtr best;
    Fit most;
    for (const TurnMemory::AnswerPtr& answer : answers) {
      const Fit f = fit(*answer, message, tokenizer_);
      if (f.bytes <= most.bytes) continue;
      most = f;
      best = answer;
    }
    if (!best) return;
    const auto ids = std::span(best->ids).first(most.ids);
    encode_to(at);
    coded_.ids.insert(coded_.ids.end(), ids.begin(), ids.end());
    encoded_ = at + most.bytes;
    remembered_ += static_cast<std::int64_t>(ids.size());
    keys_.replace(at, encoded_, ids);
    memory_.use(key, best);
  }

  // Puts an answer that the conversation brings back in the place of what the template makes of it.
  bool splice(const store::Key& key, const TurnMemory::AnswerPtr& answer, std::size_t at) {
    if (!history_ || answer->message.empty() || answer->index >= history_->messages.size()) return false;
    if (!is_given(answer->message, history_->messages[answer->index])) return false;
    const std::string_view rest = std::string_view(prompt_.text).substr(at);
    std::size_t size = answer->shown.size();
    const bool known = size > 0 && rest.starts_with(answer->shown);
    if (!known) size = shown_size(answer->index, at);
    if (size == 0) size = shown_with_next(answer->index, at);
    if (size == 0) return false;
    std::string text;
    std::int32_t previous = answer->last;
    for (const std::int32_t id : answer->ids) text += tokenizer_.text_behind(std::exchange(previous, id), id, true);
    // What the template leaves out of earlier turns stays out.
    if (!shows_given(answer->message, rest.substr(0, size), text)) return false;
    if (!known) memory_.show(key, answer, std::string(rest.substr(0, size)));
    encode_to(at);
    coded_.ids.insert(coded_.ids.end(), answer->ids.begin(), answer->ids.end());
    encoded_ = at + size;
    remembered_ += static_cast<std::int64_t>(answer->ids.size());
    keys_.replace(at, encoded_, answer->ids);
    splices_.push_back({at, encoded_, 0, 0});
    texts_.push_back(std::move(text));
    return true;
  }

  // How much of the text from `at` on is message `index`, without what ends it; 0: the template does not show it so.
  std::size_t shown_size(std::size_t index, std::size_t at) const {
    std::string head;
    try {
      head = history_->head(index + 1);
    } catch (const Error&) {
      return 0;
    }
    const std::string& text = prompt_.text;
    const auto differ = std::mismatch(text.begin(), text.end(), head.begin(), head.end());
    std::size_t end = static_cast<std::size_t>(differ.first - text.begin());
    if (end <= at) return 0;
    const text::SpecialMatcher& names = tokenizer_.control_names();
    // Of the control tokens that begin in front of `end` the last one: it ends the message, or the text parts in it.
    text::SpecialMatcher::Match last{0, 0, -1};
    for (auto match = names.next(text, at); match.id >= 0 && match.begin < end;
         match = names.next(text, match.begin + match.size))
      last = match;
    if (last.id >= 0 && last.begin + last.size > end) return last.begin - at;
    const bool whole = end == head.size();
    if (last.id >= 0 && tokenizer_.is_eog(last.id) &&
        text.find_first_not_of(kWhiteSpace, last.begin + last.size) >= end)
      return last.begin - at;
    if (whole) return end - at;
    // Other text follows in the two: the message ends here if a control token begins in both.
    const auto next = names.next(text, end), other = names.next(head, end);
    return next.id >= 0 && next.begin == end && other.id >= 0 && other.begin == end ? end - at : 0;
  }

  // The same of a template that writes the last message in another way (Qwen 3: with empty reasoning): with the message
  // behind it, up to the first control token that ends a text.
  std::size_t shown_with_next(std::size_t index, std::size_t at) const {
    if (index + 2 > history_->messages.size()) return 0;
    std::string head;
    try {
      head = history_->head(index + 2);
    } catch (const Error&) {
      return 0;
    }
    const std::string& text = prompt_.text;
    const auto differ = std::mismatch(text.begin(), text.end(), head.begin(), head.end());
    const std::size_t end = static_cast<std::size_t>(differ.first - text.begin());
    const text::SpecialMatcher& names = tokenizer_.control_names();
    for (auto match = names.next(text, at); match.id >= 0 && match.begin + match.size <= end;
         match = names.next(text, match.begin + match.size))
      if (tokenizer_.is_eog(match.id)) return match.begin - at;
    return 0;
  }

  std::string spliced_text() {
    if (splices_.empty()) return std::move(prompt_.text);
    std::string text;
    std::size_t done = 0;
    for (std::size_t i = 0; i < splices_.size(); ++i) {
      EncodedPrompt::Splice& s = splices_[i];
      text.append(prompt_.text, done, s.from - done);
      s.begin = text.size();
      text += texts_[i];
      s.end = text.size();
      done = s.from_end;
    }
    return text.append(prompt_.text, done);
  }

  // Where the next control token that the template wrote begins, of those that end behind `at`; the text's end if there
  // is none. REQUIRES: `at` ascends.
  std::size_t next_control(std::size_t at) {
    const text::SpecialMatcher& names = tokenizer_.control_names();
    const std::vector<std::size_t>& plain = prompt_.plain;
    const auto is_plain = [&] {
      const auto place = std::lower_bound(plain.begin(), plain.end(), control_.begin);
      return place != plain.end() && *place < control_.begin + control_.size;
    };
    while (control_.id >= 0 && control_.begin + control_.size <= at) {
      control_ = names.next(prompt_.text, std::max(control_.begin + control_.size, encoded_));
      while (control_.id >= 0 && is_plain()) control_ = names.next(prompt_.text, control_.begin + 1);
    }
    return control_.id >= 0 ? control_.begin : prompt_.text.size();
  }

  // Encodes the text up to `end`.
  void encode_to(std::size_t end) {
    if (encoded_ == end) return;
    std::vector<std::size_t> plain;
    for (; plain_ < prompt_.plain.size() && prompt_.plain[plain_] < end; ++plain_)
      if (prompt_.plain[plain_] >= encoded_) plain.push_back(prompt_.plain[plain_] - encoded_);
    const std::string_view part = std::string_view(prompt_.text).substr(encoded_, end - encoded_);
    const bool first = encoded_ == 0;
    std::vector<run::PicturePlace> places;
    for (const run::PicturePlace& p : pictures_)
      if (p.begin >= encoded_ && p.begin < end)
        places.push_back({p.begin - encoded_, p.end - encoded_, p.lead, p.picture});
    coded_.add(tokenizer_, part, encoded_, places,
               {.add_bos = first && tokenizer_.add_bos(),
                .parse_special = true,
                .plain = plain,
                .behind_text = !first && !tokenizer_.is_special(coded_.ids.back())});
    encoded_ = end;
  }

  text::Prompt prompt_;
  const text::Tokenizer& tokenizer_;
  TurnMemory& memory_;
  const std::string_view tenant_;
  const History* history_;  // null: answers come back as text alone
  const std::span<const run::PicturePlace> pictures_;
  std::vector<EncodedPrompt::Splice> splices_;
  std::vector<std::string> texts_;  // of the splices
  PlaceKeys keys_;
  run::PicturePrompt coded_;
  std::size_t encoded_ = 0;  // bytes that it has
  std::size_t plain_ = 0;    // of prompt_.plain that stand before it
  std::int64_t remembered_ = 0;
  text::SpecialMatcher::Match control_{0, 0, 0};  // the last one found; id -1: there is no further one
};

}  // namespace

std::size_t EncodedPrompt::in_template(std::size_t at) const {
  std::size_t added = 0, taken = 0;
  for (const Splice& s : splices) {
    if (at < s.begin) break;
    if (at < s.end) return s.from;
    added += s.end - s.begin;
    taken += s.from_end - s.from;
  }
  return at - added + taken;
}

std::size_t EncodedPrompt::in_text(std::size_t at) const {
  std::size_t added = 0, taken = 0;
  for (const Splice& s : splices) {
    if (at < s.from) break;
    if (at < s.from_end) return s.begin;
    added += s.end - s.begin;
    taken += s.from_end - s.from;
  }
  return at - taken + added;
}

std::string EncodedPrompt::for_people() const {
  std::vector<text::MarkAt> places;
  for (const run::PicturePrompt::Shown& s : shown) places.push_back({s.begin, s.end});
  return text::without_marks(text, places);
}

EncodedPrompt encode_turns(text::Prompt prompt, const text::Tokenizer& tokenizer, TurnMemory& memory,
                           std::string_view tenant, const History* history,
                           std::span<const run::PicturePlace> pictures) {
  return Encoding(std::move(prompt), tokenizer, memory, tenant, history, pictures).run();
}

void remember_turn(TurnMemory& memory, const text::Tokenizer& tokenizer, std::string_view tenant,
                   const EncodedPrompt& prompt, std::span<const std::int32_t> ids) {
  if (!prompt.place) return;
  const auto answer = answer_of(tokenizer, ids);
  const auto control =
      std::find_if(answer.begin(), answer.end(), [&](std::int32_t id) { return tokenizer.is_control(id); });
  memory.remember(tenant, *prompt.place, {answer.begin(), answer.end()},
                  static_cast<std::size_t>(control - answer.begin()));
}

void describe_turn(TurnMemory& memory, const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                   std::span<const std::int32_t> ids, std::span<const std::int32_t> shown, const ChatDelta& given,
                   std::size_t index) {
  if (!prompt.place) return;
  const auto answer = answer_of(tokenizer, ids);
  const auto hidden = [&](std::int32_t id) {
    return tokenizer.is_control(id) && std::find(shown.begin(), shown.end(), id) == shown.end();
  };
  if (std::any_of(answer.begin(), answer.end(), hidden)) return;
  memory.describe(prompt.place->key, answer, given_message(given), index);
}

}  // namespace kvasir::serve
