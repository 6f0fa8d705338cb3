#include "text/jinja/scopes.hpp"

namespace kvasir::text::jinja {

Scope* Scopes::open(Scope* parent) {
  if (free_.empty()) {
    meter_.allocate(sizeof(Scope) + 64);
    all_.push_back(std::make_unique<Scope>());
    free_.push_back(all_.back().get());
  }
  Scope* scope = free_.back();
  free_.pop_back();
  scope->parent = parent;
  return scope;
}

void Scopes::keep() {
  for (Scope* scope = now_; scope && !scope->captured; scope = scope->parent) scope->captured = true;
}

void Scopes::close(Scope* scope) {
  if (scope->captured) return;
  scope->variables.clear();
  free_.push_back(scope);
}

const Value& Scopes::find(int symbol) const {
  for (const Scope* s = now_; s; s = s->parent)
    for (const auto& [name, value] : s->variables)
      if (name == symbol) return value;
  return globals_[static_cast<std::size_t>(symbol)];
}

void Scopes::set(int symbol, Value value) {
  for (auto& [name, old] : now_->variables) {
    if (name != symbol) continue;
    old = std::move(value);
    return;
  }
  meter_.allocate(sizeof(Value) + 8);
  now_->variables.emplace_back(symbol, std::move(value));
}

}  // namespace kvasir::text::jinja
