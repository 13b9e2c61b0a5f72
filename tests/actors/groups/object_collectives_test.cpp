// Collectives of values of any type, and the barrier that names who is missing.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/tracing/flight_recorder.hpp"

namespace troupe::test {

struct group_object {
  std::string name;
  std::vector<double> numbers;
  at::Tensor tensor;
};
TROUPE_MESSAGE(group_object, name, numbers, tensor)

namespace {

using testing::HasSubstr;

group_object object_of(int rank) {
  return {"rank " + std::to_string(rank), std::vector<double>(static_cast<std::size_t>(rank), 0.5),
          at::full({rank * 3000 + 1}, rank, at::kInt)};
}

void expect_object(const group_object& found, int rank) {
  const auto expected = object_of(rank);
  EXPECT_EQ(found.name, expected.name);
  EXPECT_EQ(found.numbers, expected.numbers);
  EXPECT_TRUE(at::equal(found.tensor, expected.tensor));
}

TEST(object_collectives, move_values_of_any_size) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    auto object = object_of(rank);
    broadcast_object(group, object, 2);
    expect_object(object, 2);
    object.tensor.add_(1);  // it is this rank's own

    const auto gathered = all_gather_object(group, object_of(rank));
    ASSERT_EQ(gathered.size(), 3u);
    for (int from = 0; from < 3; ++from)
      expect_object(gathered[static_cast<std::size_t>(from)], from);

    const auto some = gather_object(group, object_of(rank), 1);
    EXPECT_EQ(some.size(), rank == 1 ? 3u : 0u);
    if (rank == 1) expect_object(some[2], 2);

    std::vector<group_object> parts;
    if (rank == 0)
      for (int to = 0; to < 3; ++to) parts.push_back(object_of(to));
    expect_object(scatter_object(group, parts, 0), rank);

    if (rank == 0) {
      for (int i = 0; i < 2; ++i) {
        const auto [found, from] = recv_object<group_object>(group, any_source, 3);
        expect_object(found, from);
      }
    } else {
      send_object(group, object_of(rank), 0, 3);
    }

    std::vector<std::string> texts{std::to_string(rank), "x"};
    broadcast_object_list(group, texts, 1);
    EXPECT_EQ(texts, (std::vector<std::string>{"1", "x"}));
  });
}

TEST(object_collectives, refuse_what_is_not_one_for_each_rank) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    for (const auto& given : {std::vector<int>(), std::vector{1}, std::vector{1, 2, 3}}) {
      const auto scatter = [&] {
        scatter_object(group, rank == 0 ? given : std::vector<int>(), 0);
      };
      const auto why =
          given.empty() ? std::string("source rank must provide non-None scatter_object_input_list")
                        : fmt::format("{} objects are not one for each of 2 ranks", given.size());
      const auto told =
          rank == 0 ? thrown_text<invalid_argument>(scatter) : thrown_text<remote_error>(scatter);
      EXPECT_THAT(told, HasSubstr(why));
      if (rank == 1) {
        EXPECT_THAT(told, HasSubstr("rank 0 has failed"));
      }
    }
    EXPECT_EQ(scatter_object(group, std::vector{5, 6}, 0), 5 + rank);  // the group goes on
  });
}

TEST(object_collectives, fail_on_all_ranks_where_one_has_none_to_give) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    const auto text = [](auto f) { return thrown_text<remote_error>(f); };
    const auto one_or_none = [&] {
      if (rank == 1) throw std::out_of_range("there is no file");
      return rank;
    };
    const auto run = [&](auto f, const char* expected) {
      if (rank == 1) {
        EXPECT_EQ(thrown_text<std::out_of_range>(f), "there is no file");
      } else {
        EXPECT_THAT(text(f), HasSubstr(expected));
      }
    };
    run([&] { broadcast_result(group, 1, one_or_none); }, "rank 1 has failed: there is no file");
    run([&] { all_gather_results(group, one_or_none); }, "rank 1 has failed: there is no file");
    EXPECT_EQ(broadcast_result(group, 2, one_or_none), 2);
    EXPECT_EQ(all_gather_results(group, [&] { return 10 * rank; }), (std::vector{0, 10, 20}));

    // Such a tensor has no bytes.
    const group_object none{"none", {}, at::empty({3}, at::TensorOptions().device(at::kMeta))};
    const auto mine = rank == 1 ? none : object_of(rank);
    const auto fails = [&](auto f) {
      EXPECT_THAT(thrown_text<error>(f), testing::Not(testing::IsEmpty()));
    };
    auto object = mine;
    fails([&] { broadcast_object(group, object, 1); });
    fails([&] { all_gather_object(group, mine); });
    fails([&] { gather_object(group, mine, 2); });
    fails([&] {
      scatter_object(group, std::vector<group_object>{object_of(0), object_of(1), none}, 1);
    });
    if (rank == 1) fails([&] { send_object(group, none, 0); });
    if (rank == 0) {
      EXPECT_THAT(text([&] { recv_object<group_object>(group, 1); }),
                  HasSubstr("rank 1 has failed"));
    }
    // The group goes on.
    EXPECT_EQ(all_gather_object(group, rank), (std::vector{0, 1, 2}));
  });
}

