// For tests: reads that fail, end early, wait or give other bytes.
#pragma once

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "weights/packed_file.hpp"
#include "weights/reads.hpp"

namespace kvasir::weights::testing {

struct Fault {
  enum class Kind { kNone, kError, kShort, kEnd, kFlip, kSlow };
};

// `fault` says what happens to a read.
class FaultyReads final : public Reads {
 public:
  FaultyReads(std::unique_ptr<Reads> reads, std::function<Fault::Kind(const ReadRequest&)> fault)
      : reads_(std::move(reads)), fault_(std::move(fault)) {}
  void start(const ReadRequest& request) override {
    const Fault::Kind kind = fault_(request);
    ReadRequest r = request;
    if (kind == Fault::Kind::kShort && r.bytes > kBlockAlign)
      r.bytes = (r.bytes / 2 + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
    requests_[request.tag] = {request, kind};
    reads_->start(r);
  }
  ReadAnswer wait() override {
    ReadAnswer a = reads_->wait();
    const auto& [request, kind] = requests_[a.tag];
    switch (kind) {
      case Fault::Kind::kError:
        a.result = -EIO;
        break;
      case Fault::Kind::kEnd:
        a.result = 0;
        break;
      case Fault::Kind::kFlip:
        request.to[request.bytes / 2] ^= std::byte{4};
        break;
      case Fault::Kind::kSlow:
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        break;
      case Fault::Kind::kNone:
      case Fault::Kind::kShort:
        break;
    }
    return a;
  }
  std::string name() const override { return "faulty " + reads_->name(); }

 private:
  std::unique_ptr<Reads> reads_;
  std::function<Fault::Kind(const ReadRequest&)> fault_;
  std::map<std::uint64_t, std::pair<ReadRequest, Fault::Kind>> requests_;
};

}  // namespace kvasir::weights::testing
