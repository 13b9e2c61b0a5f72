// Groups and their communicators: made when they are needed or with the group, split, shrunk,
// ended.

#include <ATen/ops/full.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/nccl/nccl_testing.hpp"
#include "troupe/actors/groups/nccl/nccl_backend.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

// The sum over the ranks of a group of their ranks in it, plus one each.
void check_sum(const process_group& group, c10::Device device) {
  const auto x = at::full({3}, group.rank() + 1, at::TensorOptions(at::kLong).device(device));
  all_reduce(group, x);
  EXPECT_EQ(x.cpu()[0].item<std::int64_t>(), group.size() * (group.size() + 1) / 2);
}

void finish_device(int rank) {
  c10::impl::VirtualGuardImpl(accelerator::device_type)
      .synchronizeDevice(device_of_rank(rank).index());
}

TEST(nccl_groups, make_communicators_when_they_are_needed) {
  local_group all(2, on_nccl_double());
  const auto before = double_calls("init");
  run_on_devices(all, [](const process_group& group, int) { barrier(group); });
  EXPECT_EQ(double_calls("init"), before);
  run_on_devices(all, [](const process_group& group, int rank) {
    check_sum(group, device_of_rank(rank));
    check_sum(group, device_of_rank(rank));
    // Another device of this rank has another one.
    check_sum(group, device_of_rank(rank + 2));
  });
  EXPECT_EQ(double_calls("init"), before + 4);
}

TEST(nccl_groups, make_them_with_the_group_if_it_names_devices) {
  register_nccl_double();
  const auto before = double_calls("init");
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [&](const node& one, int rank) {
    auto how = on_nccl_double({.device = device_of_rank(rank).str()});
    const auto group = one.world().new_group({0, 1}, how);
    EXPECT_EQ(double_calls("init"), before + 2);
    check_sum(group, device_of_rank(rank));
    EXPECT_EQ(double_calls("init"), before + 2);
  });
  on_each(nodes, [&](const node& one, int rank) {
    auto how = on_nccl_double();
    if (rank == 1) how.device = "sim:1";
    EXPECT_THAT(thrown_text<std::exception>([&] {
                  one.world().new_group({0, 1}, how);
                }),
                HasSubstr("rank 0 names no group_options::device, and rank 1 does"));
  });
  on_each(nodes, [&](const node& one, int) {
    const auto how = on_nccl_double({.device = "sim:9"});
    EXPECT_THAT(thrown_text<std::exception>([&] {
                  one.world().new_group({0, 1}, how);
                }),
                HasSubstr("'sim:9' is none of the 4 devices of type sim"));
  });
}

TEST(nccl_groups, are_split_without_a_new_initialization) {
  local_group all(4, on_nccl_double());
  run_on_devices(
      all, [](const process_group& group, int rank) { check_sum(group, device_of_rank(rank)); });
  const auto inits = double_calls("init"), splits = double_calls("split");
  run_on_devices(all, [](const process_group& group, int rank) {
    // Turned round; the last one is in none.
    const auto part = group.split(rank == 3 ? -1 : rank == 2 ? 7 : 1, -rank);
    EXPECT_EQ(part.is_member(), rank != 3);
    if (rank == 3) return;
    EXPECT_EQ(part.rank(), rank == 0 ? 1 : 0);
    check_sum(part, device_of_rank(rank));
    // The rank in the communicator is that in the group.
    const auto x = at::full({1}, rank, at::TensorOptions(at::kLong).device(device_of_rank(rank)));
    broadcast(part, x, 0);
    EXPECT_EQ(x.cpu()[0].item<std::int64_t>(), rank == 2 ? 2 : 1);
  });
  EXPECT_EQ(double_calls("init"), inits);
  EXPECT_EQ(double_calls("split"), splits + 4);
}

TEST(nccl_groups, are_shrunk_without_a_new_initialization) {
  local_group all(3, on_nccl_double());
  run_on_devices(
      all, [](const process_group& group, int rank) { check_sum(group, device_of_rank(rank)); });
  const auto inits = double_calls("init");
  run_on_devices(all, [](const process_group& group, int rank) {
    if (rank == 1) return;
    const auto left = group.shrink({1});
    EXPECT_EQ(left.rank(), rank / 2);
    check_sum(left, device_of_rank(rank));
  });
  EXPECT_EQ(double_calls("init"), inits);
  // Of a group that has failed nothing can be used.
  local_group failed(3, on_nccl_double());
  run_on_devices(
      failed, [](const process_group& group, int rank) { check_sum(group, device_of_rank(rank)); });
  failed.groups[0].abort();
  const auto before = double_calls("init");
  run_on_devices(failed, [](const process_group& group, int rank) {
    if (rank == 1) return;
    check_sum(group.shrink({1}, true), device_of_rank(rank));
  });
  EXPECT_EQ(double_calls("init"), before + 2);
}

