// Text of a prompt that is known at another place is read there (run/blend.hpp), if the model passed a test
// (run/blend_gate.hpp), the request asks for it and it pays.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "run/blend.hpp"
#include "run/blend_gate.hpp"
#include "run/schedule/job.hpp"

namespace kvasir::run {

class Blending {
 public:
  // All but the options must outlive this. library: null, and nothing is known.
  Blending(Engine& engine, const BlendOptions& options, store::Library* library);

  BlendOptions options_of(const ServiceRequest& asked) const;  // as the request wants them
  bool wants(const Job& job) const;
  bool reads_moved(const Job& job) const { return unfit_.empty() && wants(job); }
  // The job's sequence has what is known exactly. From there on known text is read where it is, if that pays; else the
  // receipt says why not. token_seconds: of a token that is computed.
  void blend(Job& job, double token_seconds);

  // Runs the test before the first request, if the options say "blend", or `always`.
  void prove_first(bool always);
  bool to_prove() const { return test_ != nullptr; }  // a request has asked, and there is no verdict
  // Runs the test as far as go_on() lets it. No request runs meanwhile: none waits for it. REQUIRES: to_prove().
  void prove(const std::function<bool()>& go_on);

 private:
  bool recall();  // whether the verdict is there, or was kept in a tier; otherwise the test is to be run
  void relocate(Job& job);

  Engine& engine_;
  const BlendOptions options_;
  store::Library* const library_;
  const std::string unfit_;  // why nothing is relocated with this model; empty: it can be
  std::optional<BlendVerdict> verdict_;
  std::unique_ptr<BlendTest> test_;  // that is to be run, or to go on
  std::string proof_failed_;         // why it could not be run the last time
};

}  // namespace kvasir::run
