#include "hub/vision_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "hub/vision_names.hpp"
#include "weights/quant.hpp"
#include "weights/safetensors/fields.hpp"
#include "weights/safetensors/json_text.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::hub {

using namespace weights;
namespace {

constexpr std::uint64_t kMostVisionConfig = std::uint64_t{64} << 20;  // bytes of a JSON file
constexpr std::int64_t kMostSize = 1 << 20;
constexpr std::int64_t kMostPixelCount = std::int64_t{1} << 40;

std::string file_in(const std::string& folder, const char* name) { return folder + "/" + name; }

bool is_there(const std::string& path) {
  std::error_code none;
  return std::filesystem::exists(path, none);
}

const VisionFamily* vision_family_of(const FolderJson& config) {
  const auto type = config.find("model_type"), vision = config.find("vision_config");
  if (type == config.end() || !type->is_string() || vision == config.end() || !vision->is_object()) return nullptr;
  const auto families = vision_families();
  const auto known = std::find_if(families.begin(), families.end(), [&](const VisionFamily& f) {
    return f.model_type == type->get_ref<const std::string&>();
  });
  return known == families.end() ? nullptr : &*known;
}

class VisionFolder {
 public:
  explicit VisionFolder(const std::string& path)
      : path_(path), config_path_(file_in(path, "config.json")), metadata_(path) {}

  std::unique_ptr<weights::ModelFile> open() {
    config_ = read_folder_json(config_path_, kMostVisionConfig);
    family_ = vision_family_of(config_);
    if (!family_) throw Error(Code::kUnsupported, "has no encoder of pictures of a kind that is known", config_path_);
    read_encoder();
    read_processor();
    read_tensors();
    return std::make_unique<MappedModel>(std::move(files_), std::move(metadata_), std::move(tensors_),
                                         std::move(floats_));
  }

 private:
  bool is(std::string_view projector) const { return family_->projector == projector; }
  bool is_qwen() const { return family_->projector.starts_with("qwen"); }
  bool is_gemma4() const { return family_->projector.starts_with("gemma4"); }
  void set(const char* key, Value value) { metadata_.set(std::string("clip.vision.") + key, std::move(value)); }

