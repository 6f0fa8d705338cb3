// What tokenizer.json does to a text before its model sees it, as written there: a normalizer and a pre-tokenizer.
// Semantics: Hugging Face tokenizers 0.23. No step looks at a character more than a bounded number of times.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text {

using StepJson = nlohmann::json;

// A part of the text. `first`: it stands at the very beginning.
struct StepPiece {
  std::string text;
  bool first = false;
};

class Steps {
 public:
  // Either may be null. Throws Error naming `context`, the field and the expectation: kUnsupported for a step, or a
  // pattern, that is not known here.
  Steps(const StepJson& normalizer, const StepJson& pre_tokenizer, const std::string& context);

  // `first`: nothing stands in front of the text. No piece is empty.
  std::vector<StepPiece> pieces(std::string_view text, bool first) const;

  // Whether spaces become signs that stand in front of words, of which the first word has one too.
  bool marks_first() const { return marks_first_; }

 private:
  using Normal = std::function<std::string(std::string)>;
  using Cut = std::function<void(std::vector<StepPiece>&)>;

  void add_normal(const StepJson& step, const std::string& context);
  void add_cut(const StepJson& step, const std::string& context);

  std::vector<Normal> normal_;
  std::vector<Cut> cuts_;
  bool marks_first_ = false;
};

}  // namespace kvasir::text
