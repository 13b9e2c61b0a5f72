// An abort in the middle of an operation. Rules: docs/collectives_shared.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "tests/actors/groups/shared/shared_ranks.hpp"

namespace troupe::groups {
namespace {

using test::asked_for;
using test::filled_tensor;
using test::shared_ranks;
using testing::HasSubstr;
using namespace std::chrono_literals;

// A page whose first use aborts a group: in the middle of the operation that reads or writes it.
class aborting_page {
public:
  aborting_page(std::byte* page, const shared_setup& of)
      : page_(page), control_(of.control, of.size, of.area) {
    current_ = this;
    struct sigaction catches {};
    catches.sa_sigaction = &on_fault;
    catches.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &catches, &before_);
    mprotect(page_, bytes, PROT_NONE);
  }
  ~aborting_page() {
    mprotect(page_, bytes, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before_, nullptr);
  }
  aborting_page(const aborting_page&) = delete;
  aborting_page& operator=(const aborting_page&) = delete;

private:
  static constexpr std::size_t bytes = 4096;

  static void on_fault(int, siginfo_t* where, void*) {
    const auto* const at = static_cast<std::byte*>(where->si_addr);
    if (at < current_->page_ || at >= current_->page_ + bytes) abort();
    current_->control_.abort(1, current_->reason_);
    mprotect(current_->page_, bytes, PROT_READ | PROT_WRITE);
  }

  inline static aborting_page* current_ = nullptr;
  std::byte* const page_;
  const control_segment control_;
  const std::string reason_ = "in the middle";
  struct sigaction before_ {};
};

// Rule 6: the part that a rank works on has more than it does between two looks.
TEST(SharedAbort, StopsInTheMiddleWhenAnyRankAborts) {
  constexpr std::size_t whole = shared_ranks::memory_of_rank, part = whole / 2;
  constexpr auto count = static_cast<std::int64_t>(whole / sizeof(float));
  for (const auto kind : {operation_kind::all_reduce, operation_kind::broadcast,
                          operation_kind::reduce_scatter, operation_kind::all_to_all}) {
    SCOPED_TRACE(to_string(kind));
    shared_ranks shared(2);
    std::vector<shared_setup> setups = {shared.setup_of(0), shared.setup_of(1)};
    for (int p = 0; p < 2; ++p) filled_tensor(setups[static_cast<std::size_t>(p)], p, count);
    // Rank 0 works on the first half of what rank 1 has.
    const aborting_page page(shared_ranks::memory_of(setups[0], 1) + 4096, setups[0]);
    auto* const own = reinterpret_cast<float*>(shared_ranks::memory_of(setups[0], 0));
    std::vector<float> apart(whole / sizeof(float));
    std::vector<std::string> errors(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        const auto r = static_cast<std::size_t>(rank);
        const tensor_view mine{shared_ranks::memory_of(setups[r], rank), c10::kFloat, count};
        const tensor_view halves[] = {{mine.data, c10::kFloat, count / 2},
                                      {mine.data + part, c10::kFloat, count / 2}};
        std::vector<float> others(rank == 0 ? 0 : apart.size());
        auto* const to = reinterpret_cast<std::byte*>(rank == 0 ? apart.data() : others.data());
        const tensor_view out[] = {{to + part, c10::kFloat, count / 2},
                                   {to, c10::kFloat, count / 2}};
        shared_group group(setups[r]);
        const time_limit limit(60s);
        try {
          const auto elements = kind == operation_kind::all_to_all ? 0 : count;
          const auto asked = asked_for(kind, 1, c10::kFloat, elements, 1);
          if (kind == operation_kind::all_reduce)
            group.all_reduce(asked, mine, 1, limit);
          else if (kind == operation_kind::broadcast)
            group.broadcast(asked, mine, limit);
          else if (kind == operation_kind::reduce_scatter)
            group.reduce_scatter(asked, halves, out[1], 1, limit);
          else
            group.move(asked, halves, out, limit);
        } catch (const group_failed& e) {
          errors[r] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    for (const auto& e : errors) EXPECT_THAT(e, HasSubstr("in the middle"));
    const auto* const written =
        kind == operation_kind::all_reduce || kind == operation_kind::broadcast ? own
                                                                                : apart.data();
    EXPECT_FLOAT_EQ(written[100], 1);
    EXPECT_FLOAT_EQ(written[300'000 / sizeof(float)], 0);
  }
}

}  // namespace
}  // namespace troupe::groups
