// What <troupe/fwd.hpp> declares is what the other headers define: a name declared in another
// namespace, or as another kind, would be incomplete or ambiguous here.
#include <troupe/fwd.hpp>

namespace troupe {

template <class T>
struct named_before {
  using type = T;
};
using all_named =
    named_before<void(node&, rpc_options&, call_options&, worker_info&, member_event&, debug_info&,
                      actor_stub<int>*, future<int>&, promise<int>&, task<int>&, rref<int>&, error&,
                      fault&, simulation&, transport::store&, transport::transport&,
                      autograd::context&, distributed_optimizer<int>*, remote_module<int>*)>;

}  // namespace troupe

#include <torch/optim/sgd.h>

#include <troupe/autograd.hpp>
#include <troupe/optim.hpp>
#include <troupe/remote_module.hpp>
#include <troupe/simulation.hpp>
#include <troupe/store.hpp>
#include <troupe/transport.hpp>
#include <troupe/troupe.hpp>

namespace troupe {

template <class... T>
constexpr bool complete = ((sizeof(T) > 0) && ...);

static_assert(
    complete<node, rpc_options, call_options, worker_info, member_event, debug_info, future<int>,
             promise<int>, task<int>, rref<int>, error, fault, simulation, transport::store,
             transport::transport, autograd::context, distributed_optimizer<torch::optim::SGD>>);

}  // namespace troupe
