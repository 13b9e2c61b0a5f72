// On which device tensors arrive: the mapping alone, and in the tables that travel.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>

#include <optional>
#include <thread>

#include "tests/accelerator/device_kinds.hpp"
#include "tests/messages/tensor/pretended_tensor.hpp"
#include "tests/messages/tensor/tensor_table_testing.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/device_streams.hpp"
#include "troupe/messages/tensor/kept_storages.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr memory_place host{};
constexpr memory_place gpu(int index) {
  return {memory_place::kind::cuda, static_cast<std::int8_t>(index)};
}

std::string refusal(const device_route& route, const memory_place& here) {
  try {
    route.landing(here);
  } catch (const encode_error& e) {
    return e.fault().text;
  }
  return "nothing was thrown";
}

TEST(device_route, keeps_host_memory_and_refuses_gpus_without_an_entry) {
  const device_route none({}, "a", "b");
  EXPECT_EQ(none.landing(host), host);
  EXPECT_THAT(refusal(none, gpu(3)),
              HasSubstr("a tensor on cuda:3 cannot be sent from 'a' to 'b': 'a' has no device map "
                        "for 'b' with cuda:3"));
  EXPECT_EQ(device_route().landing(host), host);
  EXPECT_THROW(device_route().landing(gpu(0)), encode_error);
}

TEST(device_route, goes_by_its_entries_and_back) {
  const device_route route({{gpu(0), gpu(1)}, {gpu(1), gpu(0)}, {gpu(2), host}}, "a", "b");
  EXPECT_EQ(route.landing(gpu(0)), gpu(1));
  EXPECT_EQ(route.landing(gpu(1)), gpu(0));
  EXPECT_EQ(route.landing(gpu(2)), host);
  EXPECT_EQ(route.landing(host), host);
  EXPECT_THAT(refusal(route, gpu(3)), HasSubstr("with cuda:3"));
  const auto back = route.inverse();
  EXPECT_EQ(back.landing(gpu(1)), gpu(0));
  EXPECT_EQ(back.landing(host), gpu(2));
  EXPECT_THAT(refusal(back, gpu(2)),
              HasSubstr("a tensor on cuda:2 cannot be sent back from 'b' to 'a': the device map of "
                        "'a' for 'b' does not lead to cuda:2"));
  EXPECT_EQ(back.inverse().entries(), route.entries());
  EXPECT_THAT(refusal(back.inverse(), gpu(3)), HasSubstr("sent from 'a' to 'b'"));
}

TEST(device_route, maps_host_memory_where_an_entry_names_it) {
  const device_route route({{host, gpu(1)}}, "a", "b");
  EXPECT_EQ(route.landing(host), gpu(1));
  EXPECT_EQ(route.inverse().landing(gpu(1)), host);
  EXPECT_EQ(route.inverse().landing(host), host);
}

TEST(device_route, leaves_everything_in_place_within_a_node) {
  for (const auto& place : {host, gpu(0), gpu(7)}) {
    EXPECT_EQ(device_route::in_place().landing(place), place);
    EXPECT_EQ(device_route::in_place().inverse().landing(place), place);
  }
}

packed_table write_by(const device_route& route, const std::vector<at::Tensor>& tensors) {
  tensor_writer writer;
  for (const auto& t : tensors) writer.add(t);
  writer.go_by(route);
  return take(writer);
}

std::vector<int> landings(const packed_table& table) {
  capnp::FlatArrayMessageReader message(
      kj::arrayPtr(reinterpret_cast<const capnp::word*>(table.words.data()), table.words.size()));
  std::vector<int> out;
  for (const auto storage : message.getRoot<schema::TensorTable>().getStorages())
    out.push_back(storage.getLanding());
  return out;
}

