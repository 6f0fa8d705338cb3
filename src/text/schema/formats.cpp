#include "text/schema/formats.hpp"

#include <array>
#include <string>
#include <utility>

namespace kvasir::text {
namespace {

// RFC 3339: years with four digits, no leap days and seconds.
const std::string kDate =
    "(?:[1-9]\\d{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"
    "02-(?:0[1-9]|1\\d|2[0-8])))";
const std::string kClock = "(?:(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?)";
const std::string kOffset = "(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)";
const std::string kDurationTime = "T(?:\\d{1,4}H(?:\\d{1,4}M(?:\\d{1,4}S)?)?|\\d{1,4}M(?:\\d{1,4}S)?|\\d{1,4}S)";
const std::string kDurationDate = "(?:\\d{1,4}Y(?:\\d{1,4}M(?:\\d{1,4}D)?)?|\\d{1,4}M(?:\\d{1,4}D)?|\\d{1,4}D)";
// RFC 1123: labels of letters, digits and inner hyphens.
const std::string kLabel = "(?:[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*)";
const std::string kHost = "(?:" + kLabel + "(?:\\." + kLabel + ")*)";
const std::string kMail = "(?:[A-Za-z0-9]+(?:[._+-][A-Za-z0-9]+)*@(?:" + kLabel + "\\.)+[A-Za-z]{2,12})";
const std::string kOctet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const std::string kGroup = "[0-9A-Fa-f]{1,4}";
// RFC 3986: characters of paths, with escapes.
const std::string kPathChar = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";
const std::string kBehindHost =
    "(?:/" + kPathChar + "*)*(?:\\?(?:" + kPathChar + "|[/?])*)?(?:#(?:" + kPathChar + "|[/?])*)?";
const std::string kUri = "(?:(?:https?|ftp|wss?|file|ssh|git|s3)://" + kHost + "(?::[1-9]\\d{0,3})?" + kBehindHost +
                         "|mailto:" + kMail + "|(?:urn|tel|data|tag):" + kPathChar + "+)";

std::string whole(const std::string& pattern) { return "^(?:" + pattern + ")$"; }

const std::array<std::pair<std::string_view, std::string>, 18> kFormats{{
    {"date", whole(kDate)},
    {"time", whole(kClock + kOffset)},
    {"date-time", whole(kDate + "T" + kClock + kOffset)},
    {"duration", whole("P(?:" + kDurationDate + "(?:" + kDurationTime + ")?|" + kDurationTime + "|\\d{1,4}W)")},
    {"uuid", whole("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")},
    {"email", whole(kMail)},
    {"idn-email", whole(kMail)},
    {"hostname", whole(kHost)},
    {"idn-hostname", whole(kHost)},
    {"ipv4", whole(kOctet + "(?:\\." + kOctet + "){3}")},
    {"ipv6", whole("(?:" + kGroup + ":){7}" + kGroup + "|::(?:" + kGroup + "(?::" + kGroup + "){0,5})?|" + kGroup +
                   "(?::" + kGroup + "){0,2}::" + kGroup + "(?::" + kGroup + "){0,2}")},
    {"uri", whole(kUri)},
    {"url", whole(kUri)},
    {"iri", whole(kUri)},
    {"uri-reference", whole(kUri + "|(?:/" + kPathChar + "*)+")},
    {"iri-reference", whole(kUri + "|(?:/" + kPathChar + "*)+")},
    {"json-pointer", whole("(?:/(?:[^~/]|~[01])*)*")},
    {"byte", whole("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")},
}};

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  for (const auto& [name, pattern] : kFormats)
    if (name == format) return pattern;
  return {};
}

}  // namespace kvasir::text
