#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/autograd/context/gradients.hpp"
#include "troupe/autograd/context/recorded_graph.hpp"
#include "troupe/autograd/pass/pass_options.hpp"

namespace troupe::autograd {

namespace detail {

class participant;

// A program that includes this header has the table of contexts, even if it only serves others:
// referring to `provided` links it.
extern const bool provided;
[[gnu::used]] static const bool* const wanted = &provided;

}  // namespace detail

/// How a context is opened.
struct context_options {
  /// After this time the context ends by itself; late messages are refused with an error. 0: never.
  std::chrono::milliseconds timeout{0};
};

/// A distributed autograd context. While it is open on a thread, the tensors that require gradients
/// and go from node to node in calls, requests to actors, answers and values of rrefs are recorded,
/// on every node that the calls reach; a backward pass follows them back. Gradients are kept in the
/// context, on the node that has the leaf, and never in `.grad`.
///
/// It belongs to the thread or coroutine that opens it, and goes along with its calls and requests.
/// Several may be open at once over the same parameters, nested on one thread. They end in any
/// order and on any thread; the one opened last that is still open is current on the thread that
/// opened it. Other threads join with `within`. A context ends on all nodes with its scope, or when
/// its opener is lost. `backward` and `get_gradients` are thread-safe.
class context {
public:
  /// Throws not_initialized; what ended the job, once it has ended.
  explicit context(const node& here, const context_options& how = {});
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  /// Unique in the job: the opener's rank is in the upper 20 bits.
  std::uint64_t id() const noexcept { return id_; }

  /// Runs a backward pass from the sum of `roots`, scalars of this node, until all gradients are
  /// there. Throws invalid_argument; the error of the node where the pass fails; peer_lost;
  /// unknown_context when the context has ended.
  void backward(const std::vector<at::Tensor>& roots, const pass_options& how = {}) const;
  future<void> backward_async(const std::vector<at::Tensor>& roots,
                              const pass_options& how = {}) const;

  /// The node that opened it.
  const node& owner() const noexcept { return here_; }

  /// The gradients of this node's leaves so far.
  gradients get_gradients() const;

  /// What this node has recorded so far; no functions any more once the context has ended.
  recorded_graph recorded() const;

private:
  const node here_;
  const std::shared_ptr<detail::participant> part_;
  const std::uint64_t id_;
  const std::shared_ptr<troupe::detail::opened_context> scope_;
  clock::time_point limit_ = never;
  std::optional<future<void>> alarm_;
};

/// While it lives, the calling thread works in a context that another thread has opened. 0: in
/// none, on purpose: then no warning is given that gradients end there
/// (rpc_options::on_lost_gradient).
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

/// The context in which the calling thread works; 0: none.
std::uint64_t current_context() noexcept;

/// The same by the id of a context, on any node that takes part in it. Throws unknown_context, and
/// what the members of `context` throw.
void backward(const node& here, std::uint64_t context, const std::vector<at::Tensor>& roots,
              const pass_options& how = {});
future<void> backward_async(const node& here, std::uint64_t context,
                            const std::vector<at::Tensor>& roots, const pass_options& how = {});
gradients get_gradients(const node& here, std::uint64_t context);
recorded_graph recorded(const node& here, std::uint64_t context);

/// For `rref::backward`: a pass from a scalar, run by its owner, which takes part in the context.
void backward_on_owner(const rref<at::Tensor>& root, const context& of,
                       const pass_options& how = {});
inline void backward_on_owner(const rref<at::Tensor>& root, const context& of, bool retain_graph) {
  backward_on_owner(root, of, pass_options{.retain_graph = retain_graph});
}

}  // namespace troupe::autograd

namespace troupe {

/// For `rref::backward` with the id of a context, which looks for it in this namespace.
void backward_on_owner(const rref<at::Tensor>& root, std::uint64_t context,
                       const autograd::pass_options& how = {});
inline void backward_on_owner(const rref<at::Tensor>& root, std::uint64_t context,
                              bool retain_graph) {
  backward_on_owner(root, context, autograd::pass_options{.retain_graph = retain_graph});
}

}  // namespace troupe
