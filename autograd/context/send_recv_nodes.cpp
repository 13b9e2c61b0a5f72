#include "troupe/autograd/context/send_recv_nodes.hpp"

#include <torch/csrc/autograd/functions/utils.h>

namespace troupe::autograd::detail {

namespace {

thread_local gradient_taker* taker_here = nullptr;

}  // namespace

send_node::send_node(std::uint32_t to, const std::vector<at::Tensor>& sent)
    : Node(torch::autograd::collect_next_edges(sent)), to_(to) {
  for (const auto& one : sent) add_input_metadata(one);
}

gradient_taker::scope::scope(gradient_taker& taker) noexcept
    : before_(std::exchange(taker_here, &taker)) {}
gradient_taker::scope::~scope() { taker_here = before_; }

gradient_taker& gradient_taker::current(const worker_info& wanted_for) {
  if (taker_here) return *taker_here;
  throw invalid_argument(
      "a backward pass of libtorch's own has come to a tensor from " + wanted_for.name +
      ", where it ends: use troupe::autograd::context::backward, or the root's "
      "own backward() in a troupe::autograd::default_context that is open around "
      "the calls and the pass");
}

void receive_node::own(const std::shared_ptr<receive_node>& self,
                       const std::vector<at::Tensor>& received) {
  for (const auto& one : received) torch::autograd::set_history(one, self);
}

}  // namespace troupe::autograd::detail
