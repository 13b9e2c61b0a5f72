#pragma once

// Actors that are members of groups.

#include <string>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>
#include <vector>

namespace troupe::test {

/// Join the group. Answered with the rank.
struct enter_group {
  actor_group team;
};
TROUPE_MESSAGE_EXTERN(enter_group, team)

/// Sum `elements` elements of `value` over the group, in a coroutine or on the handler's thread.
/// Answered with the sum, if it is that of all elements.
struct sum_awaiting {
  std::int64_t elements = 1;
  float value = 0;
};
TROUPE_MESSAGE_EXTERN(sum_awaiting, elements, value)
struct sum_blocking {
  std::int64_t elements = 1;
  float value = 0;
};
TROUPE_MESSAGE_EXTERN(sum_blocking, elements, value)

/// Sum again and again until there is an error. Answered with "actor_down: its text".
struct sum_until_error {};
TROUPE_MESSAGE_EXTERN(sum_until_error)

/// Do what the function does that is registered for tests under this number (`member_tasks`).
struct do_task {
  std::int32_t number = 0;
};
TROUPE_MESSAGE_EXTERN(do_task, number)

struct drop_group {};
TROUPE_MESSAGE_EXTERN(drop_group)

/// Throw this. The process ends instead if it is "the process".
struct throw_this {
  std::string text;
};
TROUPE_MESSAGE_EXTERN(throw_this, text)

using group_actor = actor<answers<enter_group, std::int32_t>,     //
                          answers<sum_awaiting, float>,           //
                          answers<sum_blocking, float>,           //
                          answers<sum_until_error, std::string>,  //
                          answers<do_task>,                       //
                          answers<drop_group>,                    //
                          answers<throw_this>>;

group_actor::behavior_type be_a_member(group_actor::pointer self);

/// What actors of this process do when they are asked to, with their group.
inline std::vector<std::function<void(const process_group&)>> member_tasks;

/// All of them join a new group, whose ranks are in their order.
actor_group make_team(const node& on, const std::vector<group_actor>& members,
                      const group_options& options = {});

/// Every member `i` sums i + 1; checks the results.
void expect_sums(const std::vector<group_actor>& members, std::int64_t elements = 1);

/// All of them do this, which gets their groups.
void on_members(const std::vector<group_actor>& members,
                std::function<void(const process_group&)> what);

}  // namespace troupe::test
