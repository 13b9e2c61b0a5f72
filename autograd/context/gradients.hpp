#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace troupe::autograd {

/// Gradients by the tensors that they are of.
class gradients {
public:
  struct entry {
    at::Tensor of;
    at::Tensor gradient;
  };

  /// Undefined: there is none.
  at::Tensor operator[](const at::Tensor& of) const {
    const auto place = all_.find(of.unsafeGetTensorImpl());
    return place == all_.end() ? at::Tensor() : place->second.gradient;
  }
  bool contains(const at::Tensor& of) const { return all_.contains(of.unsafeGetTensorImpl()); }
  std::size_t size() const noexcept { return all_.size(); }
  bool empty() const noexcept { return all_.empty(); }

  /// Calls `f` with each tensor and its gradient, in no order.
  template <class F>
  void for_each(const F& f) const {
    for (const auto& [key, one] : all_) f(one.of, one.gradient);
  }

  /// Adds to the gradient of a leaf. Out of place, unless nobody else has what is here; takes
  /// `gradient` itself over when nobody else has that. One thread at a time.
  void add(const at::Tensor& of, at::Tensor&& gradient);

private:
  std::unordered_map<const c10::TensorImpl*, entry> all_;
};

namespace detail {

/// Adds to the .grad of a leaf, as libtorch's engine does. Several threads may add at once.
void add_to_grad(const at::Tensor& leaf, at::Tensor&& gradient);

}  // namespace detail

}  // namespace troupe::autograd
