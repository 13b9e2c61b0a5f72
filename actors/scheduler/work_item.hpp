#pragma once

#include <caf/ref_counted.hpp>
#include <caf/resumable.hpp>
#include <utility>

namespace troupe {

/// A function as work for a node's threads. Runs once. The function must not throw.
template <class F>
class work_item final : public caf::resumable, public caf::ref_counted {
public:
  explicit work_item(F body) : body_(std::move(body)) {}

  subtype_t subtype() const override { return function_object; }

  resume_result resume(caf::execution_unit* unit, std::size_t) override {
    body_(unit);
    return done;
  }

  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

private:
  F body_;
};

/// The caller owns the only reference to the result. `body` takes the execution unit that it runs
/// on.
template <class F>
caf::resumable* make_work_item(F body) {
  return new work_item<F>(std::move(body));
}

}  // namespace troupe
