#include "serve/pictures.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "run/pictures.hpp"

namespace kvasir::serve {

void read_pictures(ChatInput& chat, run::Pictures* pictures) {
  for (ChatPicture& picture : chat.pictures) {
    if (picture.rows) continue;
    KVASIR_CHECK(pictures);
    const bool sound = text::is_sound_mark(picture.mark);
    if (sound && !pictures->hears())
      bad_field(picture.field, "is a sound, and this model has no encoder of sounds", "unsupported_value");
    try {
      picture.rows =
          sound ? pictures->read_sound(*picture.bytes, picture.field) : pictures->read(*picture.bytes, picture.field);
    } catch (const Error& e) {
      if (e.code() != Code::kBadInput && e.code() != Code::kUnsupported) throw;
      // What is not of the picture itself names the encoder's file.
      bad_field(picture.field, e.context() == picture.field ? e.message() : e.what(),
                sound ? "invalid_audio" : "invalid_image");
    }
  }
}

void read_pictures(ApiRequest& request, run::Pictures* pictures) {
  request.names.run([&] { read_pictures(request.chat, pictures); });
}

std::vector<run::PicturePlace> places_of(const text::Prompt& prompt, const ChatInput& chat) {
  std::vector<run::PicturePlace> places;
  for (const text::Prompt::Picture& p : prompt.pictures) {
    const auto known = std::find_if(chat.pictures.begin(), chat.pictures.end(),
                                    [&](const ChatPicture& picture) { return picture.mark == p.mark; });
    KVASIR_CHECK(known != chat.pictures.end() && known->rows);  // marks come of the chat's own pictures alone
    places.push_back({p.begin, p.end, p.lead, known->rows});
  }
  return places;
}

}  // namespace kvasir::serve
