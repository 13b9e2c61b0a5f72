// Random programs over the same parameters, from many threads of several nodes at once, each in
// contexts of its own.

#include "tests/actors/node/job.hpp"
#include "tests/autograd/graphs/graph_check.hpp"
#include "tests/autograd/graphs/random_operations.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::test {
namespace {

// References to the same values, for each node.
using references = std::vector<rref<at::Tensor>>;
const references* kept_for_others = nullptr;
references hand_out() { return *kept_for_others; }

std::vector<references> for_each_node(const std::vector<node>& nodes, const references& of_first) {
  kept_for_others = &of_first;
  std::vector<references> out;
  for (const auto& n : nodes) out.push_back(n.rank() == 0 ? of_first : n.rpc_sync<&hand_out>(0));
  kept_for_others = nullptr;
  return out;
}

class graphs_at_once : public on_networks {
protected:
  static constexpr std::uint32_t nodes_used = 3;

  void SetUp() override {
    log().set_level(spdlog::level::off);  // of what comes too late for a context
    shared_.nodes = nodes_used;
    shared_.seed = 1;
    shared_.dtype = static_cast<std::int8_t>(at::kDouble);
    for (std::uint32_t i = 0; i < 9; ++i) {
      parameter one;
      one.home = i % nodes_used;
      one.is_table = i >= 6;
      one.trains = i != 4;
      one.shape = one.is_table ? std::vector<std::int64_t>{5, 3}
                  : i % 2 == 0 ? std::vector<std::int64_t>{3, 3}
                               : std::vector<std::int64_t>{3};
      shared_.parameters.push_back(one);
      values_.push_back(values_of(shared_, i));
    }
  }

  graph_case make(std::uint64_t seed) const { return make_case(seed, shared_, values_); }

  static spread_program with_shared(const std::vector<node>& nodes, const graph_case& one,
                                    const std::vector<references>& shared) {
    const auto opener = one.program.opener;
    return spread(nodes[opener], one.program, one.wanted.values, shared[opener]);
  }

  static autograd::pass_mode mode_of(const graph_case& one) {
    return one.wanted.uses_all ? autograd::pass_mode::fast : autograd::pass_mode::smart;
  }

  // Runs `f` in threads, with their numbers.
  template <class F>
  static void in_threads(std::uint64_t count, const F& f) {
    std::vector<std::uint64_t> numbers(count);
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = i;
    all_at_once(numbers, [&](std::uint64_t i) { f(i); });
  }

  random_program shared_;
  std::vector<at::Tensor> values_;
};
TROUPE_ON_NETWORKS(graphs_at_once);

TEST_P(graphs_at_once, keep_their_gradients_apart) {
  constexpr std::uint64_t threads = 20, rounds = 6;
  auto nodes = start({"a", "b", "c"});
  {
    const auto shared = for_each_node(nodes, spread(nodes[0], shared_, values_).parameters);
    in_threads(threads, [&](std::uint64_t thread) {
      for (std::uint64_t i = 0; i < rounds; ++i) {
        const auto seed = 1 + thread * rounds + i;
        const auto one = make(seed);
        const auto program = with_shared(nodes, one, shared);
        for (const auto& what : run_and_compare(nodes, one, program, mode_of(one)))
          ADD_FAILURE() << "seed " << seed << ": " << what;
      }
    });
  }
  for (const auto& what : nothing_left(nodes, &eventually)) ADD_FAILURE() << what;
  shut_down(nodes);
}

TEST_P(graphs_at_once, end_in_the_middle_of_a_pass_without_harm_to_others) {
  constexpr std::uint64_t threads = 8, rounds = 15;
  auto nodes = start({"a", "b", "c"});
  std::atomic<int> completed{0}, cut_off{0};
  {
    const auto shared = for_each_node(nodes, spread(nodes[0], shared_, values_).parameters);
    const auto release_early = [&](std::uint64_t seed) {
      auto one = make(seed);
      one.program.starter = one.program.opener;
      const auto& here = nodes[one.program.opener];
      const auto program = with_shared(nodes, one, shared);
      future<void> pass;
      {
        const autograd::context context(here);
        pass = begin_spread(here, program, one.wanted.passes);
        if (seed % 3 != 0) std::this_thread::sleep_for(std::chrono::microseconds(seed * 37 % 4000));
      }
      if (!pass.wait_for(time_limit)) {
        ADD_FAILURE() << "seed " << seed << ": the pass does not end";
        return;
      }
      try {
        pass.get();
        ++completed;
      } catch (const error&) {
        ++cut_off;
      }
    };
    in_threads(threads, [&](std::uint64_t thread) {
      for (std::uint64_t i = 0; i < rounds; ++i) {
        const auto seed = 1000 + thread * rounds + i;
        if (thread % 4 != 0) {
          release_early(seed);
          continue;
        }
        const auto one = make(seed);
        const auto program = with_shared(nodes, one, shared);
        for (const auto& what : run_and_compare(nodes, one, program, mode_of(one)))
          ADD_FAILURE() << "seed " << seed << ": " << what;
      }
    });
    for (std::uint64_t seed = 3000; cut_off == 0; seed += 3) {  // as long as all were too quick
      ASSERT_LT(seed, 6000u) << "no context ends before its pass";
      release_early(seed);
    }
  }
  std::cout << completed << " passes came to their end, " << cut_off << " did not\n";
  for (const auto& what : nothing_left(nodes, &eventually)) ADD_FAILURE() << what;
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
