#include "text/jinja/token_cursor.hpp"

#include <fmt/format.h>

namespace kvasir::text::jinja {
namespace {

std::string describe(const Token& t) {
  switch (t.kind) {
    case TokenKind::kEof:
      return "the end of the template";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kString:
      return "a string";
    case TokenKind::kData:
      return "text";
    default:
      return fmt::format("'{}'", t.text);
  }
}

}  // namespace

bool TokenCursor::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}

bool TokenCursor::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void TokenCursor::expect_op(std::string_view op) {
  if (!skip_op(op)) unexpected(fmt::format("'{}'", op));
}

void TokenCursor::expect_name(std::string_view name) {
  if (!skip_name(name)) unexpected(fmt::format("'{}'", name));
}

Token TokenCursor::expect(TokenKind kind, const char* what) {
  if (!is(kind)) unexpected(what);
  return take();
}

void TokenCursor::unexpected(const std::string& wanted) const {
  fail_at(now().line, fmt::format("expected {}, found {}", wanted, describe(now())));
}

}  // namespace kvasir::text::jinja
