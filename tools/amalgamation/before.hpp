// Names of the copied headers stay in this file, so a program may have other versions of them.
#define FMT_HEADER_ONLY 1
#define FMT_BEGIN_NAMESPACE \
  namespace {               \
  namespace fmt {           \
  inline namespace v9 {
#define FMT_END_NAMESPACE \
  }                       \
  }                       \
  }
#define NLOHMANN_JSON_NAMESPACE_BEGIN \
  namespace {                         \
  namespace nlohmann {                \
  inline namespace NLOHMANN_JSON_NAMESPACE_CONCAT(NLOHMANN_JSON_ABI_TAGS, NLOHMANN_JSON_NAMESPACE_VERSION) {
#define NLOHMANN_JSON_NAMESPACE_END \
  }                                 \
  }                                 \
  }
#define XXH_INLINE_ALL
