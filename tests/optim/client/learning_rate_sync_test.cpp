// When learning rates are sent to the shards, and when again.

#include "troupe/optim/client/learning_rate_sync.hpp"

#include <gtest/gtest.h>

namespace troupe::test {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;
using rates = std::vector<detail::rate_of_group>;

class learning_rate_sync : public testing::Test {
protected:
  void set(double rate) { proxy_.param_groups()[0].options().set_lr(rate); }
  detail::learning_rate_sync::delivery next() {
    return sync_->next_delivery([] { return std::uint64_t{7}; });
  }
  detail::learning_rate_sync::delivery set_at_once(std::optional<std::size_t> group, double rate) {
    return sync_->set(group, rate, [] { return std::uint64_t{7}; });
  }

  const detail::optimizer_kind& kind_ = detail::kind_of<SGD>;
  const std::vector<detail::archive_values> groups_{detail::values_of(SGDOptions(1)),
                                                    detail::values_of(SGDOptions(2))};
  const std::shared_ptr<detail::learning_rate_sync> sync_ =
      std::make_shared<detail::learning_rate_sync>();
  torch::optim::Optimizer& proxy_ = sync_->proxy(kind_, groups_);
};

TEST_F(learning_rate_sync, sends_rates_once) {
  EXPECT_EQ(next().rates().changed, rates());  // the shards were made with these options
  set(0.5);
  auto first = next();
  EXPECT_EQ(first.rates().changed, rates({{0, 0.5}}));
  EXPECT_EQ(next().rates().changed, rates());  // on their way
  first.arrived();
  EXPECT_EQ(next().rates().changed, rates());
}

TEST_F(learning_rate_sync, sends_lost_rates_again) {
  set(0.5);
  EXPECT_EQ(next().rates().changed, rates({{0, 0.5}}));  // and is lost
  {
    const auto moved = next();
    EXPECT_EQ(moved.rates().changed, rates({{0, 0.5}}));  // and is lost as well
  }
  next().arrived();
  EXPECT_EQ(next().rates().changed, rates());
}

TEST_F(learning_rate_sync, sends_nothing_again_when_newer_rates_have_arrived) {
  set(0.5);
  {
    const auto older = next();
    set(0.25);
    next().arrived();
  }
  // The newest has arrived: another node may have set another one since.
  EXPECT_EQ(next().rates().changed, rates());
}

TEST_F(learning_rate_sync, sends_the_newest_of_lost_rates_again) {
  set(0.5);
  {
    const auto older = next();
    set(0.25);
    const auto newer = next();
  }
  EXPECT_EQ(next().rates().changed, rates({{0, 0.25}}));
}

TEST_F(learning_rate_sync, sends_the_rates_of_changed_groups_alone) {
  proxy_.param_groups()[1].options().set_lr(0.5);
  auto second = next();
  EXPECT_EQ(second.rates().changed, rates({{1, 0.5}}));
  set(0.25);
  auto first = next();
  EXPECT_EQ(first.rates().changed, rates({{0, 0.25}}));
  EXPECT_EQ(first.rates().from, second.rates().from);
  EXPECT_GT(first.rates().number, second.rates().number);
}

TEST_F(learning_rate_sync, sends_a_rate_that_is_set_also_if_it_is_the_last) {
  set_at_once(0, 0.5).arrived();
  auto again = set_at_once(0, 0.5);
  EXPECT_EQ(again.rates().changed, rates({{0, 0.5}}));
  again.arrived();
  auto all = set_at_once(std::nullopt, 0.25);
  EXPECT_EQ(all.rates().changed, rates({{0, 0.25}, {1, 0.25}}));
  all.arrived();
  EXPECT_EQ(sync_->rate_of(1), 0.25);
  EXPECT_THROW(set_at_once(2, 1), invalid_argument);
  EXPECT_THROW((void)sync_->rate_of(2), invalid_argument);
  EXPECT_EQ(next().rates().changed, rates());
}

TEST_F(learning_rate_sync, does_not_send_what_has_been_loaded) {
  set(0.5);
  sync_->replace(kind_, {detail::values_of(SGDOptions(3)), detail::values_of(SGDOptions(4))});
  EXPECT_EQ(proxy_.param_groups()[1].options().get_lr(), 4);
  EXPECT_EQ(next().rates().changed, rates());
}

}  // namespace
}  // namespace troupe::test