TEST(object_collectives, notice_another_type) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    if (rank == 0) {
      send_object(group, std::string("text"), 1);
    } else {
      EXPECT_THROW(recv_object<std::vector<std::string>>(group, 0), decode_error);
    }
  });
}

TEST(monitored_barrier, passes_when_all_are_there) {
  local_group all(3);
  all.run([](const process_group& group, int) {
    for (int i = 0; i < 5; ++i) monitored_barrier(group, 60s, i % 2 == 0);
  });
  local_group alone(1);
  monitored_barrier(alone.groups[0], 1ms);
}

TEST(monitored_barrier, names_the_first_that_is_missing) {
  local_group all(4);
  all.run([](const process_group& group, int rank) {
    if (rank == 1 || rank == 3) return;
    const auto text = thrown_text<collective_timeout>([&] { monitored_barrier(group, 100ms); });
    EXPECT_THAT(text,
                HasSubstr(rank == 0 ? "Rank 1 failed to pass monitoredBarrier in 100 ms"
                                    : "Rank 2 successfully reached monitoredBarrier, but received "
                                      "errors while waiting for send/recv from rank 0"));
  });
  // The late ones learn it, and the group goes on.
  all.run([](const process_group& group, int rank) {
    if (rank == 1 || rank == 3) {
      EXPECT_THROW(monitored_barrier(group, 60s), collective_timeout);
    }
    monitored_barrier(group, 60s);
    barrier(group);
  });
}

TEST(monitored_barrier, names_all_that_are_missing) {
  local_group all(4);
  EXPECT_THAT(
      thrown_text<collective_timeout>([&] { monitored_barrier(all.groups[0], 50ms, true); }),
      HasSubstr("Ranks 1, 2, 3 failed to pass monitoredBarrier in 50 ms"));
}

TEST(monitored_barrier, passes_nothing_that_was_started) {
  local_group all(3);
  all.run([](const process_group& group, int) {
    for (int i = 0; i < 20; ++i) {
      std::vector<work> started;
      for (int j = 0; j < 3; ++j) started.push_back(all_reduce(group, at::ones({10}), async));
      monitored_barrier(group, 10s);
      for (const auto& one : started) EXPECT_TRUE(one.is_success());
    }
  });
}

TEST(monitored_barrier, has_its_own_limit_on_a_new_group) {
  auto nodes = local_nodes(rank_names(2));
  EXPECT_THAT(thrown_text<collective_timeout>([&] { monitored_barrier(nodes[0].world(), 50ms); }),
              HasSubstr("Rank 1 failed to pass monitoredBarrier in 50 ms"));
  // The group is as good as before.
  on_each(nodes, [](const node& one, int rank) {
    if (rank == 1) {
      EXPECT_THROW(monitored_barrier(one.world(), 60s), collective_timeout);
    }
    monitored_barrier(one.world(), 60s);
    barrier(one.world());
  });
}

TEST(monitored_barrier, tells_all_that_a_rank_has_left) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    if (rank == 1) return group.destroy();
    if (rank == 0) {
      EXPECT_THAT(thrown_text<group_failed>([&] { monitored_barrier(group, 60s); }),
                  HasSubstr("rank 1 has destroyed group"));
    } else {
      EXPECT_THAT(thrown_text<error>([&] { monitored_barrier(group, 60s); }),
                  HasSubstr("rank 1 has destroyed group"));
    }
  });
}

TEST(monitored_barrier, misses_rank_0_too) {
  local_group all(2);
  EXPECT_THAT(thrown_text<collective_timeout>([&] { monitored_barrier(all.groups[1], 50ms); }),
              HasSubstr("Rank 1 successfully reached monitoredBarrier, but received errors while "
                        "waiting for send/recv from rank 0"));
}

