#pragma once

#include <caf/resumable.hpp>
#include <cstddef>

#include "troupe/actors/future/wait_all.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/torch_thread_state.hpp"
#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/tensor/device_streams.hpp"

namespace caf {
class execution_unit;
}

// How a thread of a node turns from one handler to the next: what `dispatcher` asks of a node.
namespace troupe::detail {

/// While it lives, the calling thread is as clean as a new one; afterwards it is what it was
/// before: libtorch's state, the node, actor and call that it works for, and its `wait_all`.
class torch_thread_state_scope {
public:
  torch_thread_state_scope() noexcept = default;
  ~torch_thread_state_scope();
  torch_thread_state_scope(const torch_thread_state_scope&) = delete;
  torch_thread_state_scope& operator=(const torch_thread_state_scope&) = delete;

private:
  const kept_torch_state torch_;
  node_context* const node_ = current_node_context();
  const std::uint64_t actor_ = current_actor();
  const call_context_scope nothing_{{}};
  const calls_to_await::pause no_wait_all_;
  const no_streams no_devices_;
};

/// Gives a handler of `node` a clean thread: libtorch's state, no profile, no actor, no call. Hot
/// path: some thread-local stores.
void prepare_thread_for(node_context& node) noexcept;

/// See dispatcher::resume.
caf::resumable::resume_result resume_item(caf::resumable& item, caf::execution_unit& unit,
                                          std::size_t most);

/// See dispatcher::run_between. `node` runs it.
void run_between_waits(node_context& node, function_ref<void()> body);

}  // namespace troupe::detail
