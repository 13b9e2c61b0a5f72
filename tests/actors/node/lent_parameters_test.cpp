// Parameter sets whose readers read the owner's memory.

#include "tests/actors/node/lending_job.hpp"
#include "tests/actors/node/parameter_functions.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::test {

namespace {

class lent_parameters : public lending_job {};

constexpr std::int64_t floats = 1 << 20;

TEST_F(lent_parameters, are_copied_once_for_a_version_by_the_next_write) {
  auto tensors = ones_to_train(floats);
  const auto set = node_->make_rref(std::in_place_type<parameter_set>, tensors);
  auto& here = set.local_value();
  for (std::uint64_t version = 1; version <= 5; ++version) {
    const auto copies = copy_on_write::count().copies;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(node_->rpc_sync<&pull_sum>("worker1", set, version), 1u);
      EXPECT_EQ(node_->rpc_sync<&pull_sum>("worker2", set, version), 1u);
    }
    EXPECT_EQ(copy_on_write::count().copies, copies) << "a pull copied";
    for (int i = 0; i < 3; ++i)
      for (auto& [name, tensor] : tensors) tensor.add_(i == 0 ? 1 : 0);
    EXPECT_EQ(copy_on_write::count().copies, copies + 3);
    EXPECT_EQ(here.commit(), version + 1);
    EXPECT_EQ(here.counts().copies, 3 * version);
  }
  end();
}

TEST_F(lent_parameters, are_not_copied_where_readers_wait_and_have_let_go) {
  auto tensors = ones_to_train(floats);
  const auto set = node_->make_rref(std::in_place_type<parameter_set>, tensors, true);
  auto& here = set.local_value();
  for (std::uint64_t version = 1; version <= 5; ++version) {
    EXPECT_EQ(node_->rpc_sync<&pull_sum>("worker1", set, version), 1u);
    // The ends of its loans may still be under way.
    EXPECT_TRUE(eventually([&] { return node_->debug_info().traffic.lent == 0; }));
    const auto copies = copy_on_write::count().copies;
    here.begin_update();
    for (auto& [name, tensor] : tensors) tensor.add_(1);
    EXPECT_EQ(copy_on_write::count().copies, copies);
    here.commit();
  }
  EXPECT_EQ(here.counts().copies, 0u);
  end();
}

TEST_F(lent_parameters, are_of_one_version_for_readers_of_other_processes) {
  const std::vector<std::string> readers{"worker0", "worker1", "worker2", "worker1"};
  for (const bool wait : {false, true}) {
    EXPECT_LE(node_->rpc_sync<&train>("worker2", floats / 4, std::uint64_t{60}, readers, wait),
              3u * 60);
    node_->rpc_sync<&train>("worker0", floats / 4, std::uint64_t{60}, readers, wait);
  }
  end();
}

TEST_F(lent_parameters, stay_as_they_were_with_a_reader_when_their_owner_is_killed) {
  const auto set = node_->rpc_sync<&offer_ones>("worker1", floats);
  const auto got = pull(set);
  ASSERT_EQ(got.tensors.size(), 3u);
  ranks_[0]->kill();
  for (const auto& [name, tensor] : got.tensors) EXPECT_TRUE(tensor.eq(1).all().item<bool>());
  EXPECT_THROW(pull(set), error);
}

}  // namespace

}  // namespace troupe::test
