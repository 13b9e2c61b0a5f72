// When learning rates are sent to the shards, and when again.

#include "troupe/optim/client/learning_rate_sync.hpp"

#include <gtest/gtest.h>

namespace troupe::test {
namespace {

using torch::optim::SGD;
using torch::optim::SGDOptions;
using rates = std::vector<double>;

class learning_rate_sync : public testing::Test {
protected:
  void set(double rate) { proxy_.param_groups()[0].options().set_lr(rate); }
  detail::learning_rate_sync::delivery next() { return sync_->next_delivery(); }

  const detail::optimizer_kind& kind_ = detail::kind_of<SGD>;
  const std::vector<detail::archive_values> groups_{detail::values_of(SGDOptions(1)),
                                                    detail::values_of(SGDOptions(2))};
  const std::shared_ptr<detail::learning_rate_sync> sync_ =
      std::make_shared<detail::learning_rate_sync>();
  torch::optim::Optimizer& proxy_ = sync_->proxy(kind_, groups_);
};

TEST_F(learning_rate_sync, sends_rates_once) {
  EXPECT_EQ(next().rates(), rates());  // the shards were made with these options
  set(0.5);
  auto first = next();
  EXPECT_EQ(first.rates(), rates({0.5, 2}));
  EXPECT_EQ(next().rates(), rates());  // on their way
  first.arrived();
  EXPECT_EQ(next().rates(), rates());
}

TEST_F(learning_rate_sync, sends_lost_rates_again) {
  set(0.5);
  EXPECT_EQ(next().rates(), rates({0.5, 2}));  // and is lost
  {
    const auto moved = next();
    EXPECT_EQ(moved.rates(), rates({0.5, 2}));  // and is lost as well
  }
  next().arrived();
  EXPECT_EQ(next().rates(), rates());
}

TEST_F(learning_rate_sync, sends_the_newest_when_older_rates_are_lost) {
  set(0.5);
  {
    const auto older = next();
    set(0.25);
    next().arrived();
  }
  auto again = next();
  EXPECT_EQ(again.rates(), rates({0.25, 2}));
  again.arrived();
  EXPECT_EQ(next().rates(), rates());
}

TEST_F(learning_rate_sync, does_not_send_what_has_been_loaded) {
  set(0.5);
  sync_->replace(kind_, {detail::values_of(SGDOptions(3)), detail::values_of(SGDOptions(4))});
  EXPECT_EQ(proxy_.param_groups()[1].options().get_lr(), 4);
  EXPECT_EQ(next().rates(), rates());
}

}  // namespace
}  // namespace troupe::test
