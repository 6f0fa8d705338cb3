#include "device/opencl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/driver.hpp"

namespace kvasir::device {

std::string code_name(cl_int code) {
  struct Name {
    cl_int code;
    const char* name;
  };
  static constexpr Name kNames[] = {{-1, "CL_DEVICE_NOT_FOUND"},       {-2, "CL_DEVICE_NOT_AVAILABLE"},
                                    {-3, "CL_COMPILER_NOT_AVAILABLE"}, {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
                                    {-5, "CL_OUT_OF_RESOURCES"},       {-6, "CL_OUT_OF_HOST_MEMORY"},
                                    {-11, "CL_BUILD_PROGRAM_FAILURE"}, {-30, "CL_INVALID_VALUE"},
                                    {-36, "CL_INVALID_COMMAND_QUEUE"}, {-42, "CL_INVALID_BINARY"},
                                    {-46, "CL_INVALID_KERNEL_NAME"},   {-48, "CL_INVALID_KERNEL"},
                                    {-49, "CL_INVALID_ARG_INDEX"},     {-51, "CL_INVALID_ARG_SIZE"},
                                    {-52, "CL_INVALID_KERNEL_ARGS"},   {-54, "CL_INVALID_WORK_GROUP_SIZE"},
                                    {-61, "CL_INVALID_BUFFER_SIZE"},   {-9999, "illegal access in a kernel"}};
  for (const Name& n : kNames)
    if (n.code == code) return fmt::format("{} ({})", n.name, code);
  return fmt::format("OpenCL error {}", code);
}

// Released with the last object that uses it.
struct Opened {
  Found found;
  void* context = nullptr;
  void* queue = nullptr;
  void* copies = nullptr;             // a queue
  mutable std::vector<void*> events;  // of timed launches
  // Where the driver writes what is read: never the caller's memory, which may be gone when a late answer comes.
  mutable std::vector<std::byte> landing;
  mutable bool hangs = false;

  const Api& api() const { return *found.api; }
  ~Opened() {
    for (void* e : events) api().ReleaseEvent(e);
    if (copies) api().ReleaseCommandQueue(copies);
    if (queue) api().ReleaseCommandQueue(queue);
    if (context) api().ReleaseContext(context);
  }
  void check(cl_int code, const char* call) const {
    if (code == 0) return;
    const bool memory = code == kAllocationFailure || code == kOutOfResources || code == kOutOfHostMemory;
    throw Error(memory ? Code::kMemory : Code::kUnsupported, fmt::format("{}: {}", call, code_name(code)), found.name);
  }
};

Buffer::~Buffer() {
  if (id_ && !context_->hangs) context_->api().ReleaseMemObject(id_);
}
Kernel::~Kernel() {
  if (id_ && !context_->hangs) context_->api().ReleaseKernel(id_);
}
Program::~Program() {
  if (id_ && !context_->hangs) context_->api().ReleaseProgram(id_);
}
Event::~Event() {
  if (id_ && !context_->hangs) context_->api().ReleaseEvent(id_);
}

Kernel Program::kernel(const char* name) const {
  Kernel k;
  cl_int code = 0;
  k.context_ = context_;
  k.id_ = context_->api().CreateKernel(id_, name, &code);
  context_->check(code, "clCreateKernel");
  return k;
}

std::vector<std::byte> Program::binary() const {
  std::size_t size = 0;
  if (context_->api().GetProgramInfo(id_, kProgramBinarySizes, sizeof size, &size, nullptr) != 0) return {};
  std::vector<std::byte> bytes(size);
  std::byte* to = bytes.data();
  if (size == 0 || context_->api().GetProgramInfo(id_, kProgramBinaries, sizeof to, &to, nullptr) != 0) return {};
  return bytes;
}

Context::Context(const Found& found) {
  auto o = std::make_shared<Opened>();
  o->found = found;
  cl_int code = 0;
  o->context = o->api().CreateContext(nullptr, 1, &found.id, nullptr, nullptr, &code);
  o->check(code, "clCreateContext");
  o->queue = o->api().CreateCommandQueue(o->context, found.id, kQueueProfiling, &code);
  o->check(code, "clCreateCommandQueue");
  o->copies = o->api().CreateCommandQueue(o->context, found.id, 0, &code);
  o->check(code, "clCreateCommandQueue");
  opened_ = std::move(o);
}

const Found& Context::device() const { return opened_->found; }

Program Context::compile(const std::string& text, const std::string& options) const {
  const Api& api = opened_->api();
  Program p;
  p.context_ = opened_;
  const char* const lines = text.c_str();
  const char* const list[] = {lines};
  cl_int code = 0;
  p.id_ = api.CreateProgramWithSource(opened_->context, 1, const_cast<const char**>(list), nullptr, &code);
  opened_->check(code, "clCreateProgramWithSource");
  code = api.BuildProgram(p.id_, 1, &opened_->found.id, options.c_str(), nullptr, nullptr);
  std::string log(1 << 16, '\0');
  if (api.GetProgramBuildInfo(p.id_, opened_->found.id, kBuildLog, log.size() - 1, log.data(), nullptr) == 0)
    p.log_ = log.c_str();
  if (code != 0)
    throw Error(Code::kUnsupported,
                fmt::format("clBuildProgram: {} with options {}\n{}", code_name(code), options, p.log_),
                opened_->found.name);
  return p;
}

Program Context::load(std::span<const std::byte> binary, const std::string& options) const {
  const Api& api = opened_->api();
  Program p;
  p.context_ = opened_;
  const std::size_t size = binary.size();
  const auto* bytes = reinterpret_cast<const unsigned char*>(binary.data());
  cl_int status = 0;
  cl_int code = 0;
  p.id_ = api.CreateProgramWithBinary(opened_->context, 1, &opened_->found.id, &size, &bytes, &status, &code);
  if (code != 0 || status != 0 ||
      api.BuildProgram(p.id_, 1, &opened_->found.id, options.c_str(), nullptr, nullptr) != 0)
    return {};
  return p;
}

Buffer Context::make(std::size_t bytes) const {
  Buffer b;
  cl_int code = 0;
  b.context_ = opened_;
  b.size_ = bytes;
  b.id_ = opened_->api().CreateBuffer(opened_->context, kMemoryReadWrite, bytes, nullptr, &code);
  opened_->check(code, "clCreateBuffer");
  const std::uint64_t zero = 0;
  write(b, bytes - std::min<std::size_t>(bytes, sizeof zero), &zero, std::min<std::size_t>(bytes, sizeof zero));
  return b;
}

// OpenCL cannot wait with a deadline: the event is asked. Short ones are spun for, because an answer takes some 10 us.
void Context::wait(void* event, const char* call) const {
  const Api& api = opened_->api();
  if (opened_->hangs) throw Error(Code::kUnsupported, fmt::format("{}: it was given up", call), opened_->found.name);
  const double start = steady_seconds();
  cl_int status = 1;
  const auto ask = [&] {
    const cl_int code = api.GetEventInfo(event, kEventStatus, sizeof status, &status, nullptr);
    return code != 0 ? code : status;
  };
  cl_int code = api.Flush(opened_->queue);
  if (code == 0) code = api.Flush(opened_->copies);
  while (code == 0 && (code = ask()) > 0) {
    code = 0;
    const double waited = steady_seconds() - start;
    if (waited > opened_->found.limits.deadline) {
      opened_->hangs = true;
      new std::shared_ptr<const Opened>(opened_);  // for ever
      throw Error(Code::kUnsupported, fmt::format("{}: no answer within {:g} s", call, opened_->found.limits.deadline),
                  opened_->found.name);
    }
    waited < 2e-4 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  opened_->check(code, call);
}

void Context::wait(const Event& event) const {
  if (event) wait(event.id_, "clGetEventInfo");
}

Event Context::keep(void* event) const {
  Event e;
  e.context_ = opened_;
  e.id_ = event;
  return e;
}

void Context::write(const Buffer& to, std::size_t at, const void* from, std::size_t bytes, bool later) const {
  void* event = nullptr;
  opened_->check(opened_->api().EnqueueWriteBuffer(opened_->queue, to.id_, 0, at, bytes, from, 0, nullptr,
                                                   later ? nullptr : &event),
                 "clEnqueueWriteBuffer");
  const Event done = keep(event);
  if (!later) wait(event, "clEnqueueWriteBuffer");
}

void Context::write_beside(const Buffer& to, const void* from, std::size_t bytes, const Event& after,
                           Event* done) const {
  void* event = nullptr;
  opened_->check(opened_->api().EnqueueWriteBuffer(opened_->copies, to.id_, 0, 0, bytes, from, after ? 1 : 0,
                                                   after ? &after.id_ : nullptr, &event),
                 "clEnqueueWriteBuffer");
  *done = keep(event);
  flush();
}

void Context::read(const Buffer& from, std::size_t at, void* to, std::size_t bytes) const {
  void* event = nullptr;
  if (opened_->landing.size() < bytes) opened_->landing.resize(bytes);
  opened_->check(opened_->api().EnqueueReadBuffer(opened_->queue, from.id_, 0, at, bytes, opened_->landing.data(), 0,
                                                  nullptr, &event),
                 "clEnqueueReadBuffer");
  const Event done = keep(event);
  wait(event, "clEnqueueReadBuffer");
  std::memcpy(to, opened_->landing.data(), bytes);
}

void Context::launch(const Kernel& kernel, std::size_t groups, std::size_t local, std::span<const Argument> arguments,
                     bool timed, const Event& after, Event* done) const {
  const Api& api = opened_->api();
  cl_uint i = 0;
  for (const Argument& a : arguments) {
    opened_->check(api.SetKernelArg(kernel.id_, i++, a.buffer ? sizeof a.buffer->id_ : a.size,
                                    a.buffer ? static_cast<const void*>(&a.buffer->id_) : &a.value),
                   "clSetKernelArg");
  }
  const std::size_t global = groups * local;
  void* event = nullptr;
  opened_->check(api.EnqueueNDRangeKernel(opened_->queue, kernel.id_, 1, nullptr, &global, &local, after ? 1 : 0,
                                          after ? &after.id_ : nullptr, timed || done ? &event : nullptr),
                 "clEnqueueNDRangeKernel");
  if (done)
    *done = keep(event);
  else if (timed)
    opened_->events.push_back(event);
}

void Context::flush() const {
  opened_->check(opened_->api().Flush(opened_->queue), "clFlush");
  opened_->check(opened_->api().Flush(opened_->copies), "clFlush");
}

std::vector<double> Context::finish() const {
  const Api& api = opened_->api();
  opened_->check(api.Finish(opened_->queue), "clFinish");
  std::vector<double> seconds;
  for (void* e : opened_->events) {
    cl_ulong begin = 0;
    cl_ulong end = 0;
    api.GetEventProfilingInfo(e, kEventStart, sizeof begin, &begin, nullptr);
    api.GetEventProfilingInfo(e, kEventEnd, sizeof end, &end, nullptr);
    api.ReleaseEvent(e);
    seconds.push_back(static_cast<double>(end - begin) * 1e-9);
  }
  opened_->events.clear();
  return seconds;
}

}  // namespace kvasir::device
