// The door to the SYCL plug-in where there is none; `./dev sycl` tries the plug-in itself.
#include "device/sycl.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace kvasir::device {
namespace {

std::string refusal(const std::string& device, const std::string& library) {
  try {
    SyclKivi there(device, library);
  } catch (const Error& e) {
    EXPECT_EQ(Code::kUnsupported, e.code());
    return e.what();
  }
  return "";
}

TEST(SyclKivi, SaysHowToBuildAPluginThatIsNotThere) {
  const std::string what = refusal("sycl:cpu", "/nowhere/libkvasir_sycl.so");
  EXPECT_EQ(0u, what.find("device sycl:cpu: ")) << what;
  EXPECT_NE(std::string::npos, what.find("/nowhere/libkvasir_sycl.so")) << what;
  EXPECT_NE(std::string::npos, what.find("`./dev sycl` builds it")) << what;
}

TEST(SyclKivi, RefusesALibraryThatIsNoPlugin) {
  EXPECT_EQ("device sycl: libm.so.6 is no SYCL plug-in of Kvasir: it has no kvasir_sycl_version",
            refusal("sycl", "libm.so.6"));
}

}  // namespace
}  // namespace kvasir::device
