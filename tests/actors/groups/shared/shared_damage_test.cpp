// What other ranks show is not trusted. Rules: docs/collectives_shared.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/actors/groups/shared/shared_ranks.hpp"

namespace troupe::groups {
namespace {

using test::asked_for;
using test::filled_tensor;
using test::shared_ranks;
using testing::HasSubstr;
using namespace std::chrono_literals;

TEST(SharedDamage, RefusesADamagedSegmentAndWrongPlaces) {
  shared_ranks shared(2);
  auto setup = shared.setup_of(0);
  auto wrong = setup;
  wrong.size = 3;
  EXPECT_THROW(shared_group{wrong}, invalid_argument);
  wrong = setup;
  wrong.memories.pop_back();
  EXPECT_THROW(shared_group{wrong}, invalid_argument);
  wrong = setup;
  wrong.area *= 2;
  EXPECT_THROW(shared_group{wrong}, invalid_argument);
  // A rank that says that its memory is larger than the others know.
  std::vector<shared_setup> setups = {shared.setup_of(0), shared.setup_of(1)};
  setups[0].memories[1].size = 4096;
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < 2; ++p)
    threads.emplace_back([&, p] {
      const auto tensor = filled_tensor(setups[p], static_cast<int>(p), 5000);
      shared_group group(std::move(setups[p]));
      try {
        group.all_reduce(asked_for(operation_kind::all_reduce, 1, c10::kFloat, 5000), tensor, 1,
                         time_limit(60s));
      } catch (const error& e) {
        errors[p] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(errors[0], HasSubstr("rank 1 shows a tensor outside of its memory"));
  EXPECT_THAT(errors[1], HasSubstr("rank 0 has aborted the group"));
}

// Rule 7: rank 0 is damaged. It shows rank 1 fewer bytes than that one expects, and says in the
// table of rank 1 that this is what it expects.
TEST(SharedDamage, ChecksWhatIsShownByItsOwnSizes) {
  struct damage {
    operation_kind kind;
    std::uint32_t note;  // 2: in tensors, 3: in areas too, 8: in tensors that are not mapped
    std::int64_t expected;
    std::uint64_t offset, before;
    const char* text;
  };
  constexpr std::size_t area = 4096, last = shared_ranks::memory_of_rank - 4;
  for (const auto& one :
       {damage{operation_kind::all_to_all, 2, 3, last, 0, "a tensor outside of its memory"},
        damage{operation_kind::all_to_all, 3, 2000, 0, 0, "more data than there is room for"},
        damage{operation_kind::all_to_all, 8, 3, 8, 0, "a tensor that is not in its memory"},
        damage{operation_kind::reduce_scatter, 2, 100, last, 0, "a tensor outside of its memory"},
        damage{operation_kind::reduce_scatter, 3, 100, 0, area - 256,
               "more data than there is room for"}}) {
    SCOPED_TRACE(std::string(to_string(one.kind)) + " " + one.text);
    shared_ranks shared(2, area, one.note == 8 ? "cma=0" : "");
    const auto damaged = shared.setup_of(0);
    auto setup = shared.setup_of(1);
    const bool combines = one.kind == operation_kind::reduce_scatter;
    const auto asked = asked_for(one.kind, 1, c10::kFloat, combines ? 2 * one.expected : 0);
    std::string error;
    std::thread other([&] {
      const auto in = filled_tensor(setup, 1, combines ? one.expected : 3);
      const std::vector<tensor_view> inputs(2, in);
      std::vector<float> room(4000);
      auto* const to = reinterpret_cast<std::byte*>(room.data());
      shared_group group(std::move(setup));
      try {
        const time_limit limit(5s);
        const tensor_view out{to, c10::kFloat, one.expected};
        if (combines)
          group.reduce_scatter(asked, inputs, out, 1, limit);
        else
          group.move(asked, inputs,
                     std::vector<tensor_view>{out, {to + 8000, c10::kFloat, in.count}}, limit);
      } catch (const std::exception& e) {
        error = e.what();
      }
    });
    const control_segment control(damaged.control, 2, area);
    control_segment::exchange_type steps(0, 2, control.lines(), control.sleepers(),
                                         control.abort_cause(), waiting::for_ranks(2, 1));
    const auto parity = steps.parity();
    while (control.lines()[2 + parity].step.load(std::memory_order_acquire) != 1)
      std::this_thread::yield();
    control.sends(0, parity)[0].bytes = control.receives(0, parity)[0].bytes = one.before;
    control.sends(0, parity)[1] = {one.offset, 4};
    control.receives(1, parity)[0].bytes = 4;
    control.receives(0, parity)[1].bytes = control.sends(1, parity)[0].bytes;
    step_entry shown;
    shown.note = one.note;
    std::memcpy(shown.words.data(), &asked, sizeof asked);
    steps.post(shown);
    other.join();
    EXPECT_THAT(error, HasSubstr("rank 0 shows " + std::string(one.text)));
  }
}

}  // namespace
}  // namespace troupe::groups
