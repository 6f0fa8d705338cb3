// What is declared in headers of the amalgamation and left out of it.
namespace kvasir::weights {

std::unique_ptr<ModelFile> rounded(std::unique_ptr<ModelFile>, std::string_view mix) {
  throw Error(Code::kUnsupported, "this build rounds no weights: write a file with `kvasir quantize`", std::string(mix));
}

}  // namespace kvasir::weights
