#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>

#include "troupe/actors/node/node.hpp"

namespace troupe::detail {

/// A loss, and the context that has its gradients.
struct evaluated_loss {
  std::uint64_t context = 0;
  at::Tensor loss;
};
TROUPE_MESSAGE_EXTERN(evaluated_loss, context, loss)

/// Evaluates the closure of a step on the thread of the step's caller, which waits here for the
/// shard's requests. Thread-safe.
class closure_evaluator {
public:
  explicit closure_evaluator(std::shared_ptr<engine> driver) : driver_(std::move(driver)) {}

  /// The shard's request for a loss. One at a time. Throws invalid_argument after `close`.
  future<evaluated_loss> evaluate();

  /// Blocks until there is a request; false: there will be no more.
  bool wait_for_request();

  /// The caller's reply: one of the two, once for each request.
  void reply(const evaluated_loss& loss);
  void fail(std::exception_ptr why);

  /// The step has ended.
  void close();

private:
  std::optional<promise<evaluated_loss>> take_request();
  void notify();

  const std::shared_ptr<engine> driver_;
  std::mutex mutex_;
  std::optional<promise<evaluated_loss>> request_;
  std::optional<promise<void>> changed_;  // while the caller waits
  bool closed_ = false;
};

}  // namespace troupe::detail
