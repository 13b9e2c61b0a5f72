#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <unordered_map>

namespace troupe::autograd {

/// Gradients of tensors, by tensor.
class gradients {
public:
  struct entry {
    at::Tensor of;
    at::Tensor gradient;
  };

  /// Undefined if there is none.
  at::Tensor operator[](const at::Tensor& of) const {
    const auto place = all_.find(of.unsafeGetTensorImpl());
    return place == all_.end() ? at::Tensor() : place->second.gradient;
  }
  bool contains(const at::Tensor& of) const { return all_.contains(of.unsafeGetTensorImpl()); }
  std::size_t size() const noexcept { return all_.size(); }
  bool empty() const noexcept { return all_.empty(); }

  /// Calls `f` with each tensor and its gradient, in no particular order.
  template <class F>
  void for_each(const F& f) const {
    for (const auto& [key, one] : all_) f(one.of, one.gradient);
  }

  /// Adds to the gradient of a leaf: in place where no other tensor shares the memory of the sum so
  /// far. Takes over `gradient` itself where no other tensor shares its memory. One thread at a
  /// time.
  void add(const at::Tensor& of, at::Tensor&& gradient);

private:
  std::unordered_map<const c10::TensorImpl*, entry> all_;
};

namespace detail {

/// Adds to the .grad of a leaf, as libtorch's engine does. Thread-safe.
void add_to_grad(const at::Tensor& leaf, at::Tensor&& gradient);

}  // namespace detail

}  // namespace troupe::autograd
