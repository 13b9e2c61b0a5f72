#pragma once

#include "troupe/autograd/context.hpp"

namespace troupe::autograd {

namespace detail {

class default_scope;

}  // namespace detail

/// While it lives, libtorch's own `backward()` of a tensor follows the graph over nodes, as if they
/// were one process: `rref.to_here().sum().backward()`.
///
/// Calls, requests and values of rrefs are recorded as in a `context` that the thread or coroutine
/// has opened. A `backward()` whose graph leads to a tensor of another node goes on there.
/// Gradients are added to `.grad` of the leaves, each on the node that has it, and not kept in the
/// context; the owner of a leaf reads and zeroes them as usual. With `retain_graph` further passes
/// may follow over the same graph. Without it the context ends on all nodes with the pass, whether
/// that succeeds or fails, and the next one is open at once: what other calls have recorded
/// meanwhile is released too. So one forward pass, one `backward()`; several losses are summed, or
/// all but the last retain the graph. Detach what is to be used after the pass, as in libtorch.
///
/// Threads that join (`within(id())`, which names the context that is open now) may call
/// `backward()` too; two passes at once have to retain the graph. Other nodes, and handlers there,
/// work in the context as in any other, but only a thread of this node begins a pass. A graph that
/// does not leave the node is run by libtorch alone, and ends no context.
///
/// It opens and ends as a `context` does, also inside of one or around one.
class default_context {
public:
  /// Throws not_initialized.
  explicit default_context(const node& here);
  ~default_context();
  default_context(const default_context&) = delete;
  default_context& operator=(const default_context&) = delete;

  /// The context that is open now.
  std::uint64_t id() const;

private:
  const std::shared_ptr<detail::default_scope> scope_;
};

}  // namespace troupe::autograd
