// Device maps between nodes of a job. Most machines that run this have no GPU: nodes pretend to
// have some, which is enough to find out where tensors are meant to go. What needs one is skipped.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>

#include "tests/actors/cluster/nodes_with_devices.hpp"
#include "tests/actors/cluster/on_devices.hpp"
#include "tests/messages/tensor/pretended_tensor.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

at::Tensor twice(const at::Tensor& x) { return 2 * x; }
std::string device_of(const at::Tensor& x) { return x.device().str(); }
at::Tensor on_gpu(int index) { return on_pretended_gpu({100}, index); }
int seven() { return 7; }

class device_maps : public nodes_with_devices {
protected:
  /// The job does not begin: `giver`, whose map is wrong, and the others report why, and soon.
  void expect_refused(const std::vector<given>& all, std::size_t giver, const std::string& why) {
    SCOPED_TRACE(why);
    const auto start = clock::now();
    auto coming = begin(all);
    for (std::size_t i = 0; i < coming.size(); ++i) {
      const auto text = i == giver ? fault_of<invalid_argument>([&] { coming[i].get(); }).text
                                   : fault_of<rendezvous_error>([&] { coming[i].get(); }).text;
      EXPECT_THAT(text, HasSubstr(why)) << i;
    }
    EXPECT_LT(clock::now() - start, rpc_options().init_timeout / 2);
  }
};

TEST_F(device_maps, that_are_wrong_are_refused_at_the_start_on_every_node) {
  expect_refused({{"a"}, {"b", 1, {{"ps", {{"cuda:0", "cpu"}}}}}, {"c"}}, 1,
                 "rank 1 ('b') has a device map for 'ps', but no node of the job is called that");
  expect_refused({{"a", 2, {{"b", {{"cuda:2", "cuda:0"}}}}}, {"b", 1}, {"c"}}, 0,
                 "rank 0 ('a') maps cuda:2 to cuda:0 of 'b', but has 2 cuda devices itself");
  expect_refused({{"a"}, {"b", 1}, {"c", 1, {{"b", {{"cuda:0", "cuda:1"}}}}}}, 2,
                 "rank 2 ('c') maps cuda:0 to cuda:1 of rank 1 ('b'), which has 1 cuda device");
  expect_refused({{"a", 2, {{"b", {{"cuda:0", "cuda:0"}, {"cuda:1", "cuda:0"}}}}}, {"b", 1}}, 0,
                 "rank 0 ('a') maps both cuda:0 and cuda:1 to cuda:0 of 'b'");
  expect_refused({{"a", 2, {{"b", {{"cuda:0", "cpu"}}}}, {"cuda:1"}}, {"b"}}, 0,
                 "but its own rpc_options::devices are cuda:1");
  expect_refused({{"a", 2, {{"b", {{"gpu:0", "cpu"}}}}}, {"b"}}, 0,
                 "the device map for 'b': 'gpu:0' is no device");
  // The same place is free for who does better.
  auto nodes = start({{"a", 2, {{"b", {{"cuda:1", "cuda:0"}}}}}, {"b", 1}});
  EXPECT_EQ(nodes[0].rpc_sync<&seven>("b"), 7);
  shut_down(nodes);
}

