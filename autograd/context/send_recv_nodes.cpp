#include "troupe/autograd/context/send_recv_nodes.hpp"

#include <torch/csrc/autograd/functions/utils.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::autograd::detail {

namespace {

thread_local remote_gradient_sink* sink_here = nullptr;

}  // namespace

send_rpc_backward::send_rpc_backward(std::uint32_t to, const std::vector<at::Tensor>& sent)
    : Node(torch::autograd::collect_next_edges(sent)), to_(to) {
  for (const auto& one : sent) add_input_metadata(one);
}

remote_gradient_sink::scope::scope(remote_gradient_sink& sink) noexcept
    : before_(std::exchange(sink_here, &sink)) {}
remote_gradient_sink::scope::~scope() { sink_here = before_; }

remote_gradient_sink& remote_gradient_sink::current(const worker_info& wanted_for) {
  if (sink_here) return *sink_here;
  throw invalid_argument(
      "a backward pass of libtorch's own has reached a tensor from " + wanted_for.name +
      ", where it ends: use troupe::autograd::context::backward, or the root's "
      "own backward() in a troupe::autograd::default_context that is open around "
      "the calls and the pass");
}

void recv_rpc_backward::own(const std::shared_ptr<recv_rpc_backward>& self,
                            const std::vector<at::Tensor>& received) {
  for (const auto& one : received) torch::autograd::set_history(one, self);
}

}  // namespace troupe::autograd::detail