const auto small = at::ones({3});
const auto large = at::ones({4'000});

TEST(device_route_of_a_table, names_where_each_storage_lands) {
  const std::vector<at::Tensor> tensors{small, large, at::empty({0}), large.slice(0, 0, 10)};
  EXPECT_EQ(landings(write(tensors)), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(landings(write_by({}, tensors)), (std::vector<int>{0, 0, 0}));
  const device_route up({{host, gpu(1)}}, "a", "b");
  EXPECT_EQ(landings(write_by(up, tensors)), (std::vector<int>{2, 2, 2}));
}

TEST(device_route_of_a_table, changes_nothing_from_host_memory_to_host_memory) {
  const device_route same({{host, host}}, "a", "b");
  const auto table = write_by(same, {small, large});
  storage_pool pool;
  read(table, pool, [&](tensor_reader& in) {
    EXPECT_TRUE(in.get(0).equal(small));
    EXPECT_TRUE(in.get(1).equal(large));
    EXPECT_TRUE(in.get(1).device().is_cpu());
  });
  EXPECT_EQ(table.words.size(), write({small, large}).words.size());
}

TEST(device_route_of_a_table, refuses_a_gpu_that_has_no_entry) {
  const device_route route({{gpu(1), gpu(0)}}, "a", "b");
  EXPECT_THROW(write_by(route, {small, test::on_pretended_gpu({4'000}, 0)}), encode_error);
  EXPECT_THROW(write_by(route, {test::on_pretended_gpu({0}, 0)}), encode_error);
}

TEST(device_route_of_a_table, is_forgotten_when_the_writer_starts_over) {
  tensor_writer writer;
  writer.add(small);
  const device_route up({{host, gpu(0)}}, "a", "b");
  writer.go_by(up);
  writer.clear();
  writer.add(small);
  EXPECT_EQ(landings(take(writer)), (std::vector<int>{0}));
}

TEST(device_route_of_a_table, to_a_gpu_that_is_not_there_is_a_decode_error) {
  storage_pool pool;
  for (const auto number : {detail::device_count(memory_place::kind::cuda), 127}) {
    const device_route up({{host, gpu(number)}}, "a", "b");
    for (const auto& t : {small, large, at::empty({0})}) try {
        read(write_by(up, {t}), pool, [](tensor_reader&) { FAIL() << "it was read"; });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const decode_error& e) {
        EXPECT_THAT(e.what(), AllOf(HasSubstr("Storage 0"),
                                    HasSubstr("should be on cuda:" + std::to_string(number))));
      }
  }
}

// The meta device stands for one whose memory is not the host's.
TEST(moved_storage, lies_on_the_device_and_has_the_size) {
  const auto there = detail::moved(large.storage(), c10::Device(c10::kMeta));
  EXPECT_EQ(there.device_type(), c10::kMeta);
  EXPECT_EQ(there.nbytes(), large.nbytes());
  const auto copy = detail::moved(large.storage(), c10::Device(c10::kCPU));
  EXPECT_NE(copy.data(), large.storage().data());
  EXPECT_EQ(std::memcmp(copy.data(), large.storage().data(), large.nbytes()), 0);
  EXPECT_EQ(detail::moved(at::empty({0}).storage(), c10::Device(c10::kCPU)).nbytes(), 0u);
}

class device_route_on_a_device : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(devices, device_route_on_a_device, ::testing::Values("sim", "cuda"),
                         [](const auto& info) { return info.param; });

TEST_P(device_route_on_a_device, takes_tensors_there_and_back) {
  const test::device_kind kind(GetParam());
  if (kind.count() == 0) GTEST_SKIP() << "libtorch finds no " << GetParam();
  const c10::Device device(kind(1));
  const device_route up({{host, detail::place_of(device)}}, "a", "b");
  const device_route down = up.inverse();
  storage_pool pool;
  const auto strided = large.view({40, 100}).slice(1, 0, 100, 7);
  std::vector<at::Tensor> there;
  read(write_by(up, {small, large, at::empty({0, 2}), strided}), pool, [&](tensor_reader& in) {
    ASSERT_NE(in.copies(), nullptr);
    const detail::stream_scope current(in.copies());
    for (std::uint32_t i = 0; i < 4; ++i) there.push_back(in.get(i));
    for (const auto& t : there) EXPECT_EQ(t.device(), device);
    EXPECT_TRUE(there[3].cpu().equal(strided));
    EXPECT_TRUE(there[1].cpu().equal(large));
  });
  read(write_by(down, there), pool, [&](tensor_reader& in) {
    EXPECT_EQ(in.copies(), nullptr);
    EXPECT_TRUE(in.get(0).equal(small));
    EXPECT_TRUE(in.get(1).equal(large));
    EXPECT_TRUE(in.get(3).equal(strided));
  });
}

TEST_P(device_route_on_a_device, copies_behind_the_current_stream_and_beside_it) {
  const test::device_kind kind(GetParam());
  if (!kind.simulated()) GTEST_SKIP() << "a GPU does not count";
  namespace sim = test::accelerator;
  const sim::slow slow(std::chrono::milliseconds(5));
  const device_route down({{detail::place_of(sim::device(0)), host}}, "a", "b");
  storage_pool pool;
  const auto t = at::zeros({4'000}, at::TensorOptions(sim::device(0)));
  t.add_(3);
  const auto before = sim::counted();
  const auto table = write_by(down, {t, t.slice(0, 0, 4'000, 3).clone()});
  const auto after = sim::counted();
  EXPECT_EQ(after.device_synchronizations, before.device_synchronizations);
  EXPECT_EQ(after.stream_synchronizations, before.stream_synchronizations);
  EXPECT_EQ(after.event_synchronizations, before.event_synchronizations + 1);
  read(table, pool, [&](tensor_reader& in) {
    EXPECT_TRUE(in.get(0).equal(at::full({4'000}, 3.0f)));
    EXPECT_TRUE(in.get(1).equal(at::full({1'334}, 3.0f)));
  });
}

TEST_P(device_route_on_a_device, refuses_devices_that_may_not_be_used) {
  const test::device_kind kind(GetParam());
  if (!kind.simulated()) GTEST_SKIP() << "one device may be all";
  const auto place = [&](int index) { return detail::place_of(c10::Device(kind(index))); };
  storage_pool pool;
  const auto before = test::accelerator::counted();
  const device_route up({{host, place(2)}}, "a", "b");
  try {
    read(write_by(up, {large}), pool, [](tensor_reader&) { FAIL() << "it was read"; }, {place(1)});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const decode_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("Storage 0"), HasSubstr("should be on sim:2")));
  }
  EXPECT_EQ(test::accelerator::counted().allocations, before.allocations);
  read(write_by(up, {large}), pool, [&](tensor_reader& in) { EXPECT_NE(in.copies(), nullptr); },
       {place(1), place(2)});
}

// No other message comes.
TEST_P(device_route_on_a_device, gives_host_memory_back_when_it_has_been_copied) {
  const test::device_kind kind(GetParam());
  if (kind.count() == 0) GTEST_SKIP() << "libtorch finds no " << GetParam();
  std::optional<test::accelerator::slow> slow;
  if (kind.simulated()) slow.emplace(std::chrono::milliseconds(20));
  auto storage = at::ones({4'000}).storage();
  const detail::weak_storage weak = storage.getWeakStorageImpl();
  const c10::Device device(kind(0));
  const auto there = detail::moved(storage, device);
  std::vector<c10::Storage> kept;
  kept.push_back(std::move(storage));
  const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  detail::keep_until_done({stream}, std::move(kept));
  EXPECT_FALSE(kind.simulated() && weak.expired());
  for (int i = 0; i < 1'000 && !weak.expired(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(weak.expired());
}

TEST_P(device_route_on_a_device, leaves_streams_that_a_handler_has_set_as_they_are) {
  const test::device_kind kind(GetParam());
  if (kind.count() == 0) GTEST_SKIP() << "libtorch finds no " << GetParam();
  const c10::Device device(kind(0));
  const c10::impl::VirtualGuardImpl guard(device.type());
  const auto fresh = [&] { return guard.getStreamFromGlobalPool(device); };
  const auto before = guard.getStream(device);
  const auto own = fresh(), inner = fresh();
  const detail::device_work work{{fresh()}, {}}, nested{{fresh()}, {}};
  const detail::stream_scope handler(&work);
  const c10::StreamGuard guarded(own);
  const detail::stream_scope another(&nested);
  const c10::StreamGuard within(inner);
  {
    const detail::no_streams meanwhile;
    EXPECT_EQ(guard.getStream(device), before);
  }
  EXPECT_EQ(guard.getStream(device), inner);
}

TEST(device_route_of_a_table, to_a_type_of_devices_that_does_not_exist_is_a_decode_error) {
  storage_pool pool;
  for (const int type : {2, 20, 21, 255}) {
    auto table = write_by(device_route({{host, gpu(0)}}, "a", "b"), {large});
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(table.words.data()), table.words.size()));
    capnp::MallocMessageBuilder changed;
    changed.setRoot(message.getRoot<schema::TensorTable>());
    changed.getRoot<schema::TensorTable>().getStorages()[0].setLandingType(
        static_cast<std::uint8_t>(type));
    const auto words = capnp::messageToFlatArray(changed);
    table.words.assign(reinterpret_cast<const decltype(table.words)::value_type*>(words.begin()),
                       reinterpret_cast<const decltype(table.words)::value_type*>(words.end()));
    EXPECT_THROW(read(table, pool, [](tensor_reader&) { FAIL() << "it was read"; }), decode_error)
        << type;
  }
}

}  // namespace
}  // namespace troupe::testing
