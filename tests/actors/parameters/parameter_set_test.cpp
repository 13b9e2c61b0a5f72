// Named sets of tensors that one node updates and others pull.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <atomic>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/parameter_functions.hpp"

namespace troupe::test {

namespace {

parameter_set::named_tensors some() {
  return {{"weight", at::arange(70).reshape({7, 10})},
          {"bias", at::arange(3)},
          {"scale", at::full({}, 2.5)}};
}

rref<parameter_set> offer_some() {
  return this_node().make_rref(std::in_place_type<parameter_set>, some());
}

class parameter_sets : public on_networks {};
TROUPE_ON_NETWORKS(parameter_sets);

void expect_same(const parameter_set::named_tensors& got,
                 const parameter_set::named_tensors& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, wanted[i].first);
    EXPECT_TRUE(got[i].second.equal(wanted[i].second)) << got[i].first;
  }
}

TEST_P(parameter_sets, are_pulled_whole_and_by_name) {
  auto nodes = start({"a", "b"});
  {
    const auto set = nodes[1].make_rref(std::in_place_type<parameter_set>, some());
    const auto there = nodes[0].rpc_sync<&offer_some>("b");
    for (const auto& from : {set, there}) {
      const auto got = pull(from);
      EXPECT_EQ(got.version, 1u);
      EXPECT_TRUE(got);
      expect_same(got.tensors, some());
      expect_same(pull(from, {.names = {"scale", "weight", "scale"}}).tensors,
                  {some()[0], some()[2]});
      EXPECT_THROW(pull(from, {.names = {"weigth"}}), error);
    }
    EXPECT_EQ(set.local_value().counts().pulls, 2u);
  }
  shut_down(nodes);
}

TEST_P(parameter_sets, are_pulled_in_shards) {
  auto nodes = start({"a", "b"});
  {
    const auto set = nodes[1].make_rref(std::in_place_type<parameter_set>, some());
    for (const auto* puller : {"a", "b"})
      for (std::uint32_t shards = 1; shards < 10; ++shards)
        for (std::uint32_t shard = 0; shard < shards; ++shard) {
          const auto got = nodes[1].rpc_sync(
              puller,
              [](rref<parameter_set> from, std::uint32_t i, std::uint32_t n) {
                return pull(from, {.shard = i, .shards = n}).tensors;
              },
              set, shard, shards);
          auto wanted = some();
          for (auto& [name, tensor] : wanted) {
            if (tensor.dim() == 0) continue;
            const auto chunks = tensor.chunk(shards);
            tensor = shard < chunks.size() ? chunks[shard] : tensor.slice(0, tensor.size(0));
          }
          expect_same(got, wanted);
        }
    EXPECT_THROW(pull(set, {.shard = 2, .shards = 2}), error);
    EXPECT_THROW(pull(set, {.shard = 0, .shards = 0}), error);
  }
  shut_down(nodes);
}

TEST_P(parameter_sets, tell_readers_of_new_versions) {
  auto nodes = start({"a", "b"});
  {
    const auto tensors = some();
    const auto set = nodes[1].make_rref(std::in_place_type<parameter_set>, tensors);
    auto& here = set.local_value();
    const auto ask = [&](std::uint64_t newer_than, bool wait) {
      return nodes[1].rpc_async(
          "a",
          [](rref<parameter_set> from, std::uint64_t version, bool waits) {
            const auto got = pull(from, {.newer_than = version, .wait = waits});
            return std::pair(got.version, got.tensors.size());
          },
          set, newer_than, wait);
    };
    using seen = std::pair<std::uint64_t, std::size_t>;
    EXPECT_EQ(ask(1, false).get(), seen(1, 0));
    const auto next = ask(1, true);
    const auto after_next = ask(2, true);
    EXPECT_TRUE(eventually([&] { return here.counts().waiting == 2; }));
    EXPECT_FALSE(next.ready());
    EXPECT_EQ(here.commit(), 2u);
    EXPECT_EQ(next.get(), seen(2, 3));
    EXPECT_EQ(here.counts().waiting, 1u);
    EXPECT_EQ(here.commit(), 3u);
    EXPECT_EQ(after_next.get(), seen(3, 3));
    EXPECT_EQ(ask(0, true).get(), seen(3, 3));
  }
  shut_down(nodes);
}

