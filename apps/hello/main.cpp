#include <ATen/ATen.h>
#include <iostream>
#include <troupe/troupe.hpp>

struct forward { at::Tensor x; };
TROUPE_MESSAGE(forward, x)
using layer = troupe::actor<troupe::answers<forward, at::Tensor>>;

layer::behavior_type linear(at::Tensor weight) {
  return {[=](const forward& message) { return message.x.matmul(weight); }};
}

int main() {
  auto node = troupe::init_rpc();  // rank, world size and rendezvous from the environment
  if (node.rank() == 0) {
    auto remote = node.spawn_on<linear>(1, at::full({4, 2}, 0.5));  // an actor on rank 1
    auto y = troupe::request(remote, forward{at::ones({3, 4})}).get();
    std::cout << "y is " << y.sizes() << ", its sum " << y.sum().item<double>() << std::endl;
  }
  node.shutdown();  // returns when the whole job's work is done
}
