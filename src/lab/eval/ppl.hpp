// Perplexity of a text under each choice of codecs, and how far its next-token distributions lie from those of an f32
// cache of the same tokens.
//
// The convention is that of llama.cpp's perplexity tool: the text, with BOS in front if the model wants one, is cut
// into windows of ctx tokens that are evaluated from an empty cache; BOS also takes the place of each window's first
// token; the second half of a window is scored, tokens ctx / 2 + 1 .. ctx - 1, each given all before it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval {

struct PplRow {
  std::string kv;
  std::string note;  // what "auto" chose
  KvCost cost;
  double nll = 0;  // mean over the scored tokens, nats
  double ppl = 0;
  double nll_difference = 0;        // mean of (this - f32) per token
  double nll_difference_error = 0;  // its paired standard error
  double kl_mean = 0, kl_p99 = 0;   // KL(f32 || this) per token, nats
  std::vector<double> curve;        // nll by the place in the window, see PplReport::places
  double top1 = 0;                  // share of tokens whose most probable token is f32's
  double ppl_change() const;        // relative to f32: 0.01 is one per cent worse
  double ppl_change_error() const;
};

struct PplReport {
  std::int64_t windows = 0;
  std::int64_t scored = 0;  // tokens
  bool bos = false;
  double sealed_share = 0;  // of the tokens that the scored positions attend to, how many were sealed
  double baseline_ppl = 0;  // of f32
  // Of a curve: its parts of a window end before these places, and f32's nll in each; empty: none was asked for.
  std::vector<std::int64_t> places;
  std::vector<double> baseline_curve;
  std::vector<PplRow> rows;
};

// The tokens of a text as the convention above wants them.
std::vector<std::int32_t> ppl_tokens(const text::Tokenizer& tokenizer, const std::string& text);

// How many windows `tokens` tokens of a text make; throws Error(kBadInput) naming `source` when there is not even one.
// most > 0: no more tokens than that.
std::int64_t count_windows(std::int64_t tokens, std::int64_t ctx, std::int64_t most, const std::string& source);

struct PplScoring {
  // The scored half is fed token by token as if it had been generated, so that the products on packed bytes are
  // measured, which prompts do not use.
  bool decode = false;
  bool curve = false;  // windows are scored from their first token on, and by kCurveParts parts of them
};
inline constexpr std::int64_t kCurveParts = 16;

// REQUIRES: subject is loaded, ids fill `windows` windows. poll(done, total) in scored tokens may throw to stop.
// so_far: called after every window but the last with the report of what is scored.
PplReport measure_ppl(Subject& subject, std::span<const std::int32_t> ids, std::int64_t windows, PplScoring how,
                      const std::function<void(std::int64_t, std::int64_t)>& poll,
                      const std::function<void(const PplReport&)>& so_far = {});

}  // namespace kvasir::lab::eval
