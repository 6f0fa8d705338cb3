#include "run/pictures.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::run {
namespace {

// What a picture's rows say depends on nothing but its key: its name among rows, and which of its runs it is.
store::Key content_of(const vision::PictureKey& picture, std::size_t run) {
  store::Key secret;
  std::memcpy(secret.bytes.data(), picture.bytes.data(), secret.bytes.size());
  store::KeyStream stream(secret, "kvasir.e");
  const std::uint64_t which = run;
  stream.add(std::as_bytes(std::span(&which, 1)));
  return stream.key();
}

model::Sight sight_of(vision::Sight sight) {
  return sight == vision::Sight::kBothWays            ? model::Sight::kAll
         : sight == vision::Sight::kBothWaysInWindows ? model::Sight::kAllInWindows
                                                      : model::Sight::kEarlier;
}

std::vector<std::string> parts_of(const std::string& text, std::size_t pictures) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(Pictures::kMark, from)) != std::string::npos; from = at + Pictures::kMark.size())
    parts.push_back(text.substr(from, at - from));
  parts.push_back(text.substr(from));
  if (parts.size() == 1) parts.insert(parts.begin(), pictures, "");  // all in front
  if (parts.size() != pictures + 1)
    throw Error(Code::kBadInput,
                fmt::format("{} pictures, and the prompt says {} at {} places, expected as many or none", pictures,
                            Pictures::kMark, parts.size() - 1),
                "image");
  return parts;
}

}  // namespace

Pictures::Pictures(Engine& engine, const std::string& mmproj)
    : engine_(engine),
      mmproj_(mmproj),
      encoder_(vision::open_encoder(mmproj, {.exact = engine.options().exact}, engine.team())) {
  const model::ModelSpec& spec = engine.model().spec();
  if (encoder_->width() != spec.dim)
    throw Error(Code::kBadInput,
                fmt::format("gives rows of {} numbers, expected the model's {}: it belongs to another model",
                            encoder_->width(), spec.dim),
                mmproj);
  if (encoder_->deep() != spec.deep)
    throw Error(Code::kBadInput,
                fmt::format("gives rows for {} layers besides (deepstack), expected the model's {}: it belongs to "
                            "another model",
                            encoder_->deep(), spec.deep),
                mmproj);
}

PicturePrompt Pictures::place(const std::string& text, const std::vector<std::string>& files, bool add_bos,
                              bool special) {
  const std::vector<std::string> parts = parts_of(text, files.size());
  const text::Tokenizer& tokenizer = *engine_.tokenizer();
  PicturePrompt out;
  // What stands between two pictures is one text, so that it has the tokens that it has in the model's own prompts.
  std::string pending;
  std::vector<std::size_t> plain;  // places of the caller's text in it, where special tokens are not read
  bool begun = false;
  const auto say = [&](const std::string& part) {
    for (std::size_t i = 0; i < part.size() && !special; ++i) plain.push_back(pending.size() + i);
    pending += part;
  };
  const auto write = [&] {
    const std::vector<std::int32_t> ids = tokenizer.encode(
        pending, {.add_bos = add_bos && !begun, .parse_special = true, .plain = plain, .behind_text = begun});
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    begun = true;
    pending.clear(), plain.clear();
  };
  say(parts.front());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto prepared = std::make_shared<const vision::Prepared>(encoder_->prepare(vision::read_picture(files[i])));
    const vision::PictureKey key = vision::key_of(*prepared, *encoder_);
    // Computed when the first of its rows is asked for: never where the cache knows all of them.
    const auto encoding = std::make_shared<std::unique_ptr<const vision::Encoding>>();
    const std::vector<vision::Run> runs = encoder_->runs(*prepared);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const vision::Run& run = runs[r];
      if (run.places != engine_.model().spec().has_places())
        throw Error(
            Code::kUnsupported,
            fmt::format("is of a kind ({}) whose rows have positions of {}, and the model's have {}", encoder_->kind(),
                        run.places ? "three parts" : "one part", run.places ? "one part" : "three parts (M-RoPE)"),
            mmproj_);
      pending += run.before;
      write();
      const auto values = [this, prepared, encoding, first = run.first, count = run.grid.count()] {
        if (!*encoding)
          *encoding = std::make_unique<const vision::Encoding>(encoder_->encode(*prepared, engine_.team()));
        const vision::Encoding& e = **encoding;
        std::vector<float> all;
        const auto add = [&](const std::vector<float>& rows) {
          const auto from = rows.begin() + first * e.width;
          all.insert(all.end(), from, from + count * e.width);
        };
        add(e.rows);
        for (const std::vector<float>& rows : e.deep) add(rows);
        return all;
      };
      const model::Grid grid = run.places ? model::Grid{run.grid.h, run.grid.w} : model::Grid{};
      const auto block =
          std::make_shared<const model::RowBlock>(content_of(key, r),
                                                  model::RowShape{run.grid.count(), static_cast<int>(encoder_->width()),
                                                                  sight_of(run.sight), grid, encoder_->deep()},
                                                  values);
      out.runs.push_back({std::ssize(out.ids), block});
      out.ids.insert(out.ids.end(), block->ids().begin(), block->ids().end());
      pending += run.after;
    }
    say(parts[i + 1]);
  }
  write();
  return out;
}

}  // namespace kvasir::run
