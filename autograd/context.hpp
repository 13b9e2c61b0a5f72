#pragma once

#include <span>

#include "troupe/autograd/pass/distributed_pass.hpp"
#include "troupe/autograd/context/recorded_graph.hpp"

namespace troupe::autograd {

namespace detail {

// A program that includes this has the table of contexts, also if it only serves others.
extern const bool provided;
[[gnu::used]] static const bool* const wanted = &provided;

}  // namespace detail

/// How a context is opened.
struct context_options {
  /// After so long it ends by itself, with an error for whoever comes late. 0: never.
  std::chrono::milliseconds timeout{0};
};

/// A distributed autograd context: while it is open on a thread, the tensors that require gradients
/// and go from node to node in calls, requests to actors, answers and rrefs' values are recorded,
/// on all nodes that the calls come to; a backward pass follows them home. Gradients gather in the
/// context, on the node that has the leaf, and never in `.grad`.
///
/// It belongs to the thread or coroutine that opens it, and goes along with its calls and requests;
/// several may be open at once, on one thread one inside of the other, over the same parameters.
/// They end in any order and on any thread: the latest that is open is current on the thread that
/// has opened them. What other threads do is recorded if they say so (`within`). It ends on all
/// nodes with its scope, or when its opener is lost. `backward` and `get_gradients` are
/// thread-safe.
class context {
public:
  /// Throws not_initialized.
  explicit context(const node& here, const context_options& how = {});
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  /// Names it in the whole job: the opener's rank in the upper 16 bits.
  std::uint64_t id() const noexcept { return part_->id(); }

  /// Runs a backward pass from the sum of `roots`, scalars of this node, until all gradients are
  /// there. Throws invalid_argument; the error of the node where it fails; peer_lost;
  /// unknown_context when the context has ended.
  void backward(const std::vector<at::Tensor>& roots, const pass_options& how = {}) const;
  future<void> backward_async(const std::vector<at::Tensor>& roots,
                              const pass_options& how = {}) const;

  /// The node that has opened it.
  const node& owner() const noexcept { return here_; }

  /// Those of this node's leaves, so far.
  gradients get_gradients() const;

  /// What this node has recorded so far; no functions any more when the context has ended.
  recorded_graph recorded() const;

private:
  const node here_;
  const std::shared_ptr<detail::participant> part_;
  const std::shared_ptr<troupe::detail::opened_context> scope_;
  clock::time_point limit_ = never;
  std::optional<future<void>> alarm_;
};

/// While it lives, the calling thread works for that context, which somebody else has opened. 0:
/// for none, on purpose: that gradients end there is not told (see rpc_options::on_lost_gradient).
class within {
public:
  explicit within(std::uint64_t context) noexcept;
  explicit within(const autograd::context& of) noexcept : within(of.id()) {}
  ~within();
  within(const within&) = delete;
  within& operator=(const within&) = delete;

private:
  const call_context before_;
};

/// What `rref::backward` does: a pass from a scalar of its owner, which takes part in the context.
void backward_on_owner(const rref<at::Tensor>& root, const context& of,
                       const pass_options& how = {});
inline void backward_on_owner(const rref<at::Tensor>& root, const context& of, bool retain_graph) {
  backward_on_owner(root, of, pass_options{.retain_graph = retain_graph});
}

/// The context for which the calling thread works; 0: none.
std::uint64_t current_context() noexcept;

/// The same by its id, on any node that takes part in it. Throws unknown_context, and like
/// `context::backward`.
void backward(const node& here, std::uint64_t context, const std::vector<at::Tensor>& roots,
              const pass_options& how = {});
future<void> backward_async(const node& here, std::uint64_t context,
                            const std::vector<at::Tensor>& roots, const pass_options& how = {});
gradients get_gradients(const node& here, std::uint64_t context);
recorded_graph recorded(const node& here, std::uint64_t context);

}  // namespace troupe::autograd

namespace troupe {

/// What `rref::backward` does, where it finds it, with the id of a context, in which the owner
/// takes part.
void backward_on_owner(const rref<at::Tensor>& root, std::uint64_t context,
                       const autograd::pass_options& how = {});
inline void backward_on_owner(const rref<at::Tensor>& root, std::uint64_t context,
                              bool retain_graph) {
  backward_on_owner(root, context, autograd::pass_options{.retain_graph = retain_graph});
}

}  // namespace troupe
