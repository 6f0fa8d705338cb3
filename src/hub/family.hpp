// What the folders of one model type have that GGUF does not: the names and places by which a translator of it differs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::hub {

class ConfigReader;

// What becomes of a tensor besides its name.
enum class Make {
  kSame,
  kDecay,      // -exp of it
  kTurned,     // matrices (inputs, outputs)
  kEitherWay,  // matrices (inputs, outputs) where the width of the model says so, else (outputs, inputs)
  kHalves,     // the first half of the rows belongs to "gate", which stands for the '*' of the name, the second to "up"
  kTurns,      // rows by turns of "gate" and "up"; matrices (inputs, outputs), or MXFP4 (outputs, inputs)
  kTurnsAsRows,  // as kTurns, (outputs, inputs)
  kLatent,       // keys and values of a latent row, by head
  kBehindTwo,    // without its first two rows
  kByHead,       // rows by KV head: those of its queries, its key's, its value's
  kNumber,       // one number of a layer, which is metadata in GGUF: `to` is the key
  kByFour,       // rows in four parts, each of queries, values and keys
  kWhole,        // whole numbers of 64 bits, which become floats
  kNumbers,      // whole numbers of 64 bits, which are metadata in GGUF: `to` is the key
  kShard,        // rows of a matrix of the model, behind those of the parts before; '*' in `from`: which part
};

struct Rename {
  std::string_view from, to;  // without ".weight" and ".bias", or whole. '*' in `from`: the number of an expert
  Make make = Make::kSame;
};

// In which layers "sliding_window" of config.json is one. kNone: in no layer, so that the context ends behind it. kOwn:
// in those that the architecture or "layer_types" says. kStated: in those that the metadata shall list, mostly none.
enum class Window { kNone, kOwn, kStated };

// How folders of some model types say an architecture: the column `hub` of its entry (model/arch.hpp).
struct Family {
  std::vector<std::string_view> types;  // "model_type" of config.json
  // The part of every head that RoPE turns where "partial_rotary_factor" does not say; 0: whole heads, whatever it
  // says.
  double turned = 0;
  // RoPE turns adjacent pairs in GGUF files of this architecture and halves of a head here: the rows of queries and
  // keys change places.
  bool pairs = false;
  // Norms multiply by 1 + weight here, by the weight in GGUF.
  bool one_more = false;
  // "post_attention_layernorm" is called post_attention_norm; otherwise it is the norm of the feed forward.
  bool post_norms = false;
  Window window = Window::kNone;
  // Reads texts and writes none: other names of the tensors around layers.
  bool encoder = false;
  bool behind_two = false;                           // the first two rows of learned positions are of no token
  std::string_view activation = "silu";              // empty: its reader looks
  std::span<const Rename> names = {};                // of layers, where they differ from the usual ones
  void (*read)(ConfigReader& reader) = nullptr;      // what the configuration has besides; null: the usual alone
  void (*read_all)(ConfigReader& reader) = nullptr;  // in place of the usual
  // Of the folder that is read. Whoever finds a family fills them in.
  std::string_view model_type = {}, arch = {};  // the latter: general.architecture
  std::int64_t upper_stack = 0;                 // of two stacks: the number that the upper one's first layer has
};

// The columns of all architectures, with `arch` filled in. Defined where the registry of architectures is,
// model/arch.cpp: formats stand below it, and a new architecture is one file for GGUF and folders.
std::vector<Family> families();

// Throws Error(kUnsupported) naming `path` and the types that are known.
Family family_of(std::string_view model_type, const std::string& path);

// The first of that architecture, whose names they share. Throws likewise.
Family family_of_arch(std::string_view arch, const std::string& path);

// The names of Granite without experts, whose shared feed forward is the only one.
std::span<const Rename> granite_without_experts();

// Where a tensor goes.
struct Place {
  std::string name;          // in GGUF; empty: of no use to a language model (buffers, a vision tower)
  std::int64_t expert = -1;  // whose matrix it is, or which part of the rows (kShard)
  int layer = -1;
  Make make = Make::kSame;
};

// Throws Error(kUnsupported) for a name that is none of the family's.
Place place_of(const Family& family, std::string_view name, const std::string& path);

}  // namespace kvasir::hub
