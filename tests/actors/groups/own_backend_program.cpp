// own_backend_program FILE: loads the shared object FILE, which registers the backend "own", and
// runs collectives with it. Exits with 0 if all is well.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <thread>
#include <troupe/collective_backend.hpp>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

void run_rank(const troupe::node& here, int rank) {
  const auto group = here.world().new_group({0, 1, 2}, {.backend = "cpu:OWN"});
  expect(group.backend() == "cpu:own", "the group names its backend");
  for (int i = 0; i < 10; ++i) {
    const auto x = at::full({4}, rank + i, at::kFloat);
    troupe::all_reduce(group, x);
    expect(x[3].item<float>() == static_cast<float>(3 + 3 * i), "the sum is right");
  }
  // What it does not do is done by Troupe.
  const auto y = at::full({2}, rank, at::kLong);
  troupe::all_reduce(group, y);
  expect(y[0].item<long>() == 3, "other dtypes go by messages");
  troupe::broadcast(group, y, 1);
  // A factory that throws on one rank makes no group on any.
  try {
    here.world().new_group({0, 1, 2}, {.backend = "cpu:own", .backend_options = {{"fail", "1"}}});
    expect(false, "the group was not made");
  } catch (const std::runtime_error& e) {
    expect(std::string(e.what()).find("told to fail") != std::string::npos, e.what());
  }
}

}  // namespace

int main(int, char** argv) {
  try {
    expect(!troupe::is_backend_available("own"), "nothing is registered before");
    if (!dlopen(argv[1], RTLD_NOW)) throw std::runtime_error(dlerror());
    expect(troupe::is_backend_available("OWN"), "the name is known in any case");
    const auto nodes = troupe::local_nodes({"a", "b", "c"});
    std::vector<std::thread> ranks;
    std::atomic<int> wrong{0};
    for (int rank = 0; rank < 3; ++rank)
      ranks.emplace_back([&, rank] {
        try {
          run_rank(nodes[static_cast<std::size_t>(rank)], rank);
        } catch (const std::exception& e) {
          std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
          ++wrong;
        }
      });
    for (auto& one : ranks) one.join();
    return wrong;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