  void read_encoder() {
    const ConfigFields whole(config_, config_path_), f(*whole.object("vision_config"), config_path_, "vision_config.");
    metadata_.set("general.architecture", std::string("clip"));
    metadata_.set("clip.projector_type", std::string(family_->projector));
    const auto count = [&](const char* key, const char* field, const char* older, std::int64_t otherwise) {
      const auto n = f.integer_if(field, 1, kMostSize);
      const auto old = !n && *older ? f.integer_if(older, 1, kMostSize) : n;
      if (!old && otherwise == 0) f.bad(field, "is missing");
      set(key, old.value_or(otherwise));
      return old.value_or(otherwise);
    };
    set("attention.layer_norm_epsilon",
        is("lfm3") ? f.number_if("norm_eps").value_or(1e-5)
                   : f.number_if("layer_norm_eps").value_or(f.number_if("rms_norm_eps").value_or(1e-6)));
    const std::string act = f.text_if(is_gemma4() ? "hidden_activation" : "hidden_act").value_or("");
    if (!act.empty() && act != family_->activation)
      f.unsupported(is_gemma4() ? "hidden_activation" : "hidden_act",
                    fmt::format("is {}, expected {}", act, family_->activation));
    // Published files of Idefics 3 and SmolVLM leave out what transformers takes by default.
    const bool usual = is("idefics3");
    const std::int64_t patch = count("patch_size", "patch_size", "spatial_patch_size",
                                     is_qwen() ? 14
                                     : usual   ? 32
                                               : 16);
    if (is("gemma4uv")) return read_sound(whole);
    count("embedding_length", is("qwen2vl_merger") ? "embed_dim" : "hidden_size", "", usual ? 1152 : 0);
    count("attention.head_count", is_qwen() ? "num_heads" : "num_attention_heads", "", is_qwen() || usual ? 16 : 0);
    const std::int64_t blocks = count("block_count", is_qwen() ? "depth" : "num_hidden_layers", "", usual ? 12 : 0);
    if (is("gemma4v")) {
      count("feed_forward_length", "intermediate_size", "", 0);
      count("projector.scale_factor", "pooling_kernel_size", "", 3);
    }
    if (is("gemma3")) {
      const std::int64_t size = count("image_size", "image_size", "", 0), grid = size / patch;
      const std::int64_t rows = whole.integer_if("mm_tokens_per_image", 1, kMostSize).value_or(256);
      const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(rows))));
      if (side * side != rows || grid % side != 0)
        whole.bad("mm_tokens_per_image",
                  fmt::format("is {}, expected a square that divides {} x {} patches", rows, grid, grid));
      set("projector.scale_factor", grid / side);
    }
    if (is("idefics3")) {
      count("image_size", "image_size", "", 224);
      set("projector.scale_factor", whole.integer_if("scale_factor", 1, 16).value_or(2));
    }
    if (is("lfm2")) set("projector.scale_factor", whole.integer_if("downsample_factor", 1, 16).value_or(2));
    if (is_qwen() || is("lfm3")) count("spatial_merge_size", "spatial_merge_size", "", 2);
    if (is("lfm3")) read_lfm3(whole, f);
    if (is("qwen2.5vl_merger")) read_windows(f, blocks);
    if (const FolderJson* deep = f.array("deepstack_visual_indexes"))
      for (const FolderJson& block : *deep) {
        if (!block.is_number_integer() || block < 0 || block >= blocks)
          f.bad("deepstack_visual_indexes", fmt::format("expected numbers of {} blocks", blocks));
        deepstack_.push_back(block.get<std::int64_t>());
      }
  }

  void read_lfm3(const ConfigFields& whole, const ConfigFields& f) {
    set("attention.head_count_kv", f.integer_if("num_key_value_heads", 1, kMostSize).value_or(8));
    if (f.integer_if("conv_kernel_size", 1, 99).value_or(3) != 3) f.unsupported("conv_kernel_size", "is not 3");
    if (whole.text_if("projector_hidden_act").value_or("gelu") != "gelu")
      whole.unsupported("projector_hidden_act", "is not 'gelu'");
    double theta = 1e6;
    if (const FolderJson* rope = f.object("rope_parameters")) {
      const ConfigFields of(*rope, config_path_, "vision_config.rope_parameters.");
      if (of.text_if("rope_type").value_or("axial") != "axial") of.unsupported("rope_type", "is not 'axial'");
      theta = of.number_if("rope_theta").value_or(theta);
    }
    set("rope.freq_base", theta);
  }

  // What Gemma 4 Unified has for sounds; nothing where audio_config is null.
  void read_sound(const ConfigFields& whole) {
    const FolderJson* audio = whole.object("audio_config");
    if (!audio) return;
    const ConfigFields f(*audio, config_path_, "audio_config.");
    const std::int64_t frame = f.integer_if("audio_embed_dim", 1, kMostSize).value_or(640);
    metadata_.set("clip.has_audio_encoder", true);
    metadata_.set("clip.audio.projector_type", std::string("gemma4ua"));
    metadata_.set("clip.audio.embedding_length", frame);
    metadata_.set("clip.audio.attention.layer_norm_epsilon", f.number_if("rms_norm_eps").value_or(1e-6));
    // With those of pictures in one file, or beside them in the file of all.
    const std::string own = file_in(path_, "preprocessor_config.json"), all = file_in(path_, "processor_config.json");
    std::string path = all;
    FolderJson json;
    if (is_there(all)) json = read_folder_json(all, kMostVisionConfig);
    const FolderJson* inner = json.is_object() ? ConfigFields(json, all).object("feature_extractor") : nullptr;
    if (!inner && is_there(own)) {
      path = own;
      json = read_folder_json(own, kMostVisionConfig);
    }
    if (!json.is_object()) return;  // read_processor says what is missing
    const ConfigFields steps(inner ? *inner : json, path, inner ? "feature_extractor." : "");
    metadata_.set("clip.audio.sampling_rate", steps.integer_if("sampling_rate", 1, kMostSize).value_or(16000));
    if (steps.integer_if("audio_samples_per_token", 1, kMostSize).value_or(frame) != frame)
      steps.bad("audio_samples_per_token", fmt::format("is not {}, audio_embed_dim of config.json", frame));
    if (steps.number_if("padding_value").value_or(0) != 0) steps.unsupported("padding_value", "is not 0");
  }

  // Every n-th block sees everything, the others a window: that is all that the files beside text models can say, and
  // what the published models are.
  void read_windows(const ConfigFields& f, std::int64_t blocks) {
    if (f.integer_if("window_size", 1, kMostSize).value_or(112) != 112)
      f.unsupported("window_size", "is not 112, as in the published models");
    const FolderJson* whole = f.array("fullatt_block_indexes");
    const std::string what = "expected every n-th block, the last of each n";
    if (!whole || whole->empty() || !whole->front().is_number_integer()) return f.bad("fullatt_block_indexes", what);
    const std::int64_t every = whole->front().get<std::int64_t>() + 1;
    if (every < 1 || std::ssize(*whole) != blocks / every) f.unsupported("fullatt_block_indexes", what);
    for (std::size_t i = 0; i < whole->size(); ++i)
      if ((*whole)[i] != static_cast<std::int64_t>(i + 1) * every - 1) f.unsupported("fullatt_block_indexes", what);
    set("n_wa_pattern", every);
  }

  // What is done to pictures: transformers keeps it in a file of its own, or since version 5 with other processors.
  void read_processor() {
    const std::string own = file_in(path_, "preprocessor_config.json"), all = file_in(path_, "processor_config.json");
    FolderJson json;
    std::string path = own;
    if (is_there(own)) {
      json = read_folder_json(own, kMostVisionConfig);
    } else if (is_there(all)) {
      path = all;
      const FolderJson outer = read_folder_json(all, kMostVisionConfig);
      const FolderJson* inner = ConfigFields(outer, path).object("image_processor");
      if (!inner) throw Error(Code::kBadInput, "'image_processor' is missing, as is preprocessor_config.json", path);
      json = *inner;
    } else {
      throw Error(Code::kIo, "is missing: it says what is done to pictures", own);
    }
    const ConfigFields f(json, path);
    for (const char* step : {"do_resize", "do_rescale"})
      if (!f.flag_if(step).value_or(true)) f.unsupported(step, "is false");
    if (std::abs(f.number_if("rescale_factor").value_or(1.0 / 255) - 1.0 / 255) > 1e-9)
      f.unsupported("rescale_factor", "is not 1/255");
    if (const auto filter = f.integer_if("resample", 0, 10); filter && *filter != family_->resample)
      f.unsupported("resample", fmt::format("is {}, expected {}", *filter, family_->resample));
    read_normal(f);
    if (const auto patch = f.integer_if("patch_size", 1, kMostSize);
        patch && *patch != metadata_.require_int("clip.vision.patch_size", 1, kMostSize))
      f.bad("patch_size", "is another number than that of config.json");
    if (is_qwen() || is("lfm3")) read_pixels(f);
    if (is("idefics3")) read_squares(f);
    if (is_gemma4()) set("image_max_tokens", f.integer_if("max_soft_tokens", 1, kMostSize).value_or(280));
    if (is("lfm2")) read_tiles(f);
    if (is("gemma3")) {
      if (f.flag_if("do_pan_and_scan").value_or(false)) f.unsupported("do_pan_and_scan", "is true");
      const std::int64_t size = metadata_.require_int("clip.vision.image_size", 1, kMostSize);
      if (const FolderJson* given = f.object("size"))
        for (const char* side : {"height", "width"})
          if (ConfigFields(*given, path, "size.").integer_if(side, 1, kMostSize).value_or(size) != size)
            f.bad(std::string("size.") + side, fmt::format("is not {}, the encoder's image_size", size));
    }
  }

  void read_normal(const ConfigFields& f) {
    const bool normal = f.flag_if("do_normalize").value_or(!is_gemma4());
    const auto three = [&](const char* field, double otherwise) {
      const FolderJson* list = normal ? f.array(field) : nullptr;
      std::vector<double> v(3, otherwise);
      if (!list) return v;
      if (list->size() != 3) f.bad(field, "expected three numbers");
      for (std::size_t i = 0; i < 3; ++i) {
        if (!(*list)[i].is_number()) f.bad(field, "expected three numbers");
        v[i] = (*list)[i].get<double>();
      }
      return v;
    };
    const std::vector<double> mean = three("image_mean", 0), deviation = three("image_std", 1);
    // Gemma 4's encoders have what they need in themselves.
    if (is_gemma4() && (mean != std::vector<double>(3, 0) || deviation != std::vector<double>(3, 1)))
      f.unsupported("image_mean", "and image_std are not 0 and 1");
    if (normal && !is_gemma4() && (!f.find("image_mean") || !f.find("image_std")))
      f.bad("image_mean", "or image_std is missing");
    set("image_mean", mean);
    set("image_std", deviation);
  }

  void read_pixels(const ConfigFields& f) {
    const FolderJson* size = f.object("size");
    const auto pixels = [&](const char* key, const char* field, const char* edge) {
      auto n = f.integer_if(field, 1, kMostPixelCount);
      if (!n && size) n = ConfigFields(*size, f.path(), "size.").integer_if(edge, 1, kMostPixelCount);
      if (!n) f.bad(field, fmt::format("is missing, as is size.{}", edge));
      set(key, static_cast<double>(*n));
    };
    pixels("image_min_pixels", "min_pixels", "shortest_edge");
    pixels("image_max_pixels", "max_pixels", "longest_edge");
    const auto merge = f.integer_if("merge_size", 1, 16);
    if (merge && *merge != metadata_.require_int("clip.vision.spatial_merge_size", 1, 16))
      f.bad("merge_size", "is another number than spatial_merge_size of config.json");
  }

  void read_tiles(const ConfigFields& f) {
    const auto count = [&](const char* key, const char* field, std::int64_t otherwise, std::int64_t most) {
      set(key, f.integer_if(field, 1, most).value_or(otherwise));
    };
    count("image_min_tokens", "min_image_tokens", 64, kMostSize);
    count("image_max_tokens", "max_image_tokens", 256, kMostSize);
    count("image_min_tiles", "min_tiles", 2, 64);
    count("image_max_tiles", "max_tiles", 10, 64);
    count("image_tile", "tile_size", 512, 1 << 14);
    set("image_tolerance", f.number_if("max_pixels_tolerance").value_or(2.0));
    set("image_splits", f.flag_if("do_image_splitting").value_or(true));
    if (!f.flag_if("use_thumbnail").value_or(true)) f.unsupported("use_thumbnail", "is false");
  }

  // What transformers takes where a field is missing are the sizes of Idefics 3.
  void read_squares(const ConfigFields& f) {
    const auto edge = [&](const char* field, std::int64_t otherwise) {
      const FolderJson* size = f.object(field);
      if (!size) return otherwise;
      const ConfigFields of(*size, f.path(), field + std::string("."));
      const auto n = of.integer_if("longest_edge", 1, 1 << 14);
      if (!n) of.bad("longest_edge", "is missing");
      return n.value_or(otherwise);
    };
    set("preproc_image_size", edge("size", 4 * 364));
    set("image_tile", edge("max_image_size", 364));
    set("image_splits", f.flag_if("do_image_splitting").value_or(true));
  }

  std::vector<std::string> shard_names() const {
    const std::string index = file_in(path_, "model.safetensors.index.json");
    if (!is_there(index)) return {"model.safetensors"};
    const FolderJson json = read_folder_json(index, kMostVisionConfig);
    const FolderJson* map = ConfigFields(json, index).object("weight_map");
    if (!map) throw Error(Code::kBadInput, "'weight_map' is missing", index);
    std::set<std::string> names;
    for (const auto& [tensor, file] : map->items()) {
      VisionLayout layout{};
      const std::string name = file.is_string() ? file.get<std::string>() : "";
      if (vision_name(*family_, tensor, &layout).empty()) continue;
      if (name.empty() || name.find('/') != name.npos || name.find('\0') != name.npos)
        throw Error(Code::kBadInput, fmt::format("'weight_map': tensor {} has no name of a file", tensor), index);
      names.insert(name);
    }
    return {names.begin(), names.end()};
  }

  void read_tensors() {
    std::set<std::string> seen;
    for (const std::string& name : shard_names()) {
      const std::string path = path_ + "/" + name;
      files_.emplace_back(path);
      for (const ShardTensor& t : parse_safetensors(files_.back().bytes(), path)) {
        VisionLayout layout{};
        std::string own = vision_name(*family_, t.name, &layout);
        if (own.empty()) continue;
        if (own.starts_with("v.deepstack.")) own = deepstack_name(own, t.name, path);
        if (!seen.insert(own).second) fail(t, "is there under two names", path);
        add(t, std::move(own), layout, path);
      }
    }
  }

  std::string deepstack_name(const std::string& name, const std::string& tensor, const std::string& path) const {
    const std::size_t begin = std::string_view("v.deepstack.").size(), end = name.find('.', begin);
    const std::size_t which = std::stoul(name.substr(begin, end - begin));
    if (which >= deepstack_.size())
      throw Error(Code::kBadInput, fmt::format("tensor {} is more than deepstack_visual_indexes names", tensor), path);
    return fmt::format("v.deepstack.{}{}", deepstack_[which], name.substr(end));
  }

  [[noreturn]] static void fail(const ShardTensor& t, const std::string& why, const std::string& path) {
    throw Error(Code::kBadInput, fmt::format("tensor {} {}", t.name.substr(0, 200), why), path);
  }

  void add(const ShardTensor& t, std::string name, VisionLayout layout, const std::string& path) {
    constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
        {"F32", "f32"}, {"F16", "f16"}, {"BF16", "bf16"}};
    const auto type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& k) { return k.first == t.dtype; });
    if (type == std::end(kTypes)) fail(t, fmt::format("is {}, expected F32, F16 or BF16", t.dtype), path);
    TensorInfo info;
    info.name = std::move(name);
    info.quant = type->second;
    info.bytes = t.bytes;
    const bool frames = layout == VisionLayout::kTwoFrames;
    if (t.shape.size() > (frames ? 5u : 4u)) fail(t, "has too many dimensions", path);
    info.rank = static_cast<int>(std::max<std::size_t>(1, t.shape.size()));
    std::int64_t elements = 1;
    for (const std::int64_t n : t.shape) elements *= n;
    if (layout == VisionLayout::kSame) {
      std::copy(t.shape.rbegin(), t.shape.rend(), info.shape.begin());
      tensors_.push_back(std::move(info));
      return;
    }
    std::vector<float> values(static_cast<std::size_t>(elements));
    find(quants(), info.quant)->dequantise(t.bytes.data(), values.data(), elements);
    add_floats(t, std::move(info), layout, values, path);
  }

  void add_floats(const ShardTensor& t, TensorInfo info, VisionLayout layout, std::vector<float>& values,
                  const std::string& path) {
    const auto keep = [&](std::string name, std::array<std::int64_t, 4> shape, std::vector<float> floats) {
      floats_.push_back(std::move(floats));
      TensorInfo made = info;
      made.name = std::move(name);
      made.quant = "f32";
      made.shape = shape;
      made.rank = 4;
      while (made.rank > 1 && shape[static_cast<std::size_t>(made.rank - 1)] == 1) --made.rank;
      made.bytes = std::as_bytes(std::span(floats_.back()));
      tensors_.push_back(std::move(made));
    };
    const auto size = static_cast<std::int64_t>(values.size());
    switch (layout) {
      case VisionLayout::kPlusOne:
        for (float& v : values) v += 1;
        return keep(info.name, {size, 1, 1, 1}, std::move(values));
      case VisionLayout::kChannelsFirst: {
        const std::int64_t columns = t.shape.empty() ? 0 : t.shape.back(), pixels = columns / 3;
        if (columns == 0 || columns % 3 != 0) fail(t, "has columns that are no pixels of three colours", path);
        std::vector<float> out(values.size());
        for (std::int64_t i = 0; i < size; ++i) {
          const std::int64_t at = i % columns, row = i - at;
          out[static_cast<std::size_t>(row + at % 3 * pixels + at / 3)] = values[static_cast<std::size_t>(i)];
        }
        return keep(info.name, {columns, size / columns, 1, 1}, std::move(out));
      }
      case VisionLayout::kTwoFrames: {
        // A convolution, or a matrix whose columns lie as its taps would.
        const bool flat = t.shape.size() == 2 && t.shape[1] % 6 == 0;
        if (!flat && (t.shape.size() != 5 || t.shape[1] != 3 || t.shape[2] != 2))
          fail(t, "has another shape than (rows, 3, 2, side, side)", path);
        const std::int64_t pixels = flat ? t.shape[1] / 6 : t.shape[3] * t.shape[4], rows = t.shape[0];
        for (std::int64_t frame = 0; frame < 2; ++frame) {
          std::vector<float> out;
          out.reserve(values.size() / 2);
          for (std::int64_t channel = 0; channel < 3 * rows; ++channel) {
            const auto from = values.begin() + (2 * channel + frame) * pixels;
            out.insert(out.end(), from, from + pixels);
          }
          const std::array<std::int64_t, 4> square{flat ? 3 * pixels : t.shape[4], flat ? rows : t.shape[3],
                                                   flat ? 1 : 3, flat ? 1 : rows};
          keep(info.name + (frame == 0 ? "" : ".1"), square, std::move(out));
        }
        return;
      }
      case VisionLayout::kTurnTables: {
        if (t.shape.size() != 3 || t.shape[1] != 2) fail(t, "has another shape than (places, 2, dim)", path);
        const std::int64_t places = t.shape[0], dim = t.shape[2];
        std::vector<float> out;
        out.reserve(values.size());
        for (std::int64_t table = 0; table < 2; ++table)
          for (std::int64_t place = 0; place < places; ++place) {
            const auto from = values.begin() + (2 * place + table) * dim;
            out.insert(out.end(), from, from + dim);
          }
        return keep(info.name, {dim, places, 2, 1}, std::move(out));
      }
      case VisionLayout::kSame:
        break;
    }
  }

  const std::string path_, config_path_;
  FolderJson config_;
  const VisionFamily* family_ = nullptr;
  std::vector<std::int64_t> deepstack_;
  Metadata metadata_;
  std::vector<MappedFile> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<float>> floats_;
};

}  // namespace

bool folder_has_vision(const std::string& path) {
  const std::string config = file_in(path, "config.json");
  const bool processed =
      is_there(file_in(path, "preprocessor_config.json")) || is_there(file_in(path, "processor_config.json"));
  return is_there(config) && processed && vision_family_of(read_folder_json(config, kMostVisionConfig)) != nullptr;
}

std::unique_ptr<weights::ModelFile> open_vision_folder(const std::string& path) { return VisionFolder(path).open(); }

}  // namespace kvasir::hub