TEST(nccl_groups, an_abort_reaches_what_was_split_off) {
  local_group all(2, on_nccl_double());
  std::vector<process_group> parts(2);
  run_on_devices(all, [&](const process_group& group, int rank) {
    check_sum(group, device_of_rank(rank));
    parts[static_cast<std::size_t>(rank)] = group.split(0);
    check_sum(parts[static_cast<std::size_t>(rank)], device_of_rank(rank));
  });
  const double_faults wrong("all_reduce:0:-1:hangs");
  std::atomic<int> waiting{0};
  std::thread outside([&] {
    EXPECT_TRUE(eventually([&] { return waiting.load() == 2; }));
    all.groups[0].abort();
  });
  run_on_devices(all, [&](const process_group&, int rank) {
    const auto& part = parts[static_cast<std::size_t>(rank)];
    const auto x = at::full({3}, 1, at::TensorOptions(at::kLong).device(device_of_rank(rank)));
    const auto started = all_reduce(part, x, async);
    ++waiting;
    EXPECT_THAT(thrown_text<group_failed>([&] { started.result(); }), HasSubstr("was aborted"));
    c10::impl::VirtualGuardImpl(accelerator::device_type)
        .synchronizeDevice(device_of_rank(rank).index());
  });
  outside.join();
}

// The handle goes while the operation is on its stream: PyTorch's examples do that.
TEST(nccl_groups, may_be_dropped_right_behind_an_operation) {
  EXPECT_TRUE(eventually([] { return double_communicators() == 0; }));  // of those before
  const auto aborts = double_calls("abort");
  {
    local_group all(2, on_nccl_double());
    run_on_devices(all, [](const process_group& group, int rank) {
      check_sum(group, device_of_rank(rank));
      const auto x = at::full({9}, 1, at::TensorOptions(at::kLong).device(device_of_rank(rank)));
      const accelerator::slow late(30ms);
      {
        const auto part = group.split(0);
        all_reduce(part, x);
        all_reduce(part, x, async);
      }
      finish_device(rank);
      EXPECT_EQ(x.cpu()[8].item<std::int64_t>(), 4);
    });
  }
  EXPECT_TRUE(eventually([] { return double_communicators() == 0; }));
  EXPECT_EQ(double_calls("abort"), aborts);
}

// A rank is late to leave: NCCL's end waits for it, and gives up. What was split off works on.
TEST(nccl_groups, outlive_the_group_that_they_were_split_off) {
  local_group all(2, on_nccl_double());
  run_on_devices(all, [](const process_group& world, int rank) {
    check_sum(world, device_of_rank(rank));
    auto base = world.split(0);
    check_sum(base, device_of_rank(rank));
    const auto part = base.split(0);
    if (rank == 0) base = process_group();
    check_sum(part, device_of_rank(rank));
    if (rank == 0) std::this_thread::sleep_for(5500ms);
    check_sum(part, device_of_rank(rank));
  });
}

TEST(nccl_groups, end_by_their_last_handle_in_a_continuation) {
  local_group all(2, on_nccl_double());
  run_on_devices(all, [](const process_group& world, int rank) {
    check_sum(world, device_of_rank(rank));
    auto part = std::make_shared<process_group>(world.split(0));
    std::atomic<bool> over{false};
    const auto x = at::full({3}, 1, at::TensorOptions(at::kLong).device(device_of_rank(rank)));
    const auto started = all_reduce(*part, x, async);
    started.get_future().then([&over, gone = std::exchange(part, nullptr)](
                                  const future<std::vector<at::Tensor>>&) mutable {
      gone.reset();
      over = true;
    });
    EXPECT_TRUE(eventually([&] { return over.load(); }));
    EXPECT_EQ(x.cpu()[2].item<std::int64_t>(), 2);
  });
}