TEST_F(device_maps, let_tensors_in_host_memory_be) {
  auto nodes =
      start({{"a", 2, {{"b", {{"cuda:0", "cuda:1"}}}, {"c", {{"cpu", "cpu"}}}}}, {"b", 2}, {"c"}});
  for (const auto& size : {3, 100'000})
    for (const char* to : {"a", "b", "c"}) {
      const auto x = at::rand({size});
      EXPECT_TRUE(nodes[0].rpc_sync<&twice>(to, x).equal(2 * x)) << to;
      EXPECT_EQ(nodes[0].rpc_sync<&device_of>(to, x), "cpu") << to;
      EXPECT_TRUE(nodes[2].rpc_sync<&twice>(to, x).equal(2 * x)) << to;
      EXPECT_TRUE(nodes[0].remote<&twice>(to, x).to_here().equal(2 * x)) << to;
    }
  shut_down(nodes);
}

// No node here has these GPUs: the error of the receiver shows where a tensor was to land.
TEST_F(device_maps, lead_host_memory_to_a_gpu_and_answers_back) {
  if (detail::device_count(memory_place::kind::cuda) > 0)
    GTEST_SKIP() << "this is about GPUs that are not there";
  auto nodes =
      start({{"a", 1, {{"b", {{"cpu", "cuda:1"}}}, {"c", {{"cuda:0", "cpu"}}}}}, {"b", 2}, {"c"}});
  for (const auto& size : {3, 100'000}) {
    const auto x = at::rand({size});
    for (int again = 0; again < 5; ++again) {
      const auto why = fault_of<decode_error>([&] { nodes[0].rpc_sync<&twice>("b", x); });
      EXPECT_EQ(why.node, "b");
      EXPECT_THAT(why.text, HasSubstr("should be on cuda:1"));
    }
    // c has it in host memory, and its answer goes the other way.
    const auto why = fault_of<decode_error>([&] { nodes[0].rpc_sync<&twice>("c", x); });
    EXPECT_THAT(why.text, HasSubstr("should be on cuda:0"));
    EXPECT_EQ(nodes[0].rpc_sync<&device_of>("c", x), "cpu");
    EXPECT_TRUE(nodes[2].rpc_sync<&twice>("a", x).equal(2 * x));
    EXPECT_TRUE(nodes[1].rpc_sync<&twice>("a", x).equal(2 * x));
  }
  EXPECT_EQ(nodes[0].rpc_sync<&seven>("b"), 7);
  shut_down(nodes);
}

TEST_F(device_maps, are_named_at_once_when_a_gpu_has_none) {
  auto nodes = start({{"a", 2, {{"b", {{"cuda:1", "cuda:0"}}}}}, {"b", 1}, {"c"}});
  for (int again = 0; again < 5; ++again) {
    const auto begin = clock::now();
    const auto x = on_gpu(0);
    const auto why = fault_of<encode_error>([&] { nodes[0].rpc_sync<&twice>("b", x); });
    EXPECT_EQ(why.node, "b");
    EXPECT_THAT(why.text, AllOf(HasSubstr("a tensor on cuda:0 cannot be sent from 'a' to 'b'"),
                                HasSubstr("device map for 'b'")));
    EXPECT_THAT(fault_of<encode_error>([&] { nodes[0].rpc_async<&twice>("c", x).get(); }).text,
                HasSubstr("from 'a' to 'c'"));
    // In answers: of a call that has a map, and of one that has none.
    EXPECT_THAT(fault_of<encode_error>([&] { nodes[0].rpc_sync<&on_gpu>("b", 1); }).text,
                AllOf(HasSubstr("a tensor on cuda:1 cannot be sent back from 'b' to 'a'"),
                      HasSubstr("does not lead to cuda:1")));
    EXPECT_THAT(fault_of<encode_error>([&] { nodes[2].rpc_sync<&on_gpu>("b", 0); }).text,
                HasSubstr("the device map of 'c' for 'b' does not lead to cuda:0"));
    EXPECT_THAT(fault_of<encode_error>([&] { nodes[2].remote<&on_gpu>("b", 0).to_here(); }).text,
                HasSubstr("from 'b' to 'c'"));
    EXPECT_LT(clock::now() - begin, rpc_options().rpc_timeout / 2);
    EXPECT_TRUE(nodes[0].rpc_sync<&twice>("b", at::ones({3})).equal(at::full({3}, 2.0)));
  }
  shut_down(nodes);
}

TEST_F(device_maps, of_joiners_and_for_them_are_checked_when_they_join) {
  // No node is called "late" yet, but one may join.
  auto nodes = start({{"a", 1, {{"late", {{"cuda:0", "cuda:1"}}}}}, {"b", 1}}, true);
  const auto refusal = [&](const given& what) {
    return fault_of<rendezvous_error>([&] { join(what); }).text;
  };
  EXPECT_THAT(
      refusal({"late", 1}),
      HasSubstr("rank 0 ('a') maps cuda:0 to cuda:1 of rank 2 ('late'), which has 1 cuda device"));
  EXPECT_THAT(
      refusal({"late", 2, {{"b", {{"cuda:0", "cuda:1"}}}}}),
      AllOf(HasSubstr("('late') maps cuda:0 to cuda:1 of rank 1 ('b'), which has 1 cuda device")));
  EXPECT_THAT(refusal({"other", 1, {{"b", {{"cuda:1", "cpu"}}}}}),
              HasSubstr("has 1 cuda device itself"));
  EXPECT_THROW(join({"other", 1, {{"b", {{"cuda", "cpu"}}}}}), invalid_argument);
  EXPECT_EQ(nodes[0].epoch(), 0u);
  nodes.push_back(join({"late", 2, {{"b", {{"cuda:1", "cuda:0"}}}}}));
  ASSERT_TRUE(eventually([&] { return nodes[0].epoch() == 1 && nodes[1].epoch() == 1; }));
  for (const auto& from : nodes)
    for (const auto& to : nodes)
      EXPECT_EQ(from.rpc_sync<&device_of>(to.name(), at::ones(9)), "cpu");
  EXPECT_THAT(fault_of<encode_error>([&] { nodes[2].rpc_sync<&twice>("b", on_gpu(0)); }).text,
              HasSubstr("'late' has no device map for 'b' with cuda:0"));
  shut_down(nodes);
}

TEST(device_maps_of_one_process, are_checked_too) {
  rpc_options options;
  options.device_maps = {{"b", {{"cuda:0", "cuda:99"}}}};
  EXPECT_THROW(local_nodes({"a", "b"}, options), invalid_argument);
  options.device_maps = {{"b", {{"cpu", "cpu"}}}};
  auto nodes = local_nodes({"a", "b"}, options);
  EXPECT_EQ(nodes[0].rpc_sync<&device_of>("b", at::ones(2)), "cpu");
  shut_down(nodes);
}

class device_maps_on_a_device : public on_devices {};
TROUPE_ON_DEVICES(device_maps_on_a_device);

TEST_P(device_maps_on_a_device, take_tensors_there_and_back) {
  rpc_options options;
  options.device_maps = {{"b", {{device(0), device(1)}}}, {"c", {{device(0), "cpu"}}}};
  auto nodes = start({"a", "b", "c"}, options);
  for (const auto& size : {3, 100'000}) {
    const auto x = at::rand({size}, at::TensorOptions().device(device(0)));
    EXPECT_EQ(nodes[0].rpc_sync<&device_of>("b", x), device(1));
    EXPECT_EQ(nodes[0].rpc_sync<&device_of>("c", x), "cpu");
    EXPECT_EQ(nodes[0].rpc_sync<&device_of>("a", x), device(0));
    for (const char* to : {"a", "b", "c"}) {
      const auto y = nodes[0].rpc_sync<&twice>(to, x);
      EXPECT_EQ(y.device().str(), device(0)) << to;
      EXPECT_TRUE(y.equal(2 * x)) << to;
    }
  }
  shut_down(nodes);
}

TEST_P(device_maps_on_a_device, name_what_is_missing_within_a_second) {
  rpc_options options;
  options.device_maps = {{"b", {{device(0), device(0)}}}};
  options.devices = {device(0), device(1)};
  auto nodes = start({"a", "b", "c"}, options);
  for (int again = 0; again < 13; ++again) {
    const auto begin = clock::now();
    const auto x = at::ones({5}, at::TensorOptions().device(device(0)));
    EXPECT_THAT(fault_of<encode_error>([&] { nodes[0].rpc_sync<&twice>("c", x); }).text,
                HasSubstr("'a' has no device map for 'c' with " + device(0)));
    EXPECT_THAT(fault_of<encode_error>([&] { nodes[0].rpc_async<&twice>("c", x).get(); }).text,
                HasSubstr("from 'a' to 'c'"));
    EXPECT_LT(clock::now() - begin, 1s);
    EXPECT_TRUE(nodes[0].rpc_sync<&twice>("b", x).cpu().equal(at::full({5}, 2.0)));
    EXPECT_TRUE(nodes[0].rpc_sync<&twice>("c", x.cpu()).equal(at::full({5}, 2.0)));
  }
  shut_down(nodes);
}

TEST_P(device_maps_on_a_device, are_refused_when_they_lead_to_no_device) {
  rpc_options options;
  const auto refused = [&](const device_map& map) {
    options.device_maps = {{"b", map}};
    return fault_of<invalid_argument>([&] { local_nodes({"a", "b"}, options); }).text;
  };
  EXPECT_THAT(refused({{std::get<1>(GetParam()) + ":99", "cpu"}}), HasSubstr("'a'"));
  EXPECT_THAT(refused({{device(0), std::get<1>(GetParam()) + ":99"}}), HasSubstr("rank 1 ('b')"));
  EXPECT_THAT(refused({{device(0), "cpu"}, {device(0), device(0)}}), HasSubstr("one to one"));
  EXPECT_THAT(refused({{"none:0", "cpu"}}), HasSubstr("'none:0' is no device"));
}

}  // namespace
}  // namespace troupe::test
