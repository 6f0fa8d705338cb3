// Finding devices and keeping programs. What needs a device says SKIPPED where there is none.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/error.hpp"
#include "device/driver.hpp"
#include "device/programs.hpp"

namespace kvasir::device {
namespace {

TEST(Survey, WithoutALibrarySaysWhatItTried) {
  const Survey s = survey({"libNoSuchLoader.so.9", {"libNoSuchDriver.so.9"}});
  EXPECT_TRUE(s.devices.empty());
  ASSERT_EQ(2u, s.tried.size());
  EXPECT_NE(s.tried[0].find("libNoSuchLoader.so.9"), std::string::npos) << s.tried[0];
  for (const char* name : {"gpu", "opencl", "opencl:0"}) try {
      choose(s, name);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(Code::kUnsupported, e.code());
      EXPECT_NE(std::string(e.what()).find("libNoSuchDriver.so.9"), std::string::npos) << e.what();
    }
}

TEST(Survey, ALibraryThatIsNoDriverIsNamed) {
  const Survey s = survey({"libm.so.6", {"libm.so.6"}});
  EXPECT_TRUE(s.devices.empty());
  ASSERT_EQ(2u, s.tried.size());
  EXPECT_NE(s.tried[0].find("no clGetPlatformIDs"), std::string::npos) << s.tried[0];
  EXPECT_NE(s.tried[1].find("no clIcdGetPlatformIDsKHR"), std::string::npos) << s.tried[1];
}

TEST(Survey, NamesAreChecked) {
  for (const char* name : {"", "mps", "opencl:", "opencl:x", "opencl:9999", "gpu:0", "xpu:", "cuda:x", "xpus"}) try {
      choose(survey({"", {}}), name);
      FAIL() << name;
    } catch (const Error& e) {
      EXPECT_EQ(Code::kBadInput, e.code()) << name;
    }
}

TEST(Survey, TorchsNamesAreGpusByMaker) {
  Survey s;
  for (const auto& [name, vendor, kind] : {std::array{"pocl", "Intel(R) Corporation", "cpu"},
                                           {"H200", "NVIDIA Corporation", "gpu"},
                                           {"B580", "Intel(R) Corporation", "gpu"},
                                           {"B60", "Intel(R) Corporation", "gpu"}}) {
    Found f;
    f.name = name, f.vendor = vendor, f.kind = kind;
    s.devices.push_back(f);
  }
  EXPECT_EQ("", torch_name(s, 0));
  EXPECT_EQ("cuda:0", torch_name(s, 1));
  EXPECT_EQ("xpu:1", torch_name(s, 3));
  EXPECT_EQ("H200", choose(s, "cuda").name);
  EXPECT_EQ("H200", choose(s, "cuda:0").name);
  EXPECT_EQ("B580", choose(s, "xpu").name);
  EXPECT_EQ("B60", choose(s, "xpu:1").name);
  s.devices[3].refused = "no compiler";
  const auto what = [&](const char* name) {
    try {
      return choose(s, name).name;
    } catch (const Error& e) {
      EXPECT_EQ(Code::kUnsupported, e.code());
      return std::string(e.what());
    }
  };
  EXPECT_NE(what("xpu:1").find("B60: no compiler"), std::string::npos) << what("xpu:1");
  EXPECT_NE(what("cuda:1").find("there are fewer than 2 GPUs of NVIDIA"), std::string::npos) << what("cuda:1");
  s.devices.clear();
  EXPECT_NE(what("xpu").find("there is no GPU of Intel"), std::string::npos) << what("xpu");
}

const char kDouble[] = "__kernel void twice(__global int* p) { p[get_global_id(0)] *= 2; }";

int twice_of(const Context& context, const Program& program, int x) {
  const Kernel kernel = program.kernel("twice");
  const Buffer b = context.make(64);
  context.write(b, 0, &x, sizeof x);
  const Argument arguments[] = {b};
  context.launch(kernel, 1, 1, arguments, true);
  EXPECT_EQ(1u, context.finish().size());
  context.read(b, 0, &x, sizeof x);
  return x;
}

// The loader's device and, from the driver's own table of functions, the same without a loader.
TEST(Context, ComputesThroughTheLoaderAndWithoutOne) {
  int found = 0;
  for (const Places& where : {Places{"libOpenCL.so.1", {}}, Places{"", Places{}.drivers}}) {
    const Survey s = survey(where);
    for (const Found& f : s.devices) {
      if (!f.refused.empty()) continue;
      ++found;
      const Context context(f);
      EXPECT_EQ(42, twice_of(context, context.compile(kDouble, kOptions), 21)) << f.name << " of " << f.library;
    }
  }
  if (!found) GTEST_SKIP() << "SKIPPED: no OpenCL device";
}

// tests/oclgrind_test.sh has it write behind the buffer, and all items to one number, to see that this is seen.
TEST(Context, ItemsWriteTheirNumbers) {
  std::unique_ptr<Context> context;
  try {
    context = std::make_unique<Context>(choose(survey(), "opencl"));
  } catch (const Error& e) {
    GTEST_SKIP() << "SKIPPED: " << e.what();
  }
  const bool wrong = std::getenv("KVASIR_BROKEN_KERNEL") != nullptr;
  const std::string text =
      wrong ? "__kernel void items(__global int* p) { p[0] = (int)get_global_id(0); p[15 + get_global_id(0)] = 1; }"
            : "__kernel void items(__global int* p) { p[get_global_id(0)] = (int)get_global_id(0); }";
  const Kernel kernel = context->compile(text, kOptions).kernel("items");
  const Buffer b = context->make(64);
  const Argument arguments[] = {b};
  context->launch(kernel, 2, 8, arguments);
  std::array<int, 16> got{};
  context->read(b, 0, got.data(), 64);
  for (int i = 0; i < 16 && !wrong; ++i) EXPECT_EQ(i, got[static_cast<std::size_t>(i)]);
}

TEST(Context, ATextThatDoesNotCompileComesWithTheLog) {
  const Survey s = survey();
  if (s.devices.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  const Context context(s.devices.front());
  try {
    context.compile("__kernel void wrong(__global int* p) { p[0] = no_such_name; }", kOptions);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no_such_name"), std::string::npos) << e.what();
  }
}

TEST(Programs, AreKeptAndMadeAnewWhenDamaged) {
  const Survey s = survey();
  if (s.devices.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  const Context context(s.devices.front());
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kvasir_programs_" + std::to_string(getpid()));
  const auto again = [&](int compiled, int loaded) {
    Programs programs(folder.string());
    EXPECT_EQ(42, twice_of(context, programs.get(context, kDouble), 21));
    EXPECT_EQ(compiled, programs.compiled());
    EXPECT_EQ(loaded, programs.loaded());
  };
  again(1, 0);
  again(0, 1);
  const std::filesystem::path file = std::filesystem::directory_iterator(folder)->path();
  const auto size = std::filesystem::file_size(file);
  for (const auto at : {std::uintmax_t{3}, std::uintmax_t{9}, std::uintmax_t{50}, size - 1}) {
    std::fstream f(file, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(static_cast<std::streamoff>(at));
    const int c = f.get();
    f.seekp(static_cast<std::streamoff>(at));
    f.put(static_cast<char>(c ^ 1));
    f.close();
    again(1, 0);
    again(0, 1);
  }
  std::filesystem::resize_file(file, size / 2);
  again(1, 0);
  std::filesystem::resize_file(file, 5);
  again(1, 0);
  Programs others(folder.string());  // another key
  (void)others.get(context, kDouble, std::string(kOptions) + " -DX");
  EXPECT_EQ(1, others.compiled());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvasir::device
