// A plural folder is a registry: the build lists its files, each file's stem is the public name of its entry.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace kvasir {

template <class T>
struct Entry {
  std::string_view name;
  const T* value;
};

template <class T>
const T* find(std::span<const Entry<T>> registry, std::string_view name) {
  for (const auto& e : registry)
    if (e.name == name) return e.value;
  return nullptr;
}

// "a, b, c": for messages that say what would have been accepted.
template <class T>
std::string names(std::span<const Entry<T>> registry) {
  std::string list;
  for (const auto& e : registry) {
    if (!list.empty()) list += ", ";
    list += e.name;
  }
  return list;
}

}  // namespace kvasir