TEST(nccl_groups, are_made_nowhere_if_one_rank_cannot) {
  register_nccl_double();
  auto nodes = local_nodes(rank_names(2));
  const auto begun = clock::now();
  on_each(nodes, [&](const node& one, int rank) {
    const auto how = on_nccl_double({.device = rank == 1 ? "sim:9" : "sim:0"});
    EXPECT_THAT(thrown_text<std::exception>([&] {
                  one.world().new_group({0, 1}, how);
                }),
                HasSubstr("rank 1 cannot use NCCL: 'sim:9' is none of the 4 devices of type sim"));
  });
  EXPECT_LT(clock::now() - begun, 5s);
}

TEST(nccl_groups, register_memory_of_their_own) {
  const auto allocated = double_calls("mem_alloc"), freed = double_calls("mem_free"),
             registered = double_calls("register_window"), gone = double_calls("deregister_window");
  {
    local_group all(2, on_nccl_double());
    run_on_devices(all, [](const process_group& group, int rank) {
      const auto x = empty_symmetric(group, {3, 5}, at::kBFloat16, device_of_rank(rank));
      EXPECT_EQ(x.device(), device_of_rank(rank));
      EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{3, 5}));
      x.fill_(rank + 1);
      all_reduce(group, x);
      EXPECT_TRUE(same_bits(x, at::full({3, 5}, 3, at::kBFloat16)));
      EXPECT_EQ(empty_symmetric(group, {0}, at::kFloat, device_of_rank(rank)).numel(), 0);
      EXPECT_THAT(thrown_text<invalid_argument>(
                      [&] { empty_symmetric(group, {1}, at::kFloat, c10::Device(c10::kCPU)); }),
                  HasSubstr("has no backend for cpu, which could register memory"));
      EXPECT_THAT(
          thrown_text<invalid_argument>([&] {
            empty_symmetric(group, {1LL << 62, 1LL << 62}, at::kFloat, device_of_rank(rank));
          }),
          HasSubstr("out of range"));
    });
  }
  EXPECT_EQ(double_calls("mem_alloc"), allocated + 4);
  EXPECT_TRUE(eventually([&] { return double_calls("mem_free") == freed + 4; }));
  EXPECT_EQ(double_calls("register_window"), registered + 4);
  EXPECT_EQ(double_calls("deregister_window"), gone + 4);
}

// What the others still need of a rank that leaves is not torn away.
TEST(nccl_groups, end_their_communicators_in_good_order) {
  EXPECT_TRUE(eventually([] { return double_communicators() == 0; }));  // of those before
  const auto aborts = double_calls("abort"), ends = double_calls("destroy");
  {
    local_group all(2, on_nccl_double());
    run_on_devices(all, [](const process_group& group, int rank) {
      check_sum(group, device_of_rank(rank));
      const auto x = at::full({3}, 1, at::TensorOptions(at::kLong).device(device_of_rank(rank)));
      all_reduce(group, x, async).result();
      group.destroy();
    });
  }
  EXPECT_TRUE(eventually([] { return double_communicators() == 0; }));
  EXPECT_TRUE(eventually([&] { return double_calls("destroy") == ends + 2; }));
  EXPECT_EQ(double_calls("abort"), aborts);
}

TEST(nccl_groups, refuse_options_that_nccl_does_not_have) {
  const auto made_with = [](const std::string& name, const std::string& value) {
    return thrown_text<std::exception>([&] {
      local_group all(1, on_nccl_double({.backend_options = {{name, value}}}));
    });
  };
  EXPECT_THAT(made_with("nccl.min_ctas", "0"), HasSubstr("'nccl.min_ctas' is '0': give a number"));
  EXPECT_THAT(made_with("nccl.speed", "9"), HasSubstr("NCCL has no option 'nccl.speed'"));
  EXPECT_THAT(made_with("nccl.cta_policy", "most"), HasSubstr("default, efficiency or zero"));
  EXPECT_EQ(made_with("nccl.max_ctas", "4"), "");
}

TEST(nccl_groups, say_how_to_get_a_library_that_is_not_there) {
  register_nccl_double();
  static std::once_flag once;
  std::call_once(
      once, [] { groups::nccl::register_nccl("nccl_nowhere", "sim", "/nowhere/libnccl.so.2"); });
  EXPECT_THAT(thrown_text<std::exception>(
                  [&] { local_group all(1, {.backend = "cpu:troupe,sim:nccl_nowhere"}); }),
              testing::AllOf(HasSubstr("NCCL cannot be opened"), HasSubstr("/nowhere/libnccl"),
                             HasSubstr("TROUPE_NCCL_LIBRARY")));
}

}  // namespace
}  // namespace troupe::test
