// Backends of somebody else that throw: while they are made, and while they run.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <condition_variable>
#include <mutex>
#include <troupe/collective_backend.hpp>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

// What a backend throws: an exception of the standard library's, or something that is none.
void throw_of(const std::string& kind) {
  if (kind == "a number") throw 42;
  throw std::runtime_error("the cable is loose");
}

// Ranks that wait for rank 1, in all groups of a test.
std::atomic<int> ranks_that_wait{0};

// On rank 1 the second operation throws. The two other ranks wait for it until they are aborted.
class throwing_backend final : public collective_backend {
public:
  explicit throwing_backend(const backend_request& request)
      : kind_(request.options.at("throws")), rank_(request.rank) {}

  std::string_view name() const noexcept override { return "throwing"; }

  bool supports(operation_kind, c10::ScalarType, c10::DeviceType) const noexcept override {
    return true;
  }

  void run(operation&, const groups::time_limit& limit) override {
    if (++runs_ == 1) return;
    if (rank_ == 1) {
      EXPECT_TRUE(eventually([] { return ranks_that_wait == 2; }));
      throw_of(kind_);
    }
    ++ranks_that_wait;
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, limit.deadline(), [&] { return over_ != nullptr; });
    if (!over_) throw std::logic_error("nobody has aborted it");
    std::rethrow_exception(over_);
  }

  void abort(std::exception_ptr why) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!over_) over_ = why;
    changed_.notify_all();
  }

private:
  const std::string kind_;
  const int rank_;
  int runs_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr over_;
};

class throwing_backends : public testing::TestWithParam<const char*> {
protected:
  throwing_backends() {
    register_backend("throwing", {"cpu"}, [](const backend_request& request) {
      const auto& where = request.options.at("where");
      if (where == "factory" && request.rank == 1) throw_of(request.options.at("throws"));
      return std::make_unique<throwing_backend>(request);
    });
  }
  ~throwing_backends() override { unregister_backend("throwing"); }

  static group_options how(const char* where) {
    return {.timeout = time_limit,
            .backend = "cpu:throwing",
            .backend_options = {{"throws", GetParam()}, {"where", where}}};
  }

  static const char* text() {
    return GetParam() == std::string("a number")
               ? "something that is not a std::exception was thrown"
               : "the cable is loose";
  }
};

INSTANTIATE_TEST_SUITE_P(kinds, throwing_backends, testing::Values("an error", "a number"),
                         [](const auto& info) {
                           return std::string(info.param) == "a number" ? "a_number" : "an_error";
                         });

TEST_P(throwing_backends, make_no_group_on_any_rank) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [](const node& one, int rank) {
    const auto begun = clock::now();
    const auto make = [&] { one.world().new_group({0, 1, 2}, how("factory")); };
    if (rank == 1 && GetParam() == std::string("a number")) {
      EXPECT_THROW(make(), int);
    } else if (rank == 1) {
      EXPECT_EQ(thrown_text<std::runtime_error>(make), text());
    } else {
      EXPECT_EQ(
          thrown_text<group_failed>(make),
          "group 'world/0,1,2#0' was not made, since rank 1 could not: " + std::string(text()));
    }
    EXPECT_LT(clock::now() - begun, time_limit / 2);  // no timing: it is not the deadline
    // Nothing else is the worse for it.
    barrier(one.world());
    barrier(one.world().new_group({0, 1, 2}));
  });
}

TEST_P(throwing_backends, fail_their_group_on_all_ranks) {
  for (const bool started : {false, true}) {
    ranks_that_wait = 0;
    local_group all(3, how("run"));
    all.run([&](const process_group& group, int rank) {
      const auto x = at::ones({3});
      all_reduce(group, x);
      const auto begun = clock::now();
      const auto failed = thrown_text<group_failed>(
          [&] { started ? all_reduce(group, x, async).wait() : all_reduce(group, x); });
      EXPECT_LT(clock::now() - begun, time_limit / 2);  // no timing: it is not the deadline
      EXPECT_THAT(failed, HasSubstr("all_reduce, sequence number 2 of group 'world/0,1,2#0', on "
                                    "rank " +
                                    std::to_string(rank) + ": "));
      EXPECT_THAT(failed, HasSubstr(text()));
      if (rank != 1) {
        EXPECT_THAT(failed, HasSubstr("rank 1 has reported"));
      }
      EXPECT_THAT(thrown_text<group_failed>([&] { barrier(group); }),
                  testing::AllOf(HasSubstr("takes no more operations"), HasSubstr(text())));
      if (rank == 1) return;
      const auto left = group.shrink(
          {1}, false,
          {.backend = "cpu:troupe", .backend_options = {{"collectives", "all_reduce:direct>=0"}}});
      const auto y = at::full({2}, rank, at::kInt);
      all_reduce(left, y);
      EXPECT_EQ(y[1].item<int>(), 2);
    });
  }
}

}  // namespace
}  // namespace troupe::test
