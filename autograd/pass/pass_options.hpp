#pragma once

#include <cstdint>

#include "troupe/messages/codec/fields.hpp"

namespace troupe::autograd {

/// How a backward pass finds out which messages take part in it.
enum class pass_mode : std::uint8_t {
  /// Those that the roots depend on. Always right. Where the roots leave messages out, and parts of
  /// a graph wait for their gradients, a walk over the nodes finds the ones that take part.
  smart,
  /// All messages of the context. A pass from roots that leave some of them out fails.
  fast,
};

/// How a backward pass is run.
struct pass_options {
  bool retain_graph = false;  ///< further passes may follow over the same graph
  /// Gradients can be differentiated themselves; keeps the graph.
  bool create_graph = false;
  pass_mode mode = pass_mode::smart;
};

TROUPE_MESSAGE_EXTERN(pass_options, retain_graph, create_graph, mode)

}  // namespace troupe::autograd
