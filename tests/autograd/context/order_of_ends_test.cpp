// Contexts may end in any order, and on any thread: what was open before goes on.

#include <optional>

#include "tests/actors/node/job.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/scheduler/opened_context.hpp"

namespace troupe::test {
namespace {

using autograd::context;
using autograd::current_context;

std::uint64_t context_here() { return current_context(); }

class ends_of_contexts : public testing::Test {
protected:
  void SetUp() override { nodes_ = make_nodes(network::loopback, {"a", "b"}); }
  void TearDown() override {
    for (const auto& n : nodes_)
      EXPECT_TRUE(eventually([&] { return n.debug_info().autograd_contexts == 0; })) << n.name();
    shut_down(nodes_);
  }

  std::unique_ptr<context> open() const { return std::make_unique<context>(nodes_[0]); }

  // The calling thread's calls are made in `wanted`, or in none.
  void expect_works_in(const context* wanted) const {
    const auto id = wanted ? wanted->id() : 0;
    EXPECT_EQ(current_context(), id);
    EXPECT_EQ(nodes_[0].rpc_sync<&context_here>("b"), id);
    if (!wanted) return;
    const auto x = leaf(3);
    wanted->backward({nodes_[0].rpc_sync<&twice>("b", x).sum()});
    EXPECT_TRUE(torch::equal(wanted->get_gradients()[x], torch::full({3}, 2, torch::kDouble)));
  }

  std::vector<node> nodes_;
};

TEST_F(ends_of_contexts, come_in_every_order) {
  std::vector<int> order{0, 1, 2, 3};
  do {
    std::vector<std::unique_ptr<context>> all;
    for (int i = 0; i < 4; ++i) all.push_back(open());
    for (const int i : order) {
      all[static_cast<std::size_t>(i)].reset();
      const context* latest = nullptr;
      for (const auto& one : all)
        if (one) latest = one.get();
      EXPECT_EQ(current_context(), latest ? latest->id() : 0u);
      if (order[0] < 2) expect_works_in(latest);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ends_of_contexts, come_on_other_threads) {
  auto outer = open(), middle = open(), inner = open();
  const auto end = [](std::unique_ptr<context>& one) { std::thread([&] { one.reset(); }).join(); };
  end(middle);
  expect_works_in(inner.get());
  end(inner);
  expect_works_in(outer.get());
  end(outer);
  expect_works_in(nullptr);
}

TEST_F(ends_of_contexts, come_while_others_begin) {
  const auto outer = open();
  auto one = open();
  for (int i = 0; i < 100; ++i) {  // each overlaps the next
    auto next = open();
    one = std::move(next);
    EXPECT_EQ(current_context(), one->id());
  }
  one.reset();
  expect_works_in(outer.get());
}

TEST_F(ends_of_contexts, come_inside_of_within) {
  auto outer = open(), inner = open();
  {
    const autograd::within none(0);
    inner.reset();
    expect_works_in(nullptr);
  }
  expect_works_in(outer.get());
  {
    const autograd::within same(*outer);
    outer.reset();
    EXPECT_THROW(nodes_[0].rpc_sync<&context_here>("b"), unknown_context);  // it has been named
  }
  expect_works_in(nullptr);
}

// The coroutine's is not its thread's, and ends on another one.
task<bool> opens_and_waits(node here, future<int> first, std::optional<context>& from_outside) {
  const context mine(here);
  from_outside.emplace(here);
  co_await first;
  const bool was_inner = current_context() == from_outside->id();
  from_outside.reset();
  const auto asked = here.rpc_async<&context_here>("b");
  const std::uint64_t there = co_await asked;
  co_return was_inner&& there == mine.id();
}

TEST_F(ends_of_contexts, come_in_coroutines) {
  const auto outer = open();
  promise<int> first(nodes_[0].core().actors().driver());
  std::optional<context> inner;
  const auto begun = opens_and_waits(nodes_[0], first.get_future(), inner);
  expect_works_in(outer.get());
  first.set_value(1);
  EXPECT_TRUE(begun.get());
  expect_works_in(outer.get());
}

TEST_F(ends_of_contexts, come_on_many_threads_at_once) {
  std::vector<int> threads(8);
  std::mutex mutex;
  std::vector<std::unique_ptr<context>> others;  // another thread ends them
  all_at_once(threads, [&](int&) {
    for (int i = 0; i < 50; ++i) {
      auto mine = open();
      const auto id = mine->id();
      EXPECT_EQ(nodes_[0].rpc_sync<&context_here>("b"), id);
      std::unique_ptr<context> last;
      {
        const std::lock_guard lock(mutex);
        others.push_back(std::move(mine));
        if (others.size() > 4) {
          last = std::move(others.front());
          others.erase(others.begin());
        }
      }
      last.reset();
      // Somebody may end what is current here at any moment.
      try {
        (void)nodes_[0].rpc_sync<&context_here>("b");
      } catch (const unknown_context&) {
      }
    }
  });
  others.clear();
}

// However long contexts overlap, those that have ended are let go of.
TEST_F(ends_of_contexts, leave_no_chain) {
  using troupe::detail::opened_context;
  std::weak_ptr<opened_context> first;
  std::shared_ptr<opened_context> one;
  for (std::uint64_t id = 1; id < 5; ++id) {
    call_context before;
    before.context = id - 1;
    before.opened = one;
    auto next = std::make_shared<opened_context>(id, std::move(before));
    if (id == 1) first = next;
    if (one) one->end();
    one = std::move(next);
  }
  EXPECT_TRUE(first.expired());
}

}  // namespace
}  // namespace troupe::test
