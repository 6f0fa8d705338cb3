// Chats from a file, for replays and load.
#pragma once

#include <string>
#include <vector>

namespace kvasir::lab {

struct Message {
  std::string role, content;
};
using Conversation = std::vector<Message>;

// One conversation per line: {"turns": [{"role", "content"}, ...]} or {"messages": [...]}. Throws Error(kBadInput) that
// names file, line and field.
std::vector<Conversation> read_conversations(const std::string& path);

}  // namespace kvasir::lab
