// Whether a model's texts may be relocated: a test with a built-in text, run before the first request, or when none
// runs. Pages of a text are read in another order; its keys must be those of the new place, and what the model says
// behind it must be near to what it says when all is computed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/blend.hpp"

namespace kvasir::run {

// The built-in text computed in one way.
struct BlendTrial {
  std::string name;
  float ratio = 0;
  double computed = 0;  // share of the moved passages' rows that is computed
  double kl = 0;        // mean over the rows behind the passages, against computing everything; nats
  double same = 0;      // share of these rows whose likeliest token is the same
};

struct BlendVerdict {
  bool allowed = false;
  float ratio = 0;    // the least one that is good enough: of what was asked, 0.3 and 0.5
  double kl = 0;      // at that ratio
  double turned = 0;  // deviations() in layer 0, whose keys follow from token and position: the codec's error alone
  std::string why;    // what is not allowed; empty when all is
  double seconds = 0;
  std::vector<BlendTrial> trials;
};

inline constexpr double kMostBlendedKl = 0.1;  // nats, of the built-in text
inline constexpr double kMostTurned = 0.3;     // of keys and values stored in two bits; wrongly turned ones are above 1

// What a verdict without its trials is kept as, and back; nothing: not one of these options, or of another test.
std::string to_note(const BlendVerdict& verdict, const BlendOptions& options);
std::optional<BlendVerdict> from_note(std::string_view note, const BlendOptions& options);

// The test in parts, between which the engine is free for others.
class BlendTest {
 public:
  // `ratios`: tried besides, for a table; then all are.
  BlendTest(Engine& engine, const BlendOptions& options, std::vector<float> ratios = {});
  ~BlendTest();
  BlendTest(const BlendTest&) = delete;
  BlendTest& operator=(const BlendTest&) = delete;

  // Goes on until the verdict is there, which is true, or go_on() is not: it is asked before every few tokens. Then the
  // next call begins with the part that was not done. Throws Error(kMemory) when sequences or pages do not suffice now.
  bool run(const std::function<bool()>& go_on);
  const BlendVerdict& verdict() const { return verdict_; }

 private:
  struct Trial;
  void judge();

  Engine& engine_;
  const BlendOptions options_;
  const bool table_;
  BlendVerdict verdict_;
  std::vector<BlendOptions> left_;  // to be tried, the next one last
  std::unique_ptr<Trial> trial_;
  bool turned_ = false, over_ = false;
};

// All of it at once.
BlendVerdict test_blend(Engine& engine, const BlendOptions& options, std::vector<float> ratios = {});

}  // namespace kvasir::run
