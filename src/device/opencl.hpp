// What of OpenCL is used: our own declarations of its functions, and the constants that they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace kvasir::device {

using cl_int = std::int32_t;
using cl_uint = std::uint32_t;
using cl_ulong = std::uint64_t;

// Name, place in the dispatch table that every object of a driver begins with, type.
#define KVASIR_OPENCL_FUNCTIONS(F)                                                                           \
  F(GetPlatformInfo, 1, cl_int (*)(void*, cl_uint, std::size_t, void*, std::size_t*))                        \
  F(GetDeviceIDs, 2, cl_int (*)(void*, cl_ulong, cl_uint, void**, cl_uint*))                                 \
  F(GetDeviceInfo, 3, cl_int (*)(void*, cl_uint, std::size_t, void*, std::size_t*))                          \
  F(CreateContext, 4, void* (*)(const void*, cl_uint, void* const*, const void*, void*, cl_int*))            \
  F(ReleaseContext, 7, cl_int (*)(void*))                                                                    \
  F(CreateCommandQueue, 9, void* (*)(void*, void*, cl_ulong, cl_int*))                                       \
  F(ReleaseCommandQueue, 11, cl_int (*)(void*))                                                              \
  F(CreateBuffer, 14, void* (*)(void*, cl_ulong, std::size_t, void*, cl_int*))                               \
  F(ReleaseMemObject, 18, cl_int (*)(void*))                                                                 \
  F(CreateProgramWithSource, 26, void* (*)(void*, cl_uint, const char**, const std::size_t*, cl_int*))       \
  F(CreateProgramWithBinary, 27,                                                                             \
    void* (*)(void*, cl_uint, void* const*, const std::size_t*, const unsigned char**, cl_int*, cl_int*))    \
  F(ReleaseProgram, 29, cl_int (*)(void*))                                                                   \
  F(BuildProgram, 30, cl_int (*)(void*, cl_uint, void* const*, const char*, void*, void*))                   \
  F(GetProgramInfo, 32, cl_int (*)(void*, cl_uint, std::size_t, void*, std::size_t*))                        \
  F(GetProgramBuildInfo, 33, cl_int (*)(void*, void*, cl_uint, std::size_t, void*, std::size_t*))            \
  F(CreateKernel, 34, void* (*)(void*, const char*, cl_int*))                                                \
  F(ReleaseKernel, 37, cl_int (*)(void*))                                                                    \
  F(SetKernelArg, 38, cl_int (*)(void*, cl_uint, std::size_t, const void*))                                  \
  F(GetEventInfo, 42, cl_int (*)(void*, cl_uint, std::size_t, void*, std::size_t*))                          \
  F(ReleaseEvent, 44, cl_int (*)(void*))                                                                     \
  F(GetEventProfilingInfo, 45, cl_int (*)(void*, cl_uint, std::size_t, void*, std::size_t*))                 \
  F(Flush, 46, cl_int (*)(void*))                                                                            \
  F(Finish, 47, cl_int (*)(void*))                                                                           \
  F(EnqueueReadBuffer, 48,                                                                                   \
    cl_int (*)(void*, void*, cl_uint, std::size_t, std::size_t, void*, cl_uint, void* const*, void**))       \
  F(EnqueueWriteBuffer, 49,                                                                                  \
    cl_int (*)(void*, void*, cl_uint, std::size_t, std::size_t, const void*, cl_uint, void* const*, void**)) \
  F(EnqueueNDRangeKernel, 59,                                                                                \
    cl_int (*)(void*, void*, cl_uint, const std::size_t*, const std::size_t*, const std::size_t*, cl_uint,   \
               void* const*, void**))

struct Api {
#define KVASIR_FUNCTION(name, slot, ...) std::type_identity_t<__VA_ARGS__> name = nullptr;
  KVASIR_OPENCL_FUNCTIONS(KVASIR_FUNCTION)
#undef KVASIR_FUNCTION
};

inline constexpr cl_int kOutOfResources = -5, kOutOfHostMemory = -6, kAllocationFailure = -4, kBuildFailure = -11;
inline constexpr cl_uint kPlatformName = 0x0902, kPlatformVersion = 0x0901;
inline constexpr cl_ulong kAllDevices = 0xffffffff;
inline constexpr cl_uint kDeviceType = 0x1000, kDeviceUnits = 0x1002, kDeviceWorkGroup = 0x1004,
                         kDeviceAllocation = 0x1010, kDeviceFloat = 0x101b, kDeviceMemory = 0x101f,
                         kDeviceLocal = 0x1023, kDeviceLittle = 0x1026, kDeviceAvailable = 0x1027,
                         kDeviceCompiler = 0x1028, kDeviceName = 0x102b, kDeviceVendor = 0x102c,
                         kDriverVersion = 0x102d, kDeviceVersion = 0x102f, kDeviceExtensions = 0x1030;
inline constexpr cl_ulong kTypeCpu = 2, kTypeGpu = 4;
inline constexpr cl_ulong kFloatSubnormals = 1, kFloatNearest = 4, kFloatExactDivision = 128;
inline constexpr cl_ulong kQueueProfiling = 2;
inline constexpr cl_ulong kMemoryReadWrite = 1;
inline constexpr cl_uint kProgramBinarySizes = 0x1165, kProgramBinaries = 0x1166, kBuildLog = 0x1183;
inline constexpr cl_uint kEventStatus = 0x11d3, kEventStart = 0x1282, kEventEnd = 0x1283;

// "CL_OUT_OF_RESOURCES (-5)"
std::string code_name(cl_int code);

}  // namespace kvasir::device
