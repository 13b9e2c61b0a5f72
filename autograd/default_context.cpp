#include "troupe/autograd/default_context.hpp"

#include "troupe/autograd/default_scope.hpp"
#include "troupe/autograd/plain_backward.hpp"

namespace troupe::autograd {

namespace {

// A program that opens a default context links the hook.
[[gnu::used]] const bool* const needs_hook = &detail::plain_backward_goes_over_nodes;

}  // namespace

default_context::default_context(const node& here) : scope_(detail::default_scope::open(here)) {}
default_context::~default_context() { scope_->close(); }

std::uint64_t default_context::id() const { return scope_->id(); }

}  // namespace troupe::autograd
