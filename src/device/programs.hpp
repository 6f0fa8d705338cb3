// Compiled programs, kept on disk. A file is found by a hash of what it was made of: text, options, device and driver.
//
//   8 bytes "KVPROG01", u64 hash of the key, u64 length of the key, u64 length of the binary, u64 hash of both; key; binary
//
// A file is written aside and renamed. One that is damaged, that stands under another key or that the driver refuses is
// deleted and made anew.
#pragma once

#include <string>

#include "device/driver.hpp"

namespace kvasir::device {

// Every program is compiled with these and with nothing that trades bits for speed.
inline constexpr char kOptions[] = "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt";

class Programs {
 public:
  // folder: "": nothing is kept. kDefault: $XDG_CACHE_HOME/kvasir/programs or ~/.cache/kvasir/programs.
  static constexpr char kDefault[] = "*";
  explicit Programs(std::string folder = kDefault);

  // Throws as Context::compile does. What goes wrong on the disk only costs the time to compile.
  Program get(const Context& context, const std::string& text, const std::string& options = kOptions);

  int compiled() const { return compiled_; }
  int loaded() const { return loaded_; }

 private:
  std::string folder_;
  int compiled_ = 0;
  int loaded_ = 0;
};

}  // namespace kvasir::device
