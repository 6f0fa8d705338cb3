// Many requests on one engine: continuous batching of decode steps with chunked prefill.
//
// One thread runs the engine. In every step each answer that grows gets its next token, and what is left of the step's
// time and token budget is split evenly between the prompts that are being computed, so that a
// long prompt neither stops nor is stopped by short ones, and answers keep their pace beside it. A request is admitted
// in order of arrival, when a sequence is free and the pages that its prompt needs are reserved. Should answers outgrow
// the pages all the same, the youngest request gives its pages back and is computed again later. Law 1 makes all of
// this invisible in what is computed: a prompt's logits are those that it has alone.
//
// With a library, what earlier requests computed is looked up and restored, and what requests compute is offered:
// chunks as they are sealed, tails at the end of the prompt, at the end of the answer, where the request asks for them,
// where it parts from an earlier prompt, and every 1,024 tokens, unless pages suffice. Requests of one tenant that
// begin alike compute the common part once: the later one waits until the earlier one is there, then takes a fork of
// its sequence. Rows that take time to compute, such as a picture's, come from a thread of their own: their prompt
// waits for them, and nobody else does.
//
// What it does is done by parts, each with a file in run/schedule: Admission, Reuse, Sharing, Blending, StepPlanner,
// Speculation, Step, and Lifecycle. All work on Jobs, one for each request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "run/blend.hpp"
#include "run/drafting.hpp"
#include "run/engine.hpp"
#include "run/service.hpp"
#include "store/library.hpp"

namespace kvasir::run {

struct SchedulerOptions {
  std::int32_t running = 8;        // requests that are computed together
  std::int32_t waiting = 256;      // requests in the queue
  std::int32_t step_tokens = 256;  // tokens of one step while answers grow; the engine's chunk when none do
  std::int32_t step_ms = 200;      // that such a step may take, see StepPlanner; 0: any time
  BlendOptions blend;              // a table of its own
  // The self-test of blending runs in the constructor, as it always does with blend.reuse "blend"; else when nothing is
  // computed, once a request has asked for it.
  bool proves_blend = false;
};
const OptionTable<SchedulerOptions>& scheduler_table();

class Scheduler final : public Service {
 public:
  // REQUIRES: the engine was made for sequences_for(options.blend, options.running) sequences, options.running rows of
  // logits, and has its codecs. It must outlive this and is used by nothing else; so must `library`, which may be null:
  // nothing is kept beyond a request then. With `drafting`, made for options.running texts, steps compute draft tokens,
  // too.
  Scheduler(Engine& engine, const SchedulerOptions& options, std::string name, store::Library* library = nullptr,
            Drafting* drafting = nullptr);
  ~Scheduler() override;  // cancels what runs

  const ModelCard& card() const override { return card_; }
  const text::Tokenizer* tokenizer() const override { return engine_.tokenizer(); }
  RequestId submit(ServiceRequest request, std::shared_ptr<Listener> listener) override;
  void cancel(RequestId id) override;
  bool unpin(const ServiceRequest& asked) override;
  bool drain(double seconds) override;
  ServiceStats stats() const override;

 private:
  struct Parts;

  // On the engine's thread.
  void loop();
  void take_arrived();
  void admit();
  void finish_all(Failure failure, const std::string& why);
  void publish();

  Engine& engine_;
  const SchedulerOptions options_;
  store::Library* const library_;
  Drafting* const drafting_;
  ModelCard card_;
  std::unique_ptr<Parts> parts_;
  std::thread thread_;
};

}  // namespace kvasir::run
