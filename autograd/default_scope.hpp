#pragma once

#include <mutex>

#include "troupe/actors/scheduler/opened_context.hpp"
#include "troupe/autograd/pass/distributed_pass.hpp"

namespace troupe::autograd::detail {

/// What is behind a default_context: one context after the other, each until a pass has let go of
/// its graph. Thread-safe.
class default_scope : public std::enable_shared_from_this<default_scope> {
public:
  /// The calling thread works for it from now on. Throws not_initialized.
  static std::shared_ptr<default_scope> open(const node& here);
  void close() noexcept;

  explicit default_scope(const node& here) : here_(here) {}

  /// Of the context that is open now.
  std::uint64_t id() const { return current()->id(); }

  /// A pass in `context`, which ends with it unless the graph is kept. See run_plain_pass. Throws
  /// unknown_context when another context has taken its place.
  void backward(std::uint64_t context, const at::Tensor& root, const at::Tensor& gradient,
                bool keep_graph, bool create_graph);

private:
  std::shared_ptr<participant> begin();
  std::shared_ptr<participant> current() const;
  void renew(const std::shared_ptr<participant>& last);

  const node here_;
  mutable std::mutex mutex_;
  std::shared_ptr<participant> part_;
  std::shared_ptr<troupe::detail::opened_context> opened_;
  bool closed_ = false;
};

/// libtorch's `Tensor::backward` asks default scopes first. Set before main, where it is used.
extern const bool plain_backward_goes_over_nodes;

}  // namespace troupe::autograd::detail
