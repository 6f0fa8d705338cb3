#include "serve/turns.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "text/prompt.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::serve {
namespace {

constexpr std::size_t kEnd = sizeof(TurnPlace::end);
constexpr const char* kWhiteSpace = " \t\r\n\f\v";

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
  for (const std::int32_t id : answer.ids) spelled += tokenizer.text_behind(std::exchange(previous, id), id);
  // Clients saw it as UTF-8.
  const std::string shown = unicode::to_valid_utf8(spelled);
  const auto differ = std::mismatch(shown.begin(), shown.end(), message.begin(), message.end());
  const auto common = static_cast<std::size_t>(differ.first - shown.begin());
  const bool whole = shown.find_first_not_of(kWhiteSpace, common) == std::string::npos;
  if (common == 0 || (!whole && common < message.size())) return {};
  if (common < message.size() && is_word(message[common - 1]) && is_word(message[common])) return {};
  Fit fit;
  previous = answer.last;
  for (const std::int32_t id : answer.ids) {
    const std::string_view piece = tokenizer.text_behind(std::exchange(previous, id), id);
    if (fit.bytes + piece.size() > common || message.substr(fit.bytes, piece.size()) != piece) break;
    fit.bytes += piece.size();
    ++fit.ids;
  }
  return fit.bytes > 0 ? fit : Fit{};
}

class Encoding {
 public:
  Encoding(text::Prompt prompt, const text::Tokenizer& tokenizer, TurnMemory& memory, std::string_view tenant)
      : prompt_(std::move(prompt)),
        tokenizer_(tokenizer),
        memory_(memory),
        tenant_(tenant),
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
    if (size >= kEnd && !ids_.empty()) out.place = TurnPlace{keys_.at(size), end_at(size), ids_.back()};
    out.ids = std::move(ids_);
    out.text = std::move(prompt_.text);
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
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    encoded_ = at + most.bytes;
    remembered_ += static_cast<std::int64_t>(ids.size());
    keys_.replace(at, encoded_, ids);
    memory_.use(key, best);
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
    const std::vector<std::int32_t> ids =
        text::encode_prompt(tokenizer_, part,
                            {.add_bos = first && tokenizer_.add_bos(),
                             .parse_special = true,
                             .plain = plain,
                             .behind_text = !first && !tokenizer_.is_special(ids_.back())});
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    encoded_ = end;
  }

  text::Prompt prompt_;
  const text::Tokenizer& tokenizer_;
  TurnMemory& memory_;
  const std::string_view tenant_;
  PlaceKeys keys_;
  std::vector<std::int32_t> ids_;
  std::size_t encoded_ = 0;  // bytes that ids_ spell
  std::size_t plain_ = 0;    // of prompt_.plain that stand before it
  std::int64_t remembered_ = 0;
  text::SpecialMatcher::Match control_{0, 0, 0};  // the last one found; id -1: there is no further one
};

}  // namespace

EncodedPrompt encode_turns(text::Prompt prompt, const text::Tokenizer& tokenizer, TurnMemory& memory,
                           std::string_view tenant) {
  return Encoding(std::move(prompt), tokenizer, memory, tenant).run();
}

void remember_turn(TurnMemory& memory, const text::Tokenizer& tokenizer, std::string_view tenant,
                   const EncodedPrompt& prompt, std::span<const std::int32_t> ids) {
  if (!prompt.place) return;
  const auto end = std::find_if(ids.begin(), ids.end(),
                                [&](std::int32_t id) { return tokenizer.is_control(id) || tokenizer.is_eog(id); });
  memory.remember(tenant, *prompt.place, {ids.begin(), end});
}

}  // namespace kvasir::serve
