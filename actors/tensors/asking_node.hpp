#pragma once

#include <cstddef>
#include <memory>

#include "troupe/actors/sync/futex.hpp"

namespace at {
class Tensor;
}

namespace troupe {

class peer;
class remote_actors;

namespace detail {

/// The node that has made a call, for answers that depend on how tensors reach it. Any thread.
class asking_node {
public:
  /// Of the call that the calling thread serves; otherwise nobody.
  static asking_node of_this_call();

  asking_node() = default;

  /// Will it be lent all of the tensor, where it lies, beside so many bytes of others? A guess.
  /// Never nobody, nor this node itself.
  bool is_lent(const at::Tensor& whole, std::size_t beside = 0) const;

  /// When the caller ends its wait; `never` if it has no limit.
  clock::time_point deadline() const noexcept { return deadline_; }

private:
  std::weak_ptr<remote_actors> actors_;  // of the node that was asked, which has `who_`
  const peer* who_ = nullptr;
  clock::time_point deadline_ = never;
};

}  // namespace detail

}  // namespace troupe
