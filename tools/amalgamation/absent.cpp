// What is declared in headers of the amalgamation and left out of it.
namespace kvasir::weights {

std::unique_ptr<ModelFile> rounded(std::unique_ptr<ModelFile>, std::string_view mix) {
  throw Error(Code::kUnsupported, "this build rounds no weights: write a file with `kvasir quantize`", std::string(mix));
}

}  // namespace kvasir::weights

namespace kvasir::device {

std::shared_ptr<kv::PageDevice> open_pages(const std::string& name, std::uint64_t) {
  throw Error(Code::kUnsupported, "this build knows no devices beside the processor", "device " + name);
}

}  // namespace kvasir::device
