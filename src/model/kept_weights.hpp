// Packed weights of models in a folder of files, so that the next start reads them instead of packing. The files that
// were used least recently leave when there is no room.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/team.hpp"
#include "weights/packed_file.hpp"

namespace kvasir::model {

struct KeepWeights {
  std::string folder;      // "": nothing is kept
  std::int64_t bytes = 0;  // of all files in it, at most; 0: nothing is kept
  // What became of the file, once, in any thread: for people.
  std::function<void(const std::string&)> note;

  explicit operator bool() const { return !folder.empty() && bytes > 0; }
};

class KeptWeights {
 public:
  // block_bytes: of every block of the file; places: where each is, or goes, in memory that outlives this.
  KeptWeights(const KeepWeights& keep, const weights::PackedFingerprint& fingerprint,
              std::vector<std::int64_t> block_bytes, std::vector<std::byte*> places);
  ~KeptWeights();  // waits until the file is written

  // Whether the file is there: all blocks are in their places then, and compared with their checksums. A damaged file
  // is deleted, and the note says so.
  bool read(Team& team);
  // Begins to write the blocks, in a thread of its own; they stay as they are until it has ended. Nothing is written
  // that does not fit into KeepWeights::bytes or leaves less than as much again free on the disk.
  void write();

 private:
  void make_room();
  void say(const std::string& text) const {
    if (keep_.note) keep_.note(text);
  }

  KeepWeights keep_;
  weights::PackedFingerprint fingerprint_;
  std::vector<std::int64_t> bytes_;
  std::vector<std::byte*> places_;
  std::string path_;
  std::int64_t size_ = 0;  // of the file
  std::thread writer_;
};

}  // namespace kvasir::model
