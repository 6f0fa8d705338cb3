// What is declared in headers of the amalgamation and left out of it.
namespace kvasir::weights {

std::unique_ptr<ModelFile> rounded(std::unique_ptr<ModelFile>, std::string_view mix) {
  throw Error(Code::kUnsupported, "this build rounds no weights: write a file with `kvasir quantize`",
              std::string(mix));
}

}  // namespace kvasir::weights

namespace kvasir::device {

std::shared_ptr<kv::PageDevice> open_pages(const std::string& name, const PageOptions&) {
  throw Error(Code::kUnsupported, "this build knows no devices beside the processor", "device " + name);
}
std::unique_ptr<cpu::ProductDevice> open_products(const std::string& name, std::int64_t,
                                                  std::span<const cpu::Matrix* const>, bool, Team&) {
  throw Error(Code::kUnsupported, "this build knows no devices beside the processor", "device " + name);
}
std::unique_ptr<kv::KiviMaker> open_kivi(const std::string& name) {
  throw Error(Code::kUnsupported, "this build knows no devices beside the processor", "device " + name);
}

}  // namespace kvasir::device

// The encoders of pictures.
namespace kvasir::hub {

bool folder_has_vision(const std::string&) { return false; }

}  // namespace kvasir::hub

namespace kvasir::sound {

class SoundEncoder {};

}  // namespace kvasir::sound

namespace kvasir::vision {

class Encoder {};

}  // namespace kvasir::vision

namespace kvasir::run {

Pictures::Pictures(Engine& engine, const PictureOptions& options, std::vector<std::shared_ptr<store::Tier>>)
    : engine_(engine), options_(options), kept_rows_({}, {}), team_(1) {
  throw Error(Code::kUnsupported, "this build reads no pictures: use the library as a whole",
              "mmproj " + options.mmproj);
}
Pictures::~Pictures() = default;
std::shared_ptr<const PromptPicture> Pictures::read(std::string_view, const std::string&) { return nullptr; }
std::shared_ptr<const PromptPicture> Pictures::read_sound(std::string_view, const std::string&) { return nullptr; }
PicturePrompt Pictures::place(const std::string&, const std::vector<std::shared_ptr<const PromptPicture>>&,
                              const std::vector<std::shared_ptr<const PromptPicture>>&, bool, bool) const {
  return {};
}

}  // namespace kvasir::run
