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

/// Where the caller of a step with a closure waits, on its own thread, for the shard to ask for the
/// loss. Thread-safe.
class closure_desk {
public:
  explicit closure_desk(std::shared_ptr<engine> driver) : driver_(std::move(driver)) {}

  /// The shard asks. One at a time.
  future<evaluated_loss> evaluate();

  /// Blocks until the shard asks; false: it will not any more.
  bool wait();
  /// The caller's answer. Once after each `wait` that was true.
  void answer(const evaluated_loss& loss);
  void fail(std::exception_ptr why);

  /// The step has ended.
  void end();

private:
  void signal();

  const std::shared_ptr<engine> driver_;
  std::mutex mutex_;
  std::optional<promise<evaluated_loss>> wanted_;
  std::optional<promise<void>> changed_;  // while the caller waits
  bool ended_ = false;
};

}  // namespace troupe::detail
