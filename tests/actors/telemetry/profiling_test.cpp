// What libtorch's profiler sees of calls.

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/record_function.h>

#include "tests/actors/node/job.hpp"

namespace troupe::test {
// In a namespace with a name, which recorded names hold.
namespace profiled {

inline at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
inline int fail(int) { throw std::domain_error("no"); }

}  // namespace profiled

namespace {

class profiling : public on_networks {};
TROUPE_ON_NETWORKS(profiling);

struct range {
  std::string name;
  std::int64_t number;
  bool ended;
};
std::mutex mutex;
std::map<const void*, range> ranges;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& f) {
  struct context : at::ObserverContext {};
  const std::lock_guard lock(mutex);
  auto one = std::make_unique<context>();
  ranges[one.get()] = {f.name(), f.seqNr(), false};
  return one;
}
void end(const at::RecordFunction&, at::ObserverContext* which) {
  const std::lock_guard lock(mutex);
  // The context is gone afterwards, and its place may be another's.
  auto mine = ranges.extract(which);
  mine.mapped().ended = true;
  static int count = 0;
  ranges[reinterpret_cast<const void*>(static_cast<std::uintptr_t>(++count))] = mine.mapped();
}

// The number of the one ended range of that name.
std::int64_t number_of(const std::string& name) {
  std::int64_t number = -1;
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    number = -1;
    for (const auto& [key, one] : ranges)
      if (one.name == name && one.ended) number = one.number;
    return number != -1;
  })) << name;
  return number;
}

TEST_P(profiling, a_call_is_a_range_on_both_sides_with_one_number) {
  auto nodes = start({"a", "b"});
  ranges.clear();
  const auto handle = at::addGlobalCallback(
      at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::USER_SCOPE}));
  nodes[0].rpc_sync<&profiled::add>("b", at::ones({2}), at::ones({2}));
  EXPECT_THROW(nodes[0].rpc_sync<&profiled::fail>("b", 1), remote_error);
  const auto r = nodes[0].remote<&profiled::fail>("b", 1);
  EXPECT_THROW(r.to_here(), remote_error);
  const std::string of = "troupe::test::profiled::";
  const auto called = number_of("rpc_sync#" + of + "add(a -> b)");
  EXPECT_EQ(called, number_of("rpc#" + of + "add(a -> b)"));
  const auto failed = number_of("rpc_sync#" + of + "fail(a -> b)");
  EXPECT_NE(failed, called);
  EXPECT_GE(number_of("rpc_remote#" + of + "fail(a -> b)"), 0);
  // Operators go by their names.
  nodes[0].rpc_sync("b", "aten::neg", at::ones({2}));
  EXPECT_EQ(number_of("rpc_sync#aten::neg(a -> b)"), number_of("rpc#aten::neg(a -> b)"));
  nodes[0].remote<at::Tensor>("b", "aten::abs", at::ones({2})).to_here();
  EXPECT_EQ(number_of("rpc_remote#aten::abs(a -> b)"), number_of("rpc#aten::abs(a -> b)"));
  at::removeCallback(handle);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
