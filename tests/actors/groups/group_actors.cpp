#include "tests/actors/groups/group_actors.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <memory>

namespace troupe::test {

TROUPE_MESSAGE_CODE(enter_group)
TROUPE_MESSAGE_CODE(sum_awaiting)
TROUPE_MESSAGE_CODE(sum_blocking)
TROUPE_MESSAGE_CODE(sum_until_error)
TROUPE_MESSAGE_CODE(do_task)
TROUPE_MESSAGE_CODE(drop_group)
TROUPE_MESSAGE_CODE(throw_this)

namespace {

float value_of_all(const at::Tensor& x) {
  const auto first = x[0].item<float>();
  if (!x.eq(first).all().item<bool>()) throw std::logic_error("the elements differ");
  return first;
}

task<float> sum_and_wait(process_group group, sum_awaiting asked) {
  const auto x = at::full({asked.elements}, asked.value, at::kFloat);
  co_await all_reduce(group, x, async).get_future();
  co_return value_of_all(x);
}

task<std::string> sum_and_fail(process_group group) {
  try {
    for (int i = 0;; ++i) {
      const auto x = at::full({i % 3 == 0 ? 10'000 : 1}, 1, at::kFloat);
      co_await all_reduce(group, x, async).get_future();
    }
  } catch (const error& e) {
    co_return std::string(to_string(e.code())) + ": " + e.what();
  }
}

}  // namespace

group_actor::behavior_type be_a_member(group_actor::pointer self) {
  const auto group = std::make_shared<process_group>();
  return {
      [=](const enter_group& asked) {
        *group = asked.team.join(self);
        return static_cast<std::int32_t>(group->rank());
      },
      [=](sum_awaiting asked) { return sum_and_wait(*group, asked); },
      [=](const sum_blocking& asked) {
        const auto x = at::full({asked.elements}, asked.value, at::kFloat);
        all_reduce(*group, x);
        return value_of_all(x);
      },
      [=](sum_until_error) { return sum_and_fail(*group); },
      [=](const do_task& asked) {
        member_tasks.at(static_cast<std::size_t>(asked.number))(*group);
      },
      [=](const drop_group&) { *group = process_group(); },
      [=](const throw_this& asked) {
        if (asked.text == "the process") _Exit(7);
        throw std::runtime_error(asked.text);
      },
  };
}

actor_group make_team(const node& on, const std::vector<group_actor>& members,
                      const group_options& options) {
  const actor_group team(on, members, options);
  const auto ranks = when_all(members, enter_group{team}).get();
  for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i], static_cast<int>(i));
  return team;
}

void expect_sums(const std::vector<group_actor>& members, std::int64_t elements) {
  std::vector<future<float>> sums;
  float expected = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto value = static_cast<float>(i + 1);
    sums.push_back(request(members[i], sum_awaiting{elements, value}));
    expected += value;
  }
  for (auto& one : sums) EXPECT_EQ(one.get(), expected);
}

void on_members(const std::vector<group_actor>& members,
                std::function<void(const process_group&)> what) {
  member_tasks.push_back(std::move(what));
  const auto number = static_cast<std::int32_t>(member_tasks.size() - 1);
  when_all(members, do_task{number}).get();
}

}  // namespace troupe::test
