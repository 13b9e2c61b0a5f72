#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "tests/actors/node/job.hpp"

// What the tests of remote references call on other nodes. The numbers in the tests are those of
// the rules in rref_table.hpp.
namespace troupe::test {

inline at::Tensor sum(const at::Tensor& a, const at::Tensor& b) { return a + b; }
inline at::Tensor ones(int64_t n) { return at::ones({n}); }
inline int plus(int a, int b) { return a + b; }
inline void nothing(int) {}
inline int refuse(const std::string& text) { throw std::out_of_range(text); }

// Neither copied nor moved nor sent: it lives on its owner. Counted.
class model {
public:
  explicit model(int weight) : weight_(weight) {
    if (weight < 0) throw std::invalid_argument("no negative weight");
    ++count;
  }
  model(const model&) = delete;
  ~model() { --count; }

  int forward(int x) const { return weight_ * x; }
  void set(int weight) noexcept { weight_ = weight; }
  std::string name() { return this_node().name(); }
  task<int> later(int x) {
    const int one = co_await this_node().rpc_async<&plus>("a", x, 0);
    co_return weight_* one;
  }

  static inline std::atomic<int> count{0};

private:
  std::atomic<int> weight_;
};

inline int doubled(int& x) { return 2 * x; }
inline double sum_of_tensor(const at::Tensor& x) { return x.sum().item<double>(); }
inline int twice(model& m, int x) { return 2 * m.forward(x); }

// Waits until nothing is left of anything.
inline void expect_nothing_left(const std::vector<node>& nodes) {
  for (const auto& n : nodes) {
    const auto left = [&] { return n.debug_info(); };
    EXPECT_TRUE(eventually([&] {
      return left().owner_rrefs == 0 && left().user_rrefs == 0 && left().rref_forks == 0;
    })) << n.name()
        << ": " << left().owner_rrefs << " owned, " << left().user_rrefs << " used, "
        << left().rref_forks << " forks";
  }
}

inline int value_of(rref<int> r) { return r.to_here(); }
inline rref<int> same(rref<int> r) { return r; }

// Where the last message left a reference.
inline rref<int> kept;
inline void keep(rref<int> r) { kept = std::move(r); }
inline int use_kept() { return kept.to_here(); }
inline void let_go() { kept = {}; }

}  // namespace troupe::test