TEST(monitored_barrier, is_recorded_and_named_as_other_operations_are) {
  local_group all(2);
  std::promise<void> timed_out;
  all.run([&](const process_group& group, int rank) {
    std::mutex mutex;
    std::vector<completed_work> ended;
    group.on_completion([&](const completed_work& one) {
      const std::lock_guard lock(mutex);
      ended.push_back(one);
    });
    barrier(group);
    monitored_barrier(group, 60s);
    if (rank == 0) {
      EXPECT_EQ(thrown_text<collective_timeout>([&] { monitored_barrier(group, 50ms); }),
                fmt::format("monitored_barrier, sequence number 2 of group '{}', on rank 0: [Rank "
                            "0]: Rank 1 failed to pass monitoredBarrier in 50 ms",
                            group.name()));
      timed_out.set_value();
      EXPECT_EQ(group.sequence_number(), 1u);
      const auto trace = nlohmann::json::parse(group.trace()).at("operations");
      ASSERT_EQ(trace.size(), 3u);
      EXPECT_EQ(trace[1].at("kind"), "monitored_barrier");
      EXPECT_EQ(trace[1].at("sequence"), 1);
      EXPECT_EQ(trace[1].at("state"), "completed");
      EXPECT_EQ(trace[2].at("sequence"), 2);
      EXPECT_EQ(trace[2].at("state"), "failed");
      const std::lock_guard lock(mutex);
      ASSERT_EQ(ended.size(), 3u);
      EXPECT_EQ(ended[1].operation, "monitored_barrier");
      EXPECT_FALSE(ended[1].exception);
      EXPECT_EQ(ended[2].sequence, 2u);
      EXPECT_TRUE(ended[2].exception);
    } else {
      timed_out.get_future().wait();
      EXPECT_THAT(thrown_text<collective_timeout>([&] { monitored_barrier(group, 60s); }),
                  HasSubstr(fmt::format("monitored_barrier, sequence number 2 of group '{}', on "
                                        "rank 1: Rank 1 successfully reached",
                                        group.name())));
    }
    group.destroy();  // no hook is called any more
  });
}

TEST(flight_recorder, tells_what_ran) {
  local_group all(2, {.description = "traced"});
  all.run([](const process_group& group, int rank) {
    const auto x = at::ones({5});
    all_reduce(group, x);
    if (rank == 0)
      send(group, x, 1, 4);
    else
      recv(group, x, 0, 4);
    for (int i = 0; i < 1100; ++i) barrier(group);
    EXPECT_EQ(groups::flight_recorder::capacity, 1000u);
    const temporary_folder folder;
    const auto path = group.write_trace(folder.path().string());
    EXPECT_THAT(path, HasSubstr("world_0_1_traced_0_"));
    EXPECT_THAT(path, testing::EndsWith(fmt::format("_rank{}.json", rank)));
    const auto text = group.trace();
    EXPECT_THAT(text, HasSubstr("\"description\": \"traced\""));
    EXPECT_THAT(text, HasSubstr("\"kind\": \"barrier\""));
    EXPECT_THAT(text, testing::Not(HasSubstr("all_reduce")));
  });
}

TEST(flight_recorder, is_written_when_an_operation_fails) {
  const temporary_folder folder;
  local_group all(2, {.trace_directory = folder.path().string()});
  all.run([](const process_group& group, int rank) {
    const auto x = at::ones({5}, rank == 0 ? at::kFloat : at::kInt);
    all_reduce(group, at::ones({2}));
    EXPECT_THROW(all_reduce(group, x), collective_mismatch);
  });
  // The thread that brings the other rank's failure may write it, a moment later.
  const auto trace_of = [&](int rank) {
    std::string text;
    for (const auto& file : std::filesystem::directory_iterator(folder.path()))
      if (file.path().string().ends_with(fmt::format("_rank{}.json", rank))) {
        std::ifstream in(file.path());
        text.assign(std::istreambuf_iterator<char>(in), {});
      }
    return text;
  };
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(eventually([&] { return !trace_of(rank).empty(); }));
    const auto text = trace_of(rank);
    EXPECT_THAT(text, HasSubstr("the ranks disagree"));
    EXPECT_THAT(text, HasSubstr("\"state\": \"completed\""));
    EXPECT_THAT(text, HasSubstr(rank == 0 ? "\"dtype\": \"Float\"" : "\"dtype\": \"Int\""));
  }
}

}  // namespace
}  // namespace troupe::test