TEST_P(parameter_sets, let_readers_wait_during_an_update_if_they_are_to) {
  auto nodes = start({"a", "b"});
  {
    auto tensors = some();
    const auto set = nodes[1].make_rref(std::in_place_type<parameter_set>, tensors, true);
    auto& here = set.local_value();
    here.begin_update();
    tensors[1].second.add_(1);
    EXPECT_EQ(pull(set, {.wait = false}).tensors.size(), 0u);
    const auto later = pull_async(set);
    EXPECT_FALSE(later.ready());
    here.commit();
    EXPECT_TRUE(later.get().tensors[1].second.equal(tensors[1].second));
    EXPECT_EQ(later.get().version, 2u);
  }
  shut_down(nodes);
}

TEST_P(parameter_sets, forget_readers_that_have_given_up) {
  auto nodes = start({"a", "b"});
  {
    const auto set = nodes[1].make_rref(std::in_place_type<parameter_set>, some());
    auto& here = set.local_value();
    const auto ask = [&] {
      return nodes[1].rpc_sync(
          "a",
          [](rref<parameter_set> from) {
            try {
              pull(from, {.newer_than = 100, .limit = 5ms});
            } catch (const rpc_timeout&) {
              return true;
            }
            return false;
          },
          set);
    };
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(ask());
    // Soon after their limits, by the next one that asks.
    EXPECT_TRUE(eventually([&] {
      std::this_thread::sleep_for(100ms);
      return ask() && here.counts().waiting < 15;
    }));
    here.commit();
  }
  shut_down(nodes);
}

TEST_P(parameter_sets, are_of_one_version_while_their_owner_writes) {
  auto nodes = start({"a", "b", "c"});
  {
    for (const bool wait : {false, true}) {
      const auto copies =
          nodes[1].rpc_sync<&train>("c", std::int64_t{20'000}, std::uint64_t{100},
                                    std::vector<std::string>{"a", "b", "b", "c"}, wait);
      EXPECT_LE(copies, 3u * 99);
    }
  }
  shut_down(nodes);
}

TEST_P(parameter_sets, stay_as_they_are_when_a_reader_writes_to_what_it_has) {
  auto nodes = start({"a", "b"});
  {
    const auto set = nodes[1].make_rref(std::in_place_type<parameter_set>, some());
    for (const auto& from : {set, nodes[0].rpc_sync<&offer_some>("b")}) {
      auto mine = pull(from).tensors;
      auto shard = pull(from, {.shard = 0, .shards = 2}).tensors;
      for (auto* all : {&mine, &shard})
        for (auto& [name, tensor] : *all) tensor.zero_();
      expect_same(pull(from).tensors, some());
    }
    EXPECT_THROW(pull(set, {.newer_than = 1, .limit = 20ms}), rpc_timeout);
    EXPECT_THROW(pull_async(set, {.names = {"no"}}).get(), invalid_argument);
  }
  shut_down(nodes);
}

// A reader that has given up keeps nothing.
TEST_P(parameter_sets, end_with_their_last_reference_though_a_reader_has_waited) {
  auto nodes = start({"a", "b"});
  {
    const auto there = nodes[0].rpc_sync<&offer_some>("b");
    EXPECT_THROW(pull(there, {.newer_than = 1, .limit = 10ms}), rpc_timeout);
  }
  EXPECT_TRUE(eventually([&] {
    return nodes[1].debug_info().owner_rrefs == 0 && nodes[1].debug_info().calls_served == 0;
  }));
  shut_down(nodes);
}

TEST(parameter_set, counts_what_its_writers_copy) {
  auto tensors = ones_to_train(10'000);
  parameter_set set(tensors);
  EXPECT_EQ(set.counts().copies, 0u);
  tensors[0].second.add_(1);
  tensors[0].second.add_(1);
  EXPECT_EQ(set.commit(), 2u);
  EXPECT_EQ(set.counts().copies, 1u);
  EXPECT_EQ(set.counts().copied_bytes, tensors[0].second.storage().nbytes());
  EXPECT_EQ(set.commit(), 3u);
  EXPECT_EQ(set.counts().copies, 1u);
  parameter_set waits(tensors, true);
  for (int i = 0; i < 3; ++i) {
    waits.begin_update();
    // The other set has a snapshot too, until its own next commit.
    for (auto& [name, tensor] : tensors) tensor.add_(1);
    waits.commit();
  }
  EXPECT_EQ(waits.counts().copies, 3u);
}

TEST(parameter_set, refuses_a_name_twice) {
  EXPECT_THROW(parameter_set({{"w", at::full({1}, 1)}, {"w", at::full({1}, 1)}}), invalid_argument);
}

}  // namespace

}  // namespace troupe::test
