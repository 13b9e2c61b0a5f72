#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/scheduler/opened_context.hpp"
#include "troupe/autograd/context/participant.hpp"

namespace troupe::autograd::detail {

/// What is behind a default_context: one context after the other, each until a pass has released
/// its graph. Thread-safe.
class default_scope : public std::enable_shared_from_this<default_scope> {
public:
  /// Makes it current on the calling thread. Throws like context's constructor.
  static std::shared_ptr<default_scope> open(const node& here);
  void close() noexcept;

  explicit default_scope(const node& here) : here_(here) {}

  /// The id of the context that is open now.
  std::uint64_t id() const { return current()->id(); }

  /// Runs a pass in `context`, and ends the context with it unless the graph is kept: see
  /// run_plain_pass. Throws unknown_context when another context has taken its place.
  void backward(std::uint64_t context, const at::Tensor& root, const at::Tensor& gradient,
                bool keep_graph, bool create_graph);

private:
  std::shared_ptr<participant> begin();
  std::shared_ptr<participant> current() const;
  void renew(const std::shared_ptr<participant>& last);

  const node here_;
  // Taken before the locks of the context_table and of participants (renew).
  mutable std::mutex mutex_;
  std::shared_ptr<participant> part_;
  std::shared_ptr<troupe::detail::opened_context> opened_;
  bool closed_ = false;
};

}  // namespace troupe::autograd::detail
