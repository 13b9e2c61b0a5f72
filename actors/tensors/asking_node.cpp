#include "troupe/actors/tensors/asking_node.hpp"

#include <ATen/core/Tensor.h>

#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rpc/rpc_node.hpp"

namespace troupe::detail {

asking_node asking_node::of_this_call() {
  asking_node out;
  const auto call = current_active_call();
  auto* const agent = call ? current_agent() : nullptr;
  if (!agent) return out;
  out.actors_ = agent->actors().weak_from_this();
  out.who_ = call.from;
  out.deadline_ = call.deadline;
  return out;
}

bool asking_node::is_lent(const at::Tensor& whole, std::size_t beside) const {
  if (!whole.defined() || !whole.has_storage() || !whole.device().is_cpu()) return false;
  const auto& storage = whole.storage();
  if (static_cast<std::size_t>(whole.numel()) * whole.itemsize() != storage.nbytes()) return false;
  const auto actors = actors_.lock();
  if (!actors) return false;
  const gate::pass pass(actors->entrance());
  return pass && actors->out().would_lend(*who_, storage.data(), storage.nbytes(), beside);
}

}  // namespace troupe::detail
