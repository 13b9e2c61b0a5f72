// <troupe/fwd.hpp> by itself declares all of these. What they are, fwd_types.cpp looks at.
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
