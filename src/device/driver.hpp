// Devices that compute beside the processor, through OpenCL 1.2. This folder alone knows of it, and needs nothing of it
// to be built: functions are looked up when they are asked for, and where there is no library there are no devices.
//
//   survey()            what is there, what was tried, why something cannot be used
//   Context             one opened device: memory, programs, a queue in order, and one of copies beside it
//
// Everything that fails throws Error(kUnsupported) or Error(kMemory) that names the call, the code and the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvasir::device {

struct Limits {
  std::uint64_t memory = 0;        // bytes
  std::uint64_t allocation = 0;    // of one buffer, at most
  std::uint64_t local_memory = 0;  // of a work group
  std::size_t work_group = 0;      // work items of one, at most
  unsigned units = 0;
  bool exact_division = false;  // / and sqrt are rounded correctly when asked for
  double deadline = 20;         // seconds that a command may take before the device counts as lost
  bool integer_dots = false;    // it reports sums of four products of bytes (cl_khr_integer_dot_product)
  bool in_line_ptx = false;     // the compiler takes NVIDIA's assembler: the tensor cores' products
};

struct Found {
  std::string name;      // "NVIDIA H200"
  std::string platform;  // "NVIDIA CUDA"
  std::string vendor;
  std::string driver;   // its version
  std::string library;  // through which it was found
  std::string kind;     // "gpu", "cpu", "accelerator"
  Limits limits;
  std::string refused;  // why it cannot be used; empty: it can
  // For Context alone.
  std::shared_ptr<const struct Api> api;
  void* platform_id = nullptr;
  void* id = nullptr;
};

struct Survey {
  std::vector<Found> devices;      // opencl:N is the Nth
  std::vector<std::string> tried;  // one line for each library: what it gave, or why it gave nothing
};

// Where to look. `loader` lists the drivers that are registered (ICD files); behind it each library of `drivers` is
// asked itself when no registered platform is its own, so that a container without such files has its devices, too.
struct Places {
  std::string loader = "libOpenCL.so.1";
  std::vector<std::string> drivers = {"libnvidia-opencl.so.1", "libamdocl64.so",
                                      "/usr/lib/x86_64-linux-gnu/intel-opencl/libigdrcl.so", "libpocl.so.2"};
};
// KVASIR_OPENCL=LIBRARY: that loader or driver and no other. "none": nothing is looked for.
Places places();
Survey survey(const Places& where = places());

// "gpu": the first GPU, "opencl": the first device, "opencl:N"; as torch names them "xpu" and "xpu:N": a GPU of Intel,
// "cuda" and "cuda:N": of NVIDIA. Throws Error(kUnsupported) that says what was tried.
const Found& choose(const Survey& survey, const std::string& name);

// The name that choose takes for a GPU of Intel or NVIDIA besides: "xpu:0", "cuda:1"; empty: it is none.
std::string torch_name(const Survey& survey, std::size_t index);

class Context;

// Device memory.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();
  std::size_t size() const { return size_; }
  explicit operator bool() const { return id_ != nullptr; }

 private:
  friend class Context;
  void swap(Buffer& other) noexcept {
    std::swap(context_, other.context_), std::swap(id_, other.id_), std::swap(size_, other.size_);
  }
  std::shared_ptr<const struct Opened> context_;
  void* id_ = nullptr;
  std::size_t size_ = 0;
};

// A program's entry, with the last arguments that it was given.
class Kernel {
 public:
  Kernel() = default;
  Kernel(Kernel&& other) noexcept { swap(other); }
  Kernel& operator=(Kernel&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Kernel();
  explicit operator bool() const { return id_ != nullptr; }

 private:
  friend class Context;
  friend class Program;
  void swap(Kernel& other) noexcept { std::swap(context_, other.context_), std::swap(id_, other.id_); }
  std::shared_ptr<const struct Opened> context_;
  void* id_ = nullptr;
};

class Program {
 public:
  Program() = default;
  Program(Program&& other) noexcept { swap(other); }
  Program& operator=(Program&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Program();
  explicit operator bool() const { return id_ != nullptr; }
  Kernel kernel(const char* name) const;
  std::vector<std::byte> binary() const;
  const std::string& log() const { return log_; }  // of the compiler

 private:
  friend class Context;
  void swap(Program& other) noexcept {
    std::swap(context_, other.context_), std::swap(id_, other.id_), std::swap(log_, other.log_);
  }
  std::shared_ptr<const struct Opened> context_;
  void* id_ = nullptr;
  std::string log_;
};

// The end of something that was queued.
class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept { swap(other); }
  Event& operator=(Event&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Event();
  explicit operator bool() const { return id_ != nullptr; }

 private:
  friend class Context;
  void swap(Event& other) noexcept { std::swap(context_, other.context_), std::swap(id_, other.id_); }
  std::shared_ptr<const struct Opened> context_;
  void* id_ = nullptr;
};

// An argument of a kernel: a buffer or a number of 32 or 64 bits.
struct Argument {
  const Buffer* buffer = nullptr;
  std::uint64_t value = 0;
  std::size_t size = 0;
  Argument(const Buffer& b) : buffer(&b) {}
  Argument(std::int32_t v) : value(static_cast<std::uint32_t>(v)), size(4) {}
  Argument(std::uint32_t v) : value(v), size(4) {}
  Argument(std::uint64_t v) : value(v), size(8) {}
};

class Context {
 public:
  explicit Context(const Found& found);

  const Found& device() const;

  // Compiles text. The error carries the compiler's log.
  Program compile(const std::string& text, const std::string& options) const;
  // From what binary() gave. A program that is false: the driver refused it.
  Program load(std::span<const std::byte> binary, const std::string& options) const;

  // REQUIRES: bytes > 0. The memory is touched and waited for, because drivers promise more than there is.
  Buffer make(std::size_t bytes) const;
  // Copies wait for nothing and are waited for; `later`: the caller keeps `from` until the next finish() or read. What
  // takes longer than Limits::deadline is an Error(kUnsupported): then nothing of the context is used or freed any
  // more, because the driver may still write.
  void write(const Buffer& to, std::size_t at, const void* from, std::size_t bytes, bool later = false) const;
  void read(const Buffer& from, std::size_t at, void* to, std::size_t bytes) const;

  // A copy in a queue of its own, beside launches and other copies: it begins when `after` has ended, where there is
  // such an event, and `done` is its end. REQUIRES: `from` stays as it is until then
  void write_beside(const Buffer& to, const void* from, std::size_t bytes, const Event& after, Event* done) const;

  // Queues `groups` work groups of `local` items behind what was queued before and, where there is such an event, what
  // `after` is the end of. Seconds by the device's clock are kept when `timed`, and without `done`, which is its end.
  void launch(const Kernel& kernel, std::size_t groups, std::size_t local, std::span<const Argument> arguments,
              bool timed = false, const Event& after = {}, Event* done = nullptr) const;
  // As write waits, with its deadline.
  void wait(const Event& event) const;
  // Makes the device begin with what was queued.
  void flush() const;
  // Waits for everything; seconds of the launches that were timed since the last call.
  std::vector<double> finish() const;

 private:
  void wait(void* event, const char* call) const;
  Event keep(void* event) const;

  std::shared_ptr<const struct Opened> opened_;
};

}  // namespace kvasir::device
