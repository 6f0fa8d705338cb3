// How long tests wait for what has to come.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>

namespace kvasir {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Only what hangs takes this long, also on a machine that is busy with other things; ThreadSanitizer alone makes
// generating about 15 times slower.
constexpr std::chrono::seconds kPatience{kSanitized ? 900 : 60};

// What every thread of this process does: its name, its state and processor time, where it waits in the system and with
// which call (proc(5): stat, wchan, syscall), and the system's own stack where it may be read.
inline std::string threads_now() {
  const std::string tasks = "/proc/self/task/";
  std::string text;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(tasks.c_str()), &closedir);
  while (const dirent* const entry = folder ? readdir(folder.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name[0] == '.') continue;
    text += "thread " + name + "\n";
    for (const char* what : {"stat", "wchan", "syscall", "stack"}) {
      std::ifstream file(tasks + name + "/" + what);
      text += "  " + std::string(what) + ": " + std::string(std::istreambuf_iterator<char>(file), {}) + "\n";
    }
  }
  return text;
}

// Waits for what has to come. A test fails that waited longer than kPatience, and says what all threads did. The
// program ends if it does not come for as long again, with what they do then: what it would be written to goes with
// the test.
template <class Arrived>
void wait_patiently(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Arrived arrived) {
  if (changed.wait_for(lock, kPatience, arrived)) return;
  ADD_FAILURE() << "waited for " << kPatience.count() << " s\n" << threads_now();
  if (changed.wait_for(lock, kPatience, arrived)) return;
  std::fprintf(stderr, "waited for %lld s in vain\n%s", 2 * static_cast<long long>(kPatience.count()),
               threads_now().c_str());
  std::abort();
}

}  // namespace kvasir
