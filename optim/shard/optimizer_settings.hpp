#pragma once

#include <cstdint>

#include "troupe/messages/codec/fields.hpp"

namespace troupe {

/// What a step of a distributed optimizer does to other steps over the same memory, and to backward
/// passes whose forward pass came before it. See docs/programming.md.
enum class step_mode : std::uint8_t {
  /// One step at a time changes a parameter, whichever optimizer and trainer it belongs to. A
  /// backward pass whose forward pass came before another trainer's step uses the new weights and
  /// reports nothing: its gradients are stale, and mix two versions of the weights.
  in_turn,
  /// The same, but such a backward pass uses the weights of its forward pass if that read them
  /// through `snapshot`; otherwise it throws libtorch's "modified by an inplace operation".
  consistent,
  /// Steps run at the same time over the same memory, without locks: Hogwild! (Recht, Re, Wright
  /// and Niu, "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient Descent", NIPS
  /// 2011). Each element keeps the value that was written last. The first step of a parameter,
  /// which makes its state, runs alone.
  hogwild,
};

/// Settings of a distributed optimizer that libtorch's optimizers do not have.
struct optimizer_settings {
  step_mode mode = step_mode::in_turn;
  /// A parameter for which the context has no gradient is an error, and no parameter of its shard
  /// is stepped. Otherwise such a parameter stays as it is, and a step fails only if no parameter
  /// has a gradient.
  bool needs_all_gradients = false;
};
TROUPE_MESSAGE_EXTERN(optimizer_settings, mode, needs_all_gradients)

}  // namespace troupe
