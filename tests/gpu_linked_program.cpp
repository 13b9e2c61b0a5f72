// As a program of a user with a GPU: its streams by c10_cuda, its collectives by NCCL.

#include <ATen/ops/ones.h>

#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

int main() {
  const auto world = troupe::init_process_group("cpu:troupe,cuda:nccl");
  const auto x = at::ones({4}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  troupe::all_reduce(world, x);
  troupe::destroy_process_group(world);
}
