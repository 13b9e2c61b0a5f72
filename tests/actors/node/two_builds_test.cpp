// A job of two programs that do not mean the same by a type's name: nothing of it arrives as
// garbage. This one is rank 0, other_build_program rank 1.

#include "tests/actors/node/two_builds.hpp"

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {

using namespace builds;

namespace {

using testing::HasSubstr;

class two_builds : public testing::Test {
protected:
  two_builds() : file_((folder_.path() / "meet").string()) {
    other_ = std::make_unique<rank_process>(
        std::vector<std::string>{TROUPE_TEST_PROGRAM_DIR "/other_build_program", file_});
    rpc_options options;
    options.rank = 0;
    options.world_size = 2;
    options.init_method = "file://" + file_;
    node_.emplace(init_rpc(options));
  }

  void end() {
    node_->shutdown(true, time_limit);
    EXPECT_TRUE(eventually([&] { return other_->ended(); }));
    EXPECT_TRUE(other_->ended_well());
  }

  temporary_folder folder_;
  std::string file_;
  std::unique_ptr<rank_process> other_;
  std::optional<node> node_;
};

TEST_F(two_builds, have_the_callees_defaults) {
  EXPECT_EQ(node_->rpc_sync<&trained>(1, 3), 300);
  EXPECT_EQ(node_->rpc_sync<&trained>(0, 3), 30);
  EXPECT_EQ(node_->rpc_sync<&trained>(1, 3, 2), 6);
  EXPECT_EQ(node_->rpc_sync<int(int)>(1, "learn", 3), 300) << "of a parameter unknown here";
  end();
}

TEST_F(two_builds, refuse_calls_with_types_that_differ) {
  EXPECT_EQ(node_->rpc_sync<&take_tree>(1, tree{1, {{2, {}}, {3, {}}}}), 2u) << "it is the same";

  const auto retyped_one =
      fault_of<type_mismatch>([&] { node_->rpc_sync<&take_retyped>(1, retyped()); });
  EXPECT_EQ(retyped_one.node, "worker1");
  EXPECT_THAT(retyped_one.text,
              HasSubstr("take_retyped is not the same on worker0 and on worker1"));
  EXPECT_THAT(retyped_one.text,
              HasSubstr("builds::retyped is {int count, double weight} on worker1 and "
                        "{int count, float weight} on worker0"));
  EXPECT_THAT(fault_of<type_mismatch>([&] { node_->rpc_sync<&take_longer>(1, longer()); }).text,
              HasSubstr("longer is {int first, int second} on worker1 and {int first} on worker0"));
  EXPECT_THAT(fault_of<type_mismatch>([&] { node_->rpc_sync<&take_swapped>(1, swapped()); }).text,
              HasSubstr("swapped is {int height, int width} on worker1 and "
                        "{int width, int height} on worker0"));
  EXPECT_THAT(fault_of<type_mismatch>([&] { node_->rpc_sync<&take_painted>(1, painted()); }).text,
              HasSubstr("colour is an enum of " + std::string(type_name<unsigned short>()) +
                        " on worker1 and an enum of unsigned char on worker0"));
  EXPECT_THAT(fault_of<type_mismatch>([&] { node_->rpc_sync<&take_outer>(1, outer()); }).text,
              HasSubstr("builds::retyped is {int count, double weight} on worker1"))
      << "however deep it is";
  EXPECT_THAT(fault_of<type_mismatch>([&] { node_->rpc_sync<&give_retyped>(1, 1); }).text,
              HasSubstr("builds::retyped is {int count, double weight} on worker1"))
      << "also when it is the answer";
  EXPECT_THAT(fault_of<type_mismatch>([&] {
                node_->rpc_sync<int(retyped)>(1, "take retyped", retyped());
              }).text,
              HasSubstr("On worker1: troupe::test::builds::retyped is {int count, double weight}"))
      << "this program does not have the function";
  end();
}

TEST_F(two_builds, refuse_messages_of_types_that_differ) {
  const auto there = node_->spawn_on<&builds::take>(1);
  EXPECT_EQ(request(there, tree{7, {{2, {}}}}).get_for(time_limit), 7) << "it is the same";
  const auto question =
      fault_of<type_mismatch>([&] { request(there, retyped()).get_for(time_limit); });
  EXPECT_EQ(question.node, "worker1");
  EXPECT_THAT(question.text,
              HasSubstr("builds::retyped is not the same on worker0 and on worker1"));
  EXPECT_THAT(question.text,
              HasSubstr("builds::retyped is {int count, double weight} on worker1 and "
                        "{int count, float weight} on worker0"));
  const auto answer = fault_of<type_mismatch>([&] { request(there, 1).get_for(time_limit); });
  EXPECT_THAT(answer.text, HasSubstr("builds::retyped is not the same on worker1 and on worker0"));
  // Nobody waits for it: only the other node's log reports it.
  send(there, longer{1});
  EXPECT_EQ(request(there, std::string()).get_for(time_limit), 0);
  end();
}

TEST_F(two_builds, refuse_values_of_types_that_differ) {
  const auto there = node_->remote<&give_retyped>(1, 5);
  const auto why = fault_of<type_mismatch>([&] { there.to_here(timeout(time_limit)); });
  EXPECT_THAT(why.text, HasSubstr("builds::retyped is {int count, double weight} on worker1 and "
                                  "{int count, float weight} on worker0"));
  end();
}

}  // namespace

}  // namespace troupe::test
