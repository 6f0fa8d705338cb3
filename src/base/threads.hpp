// Threads that are started together and joined together.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace kvasir {

inline void join_all(std::vector<std::thread>& threads) {
  for (std::thread& t : threads) t.join();
  threads.clear();
}

// Makes `count` threads of f(i), i in [0, count). When the system refuses one, those that run are joined once `stop`
// was called, which must make f return, and Error(kMemory) names `what`: threads that nobody joins would end the
// program.
template <class F, class Stop>
void start_threads(std::vector<std::thread>& threads, int count, const char* what, F f, Stop stop) {
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back(f, i);
  } catch (const std::system_error& e) {
    const std::string started = std::to_string(threads.size() + 1);
    stop();
    join_all(threads);
    throw Error(Code::kMemory, "cannot start thread " + started + " of " + std::to_string(count) + ": " + e.what(),
                what);
  }
}

}  // namespace kvasir
