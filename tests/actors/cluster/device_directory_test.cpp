// Which device maps are wrong, and what becomes of those that are right: pretended nodes.
#include "troupe/actors/cluster/device_directory.hpp"

#include <random>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/messages/base/worker_name.hpp"

namespace troupe::test {
namespace {

using detail::device_owner;
using testing::HasSubstr;

struct given {
  std::string name;
  int gpus = 0;
  std::map<std::string, device_map> maps{};
  std::vector<std::string> devices{};
};

device_owner owner(transport::rank_t rank, const given& what) {
  detail::device_directory here;
  if (what.gpus > 0) here.counts[memory_place::kind::cuda] = static_cast<std::uint8_t>(what.gpus);
  return {rank, worker_names(what.name),
          detail::read_device_options(what.devices, what.maps, here)};
}

std::vector<device_owner> job(const std::vector<given>& all) {
  std::vector<device_owner> out;
  for (const auto& one : all) out.push_back(owner(static_cast<transport::rank_t>(out.size()), one));
  return out;
}

std::string problem(const std::vector<given>& all, bool may_come = false) {
  const auto found = detail::find_device_problem(job(all), {}, may_come);
  return found ? found->text : "";
}

TEST(device_maps_of_a_job, are_right) {
  EXPECT_EQ(problem({{"a", 2, {{"b", {{"cuda:0", "cuda:1"}, {"cuda:1", "cuda:0"}}}}}, {"b", 2}}),
            "");
  EXPECT_EQ(problem({{"a", 1, {{"b", {{"cuda:0", "cpu"}}}}}, {"b"}}), "");
  EXPECT_EQ(problem({{"a", 0, {{"b", {{"cpu", "cuda:0"}}}}}, {"b", 1}}), "");
  EXPECT_EQ(problem({{"a", 0, {{"a", {{"cpu", "cpu"}}}, {"ps", {}}}}, {"b,ps", 1}}), "");
  EXPECT_EQ(problem({{"a", 2, {{"b", {{"cuda:1", "cuda:0"}}}}, {"cuda:1", "cpu"}},
                     {"b", 2, {}, {"cuda:0"}}}),
            "");
}

TEST(device_maps_of_a_job, are_wrong_for_a_name_that_no_node_has) {
  const std::vector<given> all{{"a"}, {"b", 1, {{"ps", {{"cuda:0", "cpu"}}}}}};
  EXPECT_EQ(problem(all),
            "rank 1 ('b') has a device map for 'ps', but no node of the job is called that");
  EXPECT_EQ(problem(all, true), "");
}

TEST(device_maps_of_a_job, are_wrong_for_missing_devices) {
  EXPECT_EQ(problem({{"a", 2, {{"b", {{"cuda:2", "cuda:0"}}}}}, {"b", 1}}),
            "rank 0 ('a') maps cuda:2 to cuda:0 of 'b', but has 2 cuda devices itself");
  EXPECT_EQ(problem({{"a", 2, {{"b", {{"cuda:0", "cuda:1"}}}}}, {"b", 1}}),
            "rank 0 ('a') maps cuda:0 to cuda:1 of rank 1 ('b'), which has 1 cuda device");
  EXPECT_EQ(problem({{"a", 0, {{"ps", {{"cpu", "cuda:0"}}}}}, {"b,ps"}}),
            "rank 0 ('a') maps cpu to cuda:0 of rank 1 ('b'), which has no cuda device");
  EXPECT_EQ(problem({{"a", 1, {}, {"cuda:1"}}}),
            "rank 0 ('a') has cuda:1 among its rpc_options::devices, but 1 cuda device");
}

TEST(device_maps_of_a_job, are_wrong_unless_one_to_one) {
  EXPECT_EQ(
      problem({{"a", 2, {{"b", {{"cuda:0", "cuda:0"}, {"cuda:1", "cuda:0"}}}}}, {"b", 1}}),
      "rank 0 ('a') maps both cuda:0 and cuda:1 to cuda:0 of 'b': a device map must be one to one");
  EXPECT_EQ(
      problem({{"a", 1, {{"b", {{"cuda:0", "cuda:0"}, {"cuda:0", "cpu"}}}}}, {"b", 1}}),
      "rank 0 ('a') maps cuda:0 to cuda:0 of 'b' and to cpu: a device map must be one to one");
  EXPECT_EQ(problem({{"a", 1, {{"b", {{"cpu", "cpu"}, {"cuda:0", "cpu"}}}}}, {"b"}}),
            "rank 0 ('a') maps both cpu and cuda:0 to cpu of 'b': a device map must be one to one");
  EXPECT_EQ(problem({{"a", 0, {{"b", {}}, {"ps", {}}}}, {"b,ps"}}),
            "rank 0 ('a') has two device maps for rank 1 ('b'), by its names 'b' and 'ps'");
}

TEST(device_maps_of_a_job, are_wrong_outside_of_the_devices_that_may_be_used) {
  EXPECT_EQ(problem({{"a", 2, {{"b", {{"cuda:0", "cpu"}}}}, {"cuda:1"}}, {"b"}}),
            "rank 0 ('a') maps cuda:0 to cpu of 'b', but its own rpc_options::devices are cuda:1");
  EXPECT_EQ(
      problem({{"a", 1, {{"b", {{"cuda:0", "cuda:0"}}}}}, {"b", 3, {}, {"cuda:1", "cuda:2"}}}),
      "rank 0 ('a') maps cuda:0 to cuda:0 of rank 1 ('b'), whose rpc_options::devices are "
      "cuda:1, cuda:2");
}

TEST(device_maps_of_a_job, of_the_node_itself_are_reported_first) {
  const auto all = job({{"a", 0, {{"x", {}}}}, {"b", 0, {{"y", {}}}}, {"c"}});
  EXPECT_EQ(detail::find_device_problem(all, {}, false)->giver, 0u);
  EXPECT_EQ(detail::find_device_problem(all, 1, false)->giver, 1u);
  EXPECT_EQ(detail::find_device_problem(all, 2, false)->giver, 0u);
}

TEST(device_maps_of_a_job, name_devices) {
  for (const char* text :
       {"cuda", "gpu:0", "cuda:x", "cuda:-1", "meta", "meta:0", "", "cuda:999", "cuda:256"}) {
    SCOPED_TRACE(text);
    const auto why = fault_of<invalid_argument>([&] {
      owner(0, {"a", 1, {{"b", {{text, "cpu"}}}}});
    });
    EXPECT_THAT(why.text, HasSubstr("the device map for 'b': '" + std::string(text) + "'"));
    EXPECT_THROW(owner(0, {"a", 1, {}, {text}}), invalid_argument);
  }
}

TEST(devices_between_nodes, are_the_maps_there_and_the_inverse_back) {
  const memory_place host;
  const memory_place gpu0{memory_place::kind::cuda, 0};
  const memory_place gpu1{memory_place::kind::cuda, 1};
  const auto all =
      job({{"a", 2, {{"ps", {{"cuda:0", "cuda:1"}}}}}, {"b,ps", 2, {{"a", {{"cuda:0", "cpu"}}}}}});
  const auto at_a = detail::devices_between(all[0], all[1]);
  EXPECT_EQ(at_a.calls.landing(gpu0), gpu1);
  EXPECT_EQ(at_a.answers.landing(host), gpu0);  // to what b has asked for
  const auto at_b = detail::devices_between(all[1], all[0]);
  EXPECT_EQ(at_b.calls.landing(gpu0), host);
  EXPECT_EQ(at_b.answers.landing(gpu1), gpu0);
  EXPECT_THAT(fault_of<encode_error>([&] { at_b.answers.landing(gpu0); }).text,
              HasSubstr("back from 'b' to 'a'"));
  EXPECT_THAT(fault_of<encode_error>([&] { at_a.calls.landing(gpu1); }).text,
              HasSubstr("from 'a' to 'b'"));
  EXPECT_EQ(detail::devices_between(all[0], all[0]).calls.landing(gpu1), gpu1);
}

detail::member_descriptor some_descriptor() {
  auto devices = owner(0, {"a",
                           3,
                           {{"b", {{"cuda:0", "cuda:1"}, {"cpu", "cuda:127"}}}, {"c", {}}},
                           {"cuda:0", "cuda:2"}})
                     .devices;
  return {std::move(devices),
          {std::byte(1), std::byte(2)},
          {backend::tcp,
           {7, 8},
           std::chrono::milliseconds(9),
           leader_loss::elect,
           "fabric",
           stream_protection::encrypt}};
}

TEST(member_descriptor, arrives_as_it_was) {
  const auto descriptor = some_descriptor();
  const auto bytes = detail::write_descriptor(descriptor);
  const auto again = detail::read_descriptor(bytes);
  EXPECT_EQ(again.devices, descriptor.devices);
  EXPECT_EQ(again.address, descriptor.address);
  EXPECT_EQ(detail::rules_problem("a", again.rules, "b", descriptor.rules), "");
}

TEST(member_descriptor, is_refused_when_it_makes_no_sense) {
  const auto bytes = detail::write_descriptor(some_descriptor());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(detail::read_descriptor(std::span(bytes).first(size)), decode_error) << size;
  auto more = bytes;
  more.emplace_back();
  EXPECT_THROW(detail::read_descriptor(more), decode_error);
  // Behind a length: a device type and a number; then the same of those that may be used.
  for (const auto& [place, value] : {std::pair(8, 0), std::pair(8, 200), std::pair(9, 0),
                                     std::pair(9, 129), std::pair(18, 200), std::pair(19, 128)}) {
    auto devices = bytes;
    devices[static_cast<std::size_t>(place)] = static_cast<std::byte>(value);
    EXPECT_THROW(detail::read_descriptor(devices), decode_error) << place << " " << value;
  }
  auto encryption = bytes;
  encryption.back() = std::byte(3);
  EXPECT_THROW(detail::read_descriptor(encryption), decode_error);
  auto loss = bytes;
  loss[bytes.size() - 2] = std::byte(2);
  EXPECT_THROW(detail::read_descriptor(loss), decode_error);
  auto transport = bytes;
  transport[bytes.size() - 23] = std::byte(5);  // in front of 4, 8, 8, 1 and 1 bytes
  EXPECT_THROW(detail::read_descriptor(transport), decode_error);
  EXPECT_THROW(detail::read_descriptor(std::vector<std::byte>(70'000)), decode_error);
}

TEST(member_descriptor, is_read_whatever_its_bytes) {
  std::mt19937_64 random(5);
  const auto good = detail::write_descriptor(some_descriptor());
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = good;
    for (auto changes = 1 + random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    try {
      const auto descriptor = detail::read_descriptor(bytes);
      const device_owner strange{0, {"a"}, descriptor.devices};
      detail::find_device_problem({strange, owner(1, {"b", 2})}, {}, false);
      detail::devices_between(strange, owner(1, {"b", 2}));
    } catch (const decode_error&) {
    }
  }
}

TEST(member_descriptor, has_no_more_maps_than_fit) {
  auto descriptor = some_descriptor();
  for (int i = 0; i < 5'000; ++i) descriptor.devices.maps["worker" + std::to_string(i)];
  EXPECT_THAT(fault_of<invalid_argument>([&] { detail::write_descriptor(descriptor); }).text,
              HasSubstr("65536 are possible"));
}

}  // namespace
}  // namespace troupe::test
