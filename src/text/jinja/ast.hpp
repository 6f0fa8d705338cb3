// A parsed template.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.hpp"

namespace kvasir::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class Op : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<TextRef, ExprPtr>> named;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

enum class ExprKind : std::uint8_t {
  kConst,    // value
  kName,     // symbol; value: its name
  kList,     // args
  kTuple,    // args
  kDict,     // args: key, value, key, value ...
  kAttr,     // args[0] . value
  kItem,     // args[0] [ args[1] ]
  kSlice,    // args[0 .. 2], null where left out; only as args[1] of kItem
  kCall,     // args[0] ( call )
  kFilter,   // args[0] | value ( call ); args[0] is null in a filter block: the block's text
  kTest,     // args[0] is value ( call )
  kNot,      // args[0]
  kNeg,      // args[0]
  kPos,      // args[0]
  kArith,    // args[0] ops[0] args[1] ops[1] ..., from left to right
  kConcat,   // args, joined
  kCompare,  // args[0] ops[0] args[1] ops[1] ..., as Python chains them
  kAnd,      // args
  kOr,       // args
  kCond,     // args[1] if args[0] else args[2]; args[2] may be null
};

struct Filter;
struct Test;

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int line = 0;
  int height = 1;  // of the tree below, bounded by the parser: evaluation and destruction are recursive
  int symbol = -1;
  Value value;
  std::vector<ExprPtr> args;
  std::vector<Op> ops;
  std::unique_ptr<CallArgs> call;
  const Filter* filter = nullptr;  // null: there is none of that name, an error when it is reached
  const Test* test = nullptr;
};

// What `set`, `for` and `with` assign to.
struct Target {
  enum class Kind : std::uint8_t { kName, kTuple, kAttribute, kItem } kind = Kind::kName;
  int symbol = -1;
  TextRef name;
  TextRef attribute;     // kAttribute: symbol.attribute, of a namespace
  ExprPtr owner, index;  // kItem: owner[index], of a namespace, dict or list
  std::vector<Target> items;
};

struct Stmt;
using Block = std::vector<Stmt>;

// A macro, or the body of a call block.
struct MacroDef {
  std::string name;
  std::vector<std::pair<int, TextRef>> params;
  std::vector<ExprPtr> defaults;  // of the last ones
  Block body;
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};

struct Branch {
  ExprPtr test;  // null: else
  Block body;
};

enum class StmtKind : std::uint8_t {
  kData,         // data
  kPrint,        // expr
  kDo,           // expr, of which nothing is shown
  kFor,          // targets[0] in expr if test; body, other
  kIf,           // branches
  kSet,          // targets[0] = expr
  kSetBlock,     // targets[0] = body | expr (null: no filter)
  kMacro,        // macro, targets[0]
  kCallBlock,    // expr (a call) with macro as its caller
  kFilterBlock,  // body | expr
  kWith,         // targets[i] = exprs[i]; body
  kScope,        // body with variables of its own
  kBreak,
  kContinue,
};

struct Stmt {
  StmtKind kind = StmtKind::kData;
  int line = 0;
  bool recursive = false;
  std::string data;
  ExprPtr expr, test;
  std::vector<ExprPtr> exprs;
  std::vector<Target> targets;
  Block body, other;
  std::vector<Branch> branches;
  std::unique_ptr<MacroDef> macro;
};

// Immutable, so any number of renders may share it.
struct Program {
  Block body;
  std::vector<TextRef> symbols;  // names of variables, by number
};

}  // namespace kvasir::text::jinja
