// What <troupe/fwd.hpp> declares (fwd_names.cpp) is what the other headers define: a name declared
// in another namespace, or as another kind, would be incomplete or ambiguous here.
#include <troupe/fwd.hpp>

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
