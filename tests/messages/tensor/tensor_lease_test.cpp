// Tables whose storages are leased: from a device to one of the same process, which stands for
// another's; and tables that were forged.
#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <capnp/any.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "tests/accelerator/accelerator_ipc.hpp"
#include "tests/messages/tensor/tensor_table_testing.hpp"
#include "troupe/messages/tensor/device_route.hpp"
#include "troupe/messages/tensor/device_streams.hpp"
#include "troupe/messages/tensor/lease_outcome.hpp"
#include "troupe/messages/tensor/opened_memory.hpp"

namespace troupe::testing {
namespace {

namespace sim = test::accelerator;
using ::testing::HasSubstr;

// Opens what it has exported itself.
class own_memory final : public device_ipc {
public:
  std::string identity(int device) const override { return "own " + std::to_string(device); }
  std::string why_not_reached(int, const std::string&) const override { return ""; }
  exported_memory export_memory(int, const void* at) const override {
    if (refuses) throw transport_error("no handles today");
    auto out = sim::export_memory(at);
    std::uint64_t size = 0;
    std::memcpy(&size, out.handle.data() + 16, sizeof size);
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(at)) - out.offset;
    const std::lock_guard lock(mutex_);
    known_[out.handle] = {begin, size};
    return {std::move(out.handle), out.offset};
  }
  opened_memory open(int, std::span<const std::byte> handle) const override {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find({handle.begin(), handle.end()});
    if (found == known_.end()) throw transport_error("such memory was never exported");
    ++opened;
    return found->second;
  }
  void close(int, const opened_memory&) const noexcept override { ++closed; }

  std::atomic<bool> refuses{false};
  mutable std::atomic<int> opened{0};
  mutable std::atomic<int> closed{0};

private:
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::byte>, opened_memory> known_;
};

class tensor_leases : public ::testing::Test {
protected:
  using table_builder = schema::TensorTable::Builder;

  static own_memory& ipc() {
    static const auto it = [] {
      sim::install();
      auto made = std::make_shared<own_memory>();
      register_device_ipc(place(0).where, made);
      return made;
    }();
    return *it;
  }
  void SetUp() override { ipc().refuses = false; }

  static memory_place place(int index) { return detail::place_of(sim::device(index)); }
  static at::Tensor made(std::int64_t size, double value = 3) {
    return at::full({size}, value, at::TensorOptions(sim::device(0)));
  }

  // How many copies aside were made of a tensor that the table alone refers to.
  static std::uint64_t copies_to_lease(at::Tensor&& t, bool given) {
    const device_route route({{place(0), place(1)}}, "a", "b");
    const auto always = [](const memory_place&, const memory_place&, const std::string&) {
      return true;
    };
    const auto before = sim::counted();
    tensor_writer writer;
    capnp::MallocMessageBuilder message;
    writer.add(std::as_const(t), given);
    t.reset();
    writer.go_by(route, always);
    writer.build(message.initRoot<schema::TensorTable>());
    writer.take_payloads();
    return sim::counted().copies_on_device - before.copies_on_device;
  }

  template <class Done>
  static bool soon(Done done) {
    for (int i = 0; i < 4'000 && !done(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return done();
  }

  struct table {
    std::vector<std::uint64_t> words;
    std::vector<outgoing_payload> payloads;
  };

  // What was asked of the one who may allow leases.
  std::vector<std::string> problems;

  table write(
      const std::vector<at::Tensor>& tensors, bool allowed = true,
      const std::function<void(table_builder)>& change = [](auto) {}) {
    const device_route route({{place(0), place(1)}}, "a", "b");
    const auto may_lease = [&](const memory_place& here, const memory_place& there,
                               const std::string& problem) {
      EXPECT_EQ(here, place(0));
      EXPECT_EQ(there, place(1));
      problems.push_back(problem);
      return allowed && problem.empty();
    };
    tensor_writer writer;
    for (const auto& t : tensors) writer.add(t);
    writer.go_by(route, may_lease);
    capnp::MallocMessageBuilder message(static_cast<unsigned>(writer.words() + 1),
                                        capnp::AllocationStrategy::FIXED_SIZE);
    writer.build(message.initRoot<schema::TensorTable>());
    EXPECT_EQ(message.getSegmentsForOutput().size(), 1u);
    change(message.getRoot<schema::TensorTable>());
    table out;
    const auto flat = capnp::messageToFlatArray(message);
    out.words.resize(flat.size());
    std::memcpy(out.words.data(), flat.begin(), flat.asBytes().size());
    out.payloads = writer.take_payloads();
    return out;
  }

  // As the lending transport hands them out.
  static std::vector<incoming_payload> leases(table& of) {
    std::vector<incoming_payload> out;
    for (auto& p : of.payloads) {
      auto keep = std::make_shared<std::shared_ptr<const void>>(std::move(p.keep));
      out.push_back({std::shared_ptr<std::byte>(std::move(keep), nullptr), p.size, p.place, true});
    }
    return out;
  }

  static void read(table& of, std::vector<incoming_payload>&& payloads,
                   const std::function<void(tensor_reader&)>& use) {
    capnp::FlatArrayMessageReader message(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(of.words.data()), of.words.size()));
    tensor_reader reader(message.getRoot<schema::TensorTable>(), std::move(payloads));
    const detail::stream_scope current(reader.copies());
    use(reader);
  }

  std::string error_of(
      const std::function<void(table_builder)>& change,
      const std::function<void(incoming_payload&)>& spoil = [](auto&) {}) {
    auto spoilt = write({made(1'000)}, true, change);
    auto payloads = leases(spoilt);
    spoil(payloads.at(0));
    try {
      read(spoilt, std::move(payloads), [](tensor_reader& in) { in.get(0); });
    } catch (const decode_error& e) {
      return e.what();
    }
    return "it was read";
  }
};

TEST_F(tensor_leases, go_from_device_to_device) {
  const auto strided = at::arange(40'000, at::TensorOptions(sim::device(0))).view({40, 1'000});
  const auto gaps = strided.slice(1, 0, 1'000, 9);
  const auto whole = made(5'000);
  // Computed before: copies on the way are counted.
  const auto before = sim::counted();
  auto sent = write({whole, whole.slice(0, 10, 20), gaps});
  whole.fill_(-1);
  ASSERT_EQ(sent.payloads.size(), 2u);
  for (const auto& p : sent.payloads) {
    EXPECT_EQ(p.place, place(0));
    EXPECT_FALSE(p.data);
  }
  std::vector<at::Tensor> out;
  auto payloads = leases(sent);
  read(sent, std::move(payloads), [&](tensor_reader& in) {
    for (std::uint32_t i = 0; i < 3; ++i) out.push_back(in.get(i));
    const auto after = sim::counted();
    EXPECT_EQ(after.copies_to_host, before.copies_to_host);
    EXPECT_EQ(after.copies_to_device, before.copies_to_device);
    EXPECT_EQ(after.device_synchronizations, before.device_synchronizations);
    for (const auto& t : out) EXPECT_EQ(t.device(), sim::device(1));
    EXPECT_EQ(out[0].storage().data(), out[1].storage().data());
    EXPECT_TRUE(out[0].cpu().equal(at::full({5'000}, 3.0)));
    EXPECT_TRUE(out[2].cpu().equal(gaps.cpu()));
    EXPECT_EQ(out[2].strides(), gaps.strides());
  });
}

TEST_F(tensor_leases, end_when_the_bytes_have_been_copied) {
  const auto begun = sim::bytes_in_use();  // some of it of tests before, soon to be freed
  {
    auto sent = write({made(50'000)});
    auto payloads = leases(sent);
    const std::weak_ptr<std::byte> lease = payloads[0].data;
    const sim::slow slow(std::chrono::milliseconds(30));
    read(sent, std::move(payloads), [&](tensor_reader& in) {
      EXPECT_FALSE(lease.expired()) << "the copy has not begun";
      in.get(0);
    });
    EXPECT_TRUE(soon([&] { return lease.expired(); }));
  }
  EXPECT_TRUE(soon([&] { return sim::bytes_in_use() <= begun; }));
  detail::close_unused_memory();
  EXPECT_TRUE(soon([] { return ipc().opened == ipc().closed; }));
  EXPECT_EQ(detail::opened_allocations(), 0u);
}

TEST_F(tensor_leases, do_not_end_while_they_are_copied_for_a_message_that_cannot_be_read) {
  const auto strided = at::arange(40'000, at::TensorOptions(sim::device(0))).view({40, 1'000});
  auto spoilt = write({strided.slice(1, 0, 1'000, 9)}, true, [](table_builder b) {
    // No lists of numbers: Cap'n Proto finds it only when they are read.
    auto pointers = capnp::toAny(b.getTensors()[0]).getPointerSection();
    for (unsigned i = 0; i < pointers.size(); ++i)
      if (!pointers[i].isNull()) pointers[i].initAsAnyStruct(1, 0);
  });
  auto payloads = leases(spoilt);
  const std::weak_ptr<std::byte> lease = payloads[0].data;
  const sim::slow slow(std::chrono::milliseconds(30));
  EXPECT_THROW(read(spoilt, std::move(payloads), [](tensor_reader&) {}), decode_error);
  payloads.clear();
  EXPECT_FALSE(lease.expired()) << "a stream still reads";
  EXPECT_TRUE(soon([&] { return lease.expired(); }));
}

// While nothing else is opened or ended.
TEST_F(tensor_leases, stay_open_for_some_seconds_after_their_last_use) {
  const auto a = made(1'000);
  detail::open_memory(place(1), ipc().export_memory(0, a.const_data_ptr()).handle);
  EXPECT_GT(detail::opened_allocations(), 0u);
  EXPECT_TRUE(soon([] { return detail::opened_allocations() == 0; }));
}

TEST_F(tensor_leases, say_so_where_their_memory_cannot_be_opened) {
  auto spoilt = write({made(1'000)}, true,
                      [](table_builder b) { b.getStorages()[0].getLeased().initHandle(24); });
  const auto outcome = std::make_shared<lease_outcome>();
  std::vector<incoming_payload> payloads;
  payloads.push_back({{static_cast<std::byte*>(nullptr), lease_deleter{outcome}},
                      spoilt.payloads.at(0).size,
                      place(0),
                      true});
  EXPECT_THROW(read(spoilt, std::move(payloads), [](tensor_reader&) {}), decode_error);
  EXPECT_TRUE(outcome->could_not_open);
  payloads.clear();
  EXPECT_EQ(outcome.use_count(), 1);
}

TEST_F(tensor_leases, are_of_the_tensors_own_memory_if_nobody_else_has_it) {
  EXPECT_EQ(copies_to_lease(made(1'000), true), 0u);
  // The table's reference came beside the caller's.
  EXPECT_EQ(copies_to_lease(made(1'000), false), 1u);
}

// Whoever owns it may write to it, although nobody else refers to the storage.
TEST_F(tensor_leases, are_copies_of_memory_that_is_not_the_allocators) {
  const auto owner = made(1'000);
  EXPECT_EQ(copies_to_lease(at::for_blob(owner.mutable_data_ptr(), {1'000})
                                .options(owner.options())
                                .target_device(sim::device(0))
                                .make_tensor(),
                            true),
            1u);
}

TEST_F(tensor_leases, are_not_made_where_they_are_not_allowed_or_possible) {
  auto sent = write({made(1'000)}, false);
  ASSERT_EQ(sent.payloads.size(), 1u);
  EXPECT_EQ(sent.payloads[0].place, memory_place{});
  EXPECT_EQ(problems, std::vector<std::string>{""});
  problems.clear();
  ipc().refuses = true;
  sent = write({made(1'000)});
  EXPECT_EQ(sent.payloads[0].place, memory_place{});
  EXPECT_EQ(at::Scalar(*reinterpret_cast<const float*>(sent.payloads[0].data)).toFloat(), 3);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems[1], HasSubstr("no handles today"));
}

TEST_F(tensor_leases, get_no_room_in_vain_more_than_once) {
  const std::vector<at::Tensor> all{made(1'000), made(2'000)};
  ipc().refuses = true;
  write(all);
  const auto before = sim::counted().allocations;
  problems.clear();
  EXPECT_EQ(write(all).payloads.at(1).place, memory_place{});
  EXPECT_EQ(sim::counted().allocations, before);
  EXPECT_THAT(problems.at(3), HasSubstr("no handles today"));
  // As soon as it is no longer in vain.
  ipc().refuses = false;
  EXPECT_EQ(write(all).payloads.at(1).place, place(0));
}

TEST_F(tensor_leases, are_not_more_than_a_message_may_have) {
  const sim::slow fast(std::chrono::microseconds(0));
  std::vector<at::Tensor> all;
  for (int i = 0; i < 4'100; ++i) all.push_back(made(8));
  const auto sent = write(all);
  ASSERT_EQ(sent.payloads.size(), all.size());
  EXPECT_EQ(std::ranges::count_if(sent.payloads, [](const auto& p) { return p.place == place(0); }),
            4'096);
  ASSERT_EQ(problems.size(), all.size());
  EXPECT_THAT(problems.back(), HasSubstr("4096"));
}

TEST_F(tensor_leases, are_asked_for_where_the_devices_have_different_types) {
  const memory_place other{memory_place::kind::cuda, 0};
  const device_route route({{place(0), other}}, "a", "b");
  int asked = 0;
  const auto never = [&](const memory_place& here, const memory_place& there, const std::string&) {
    EXPECT_EQ(here, place(0));
    EXPECT_EQ(there, other);
    ++asked;
    return false;
  };
  tensor_writer writer;
  capnp::MallocMessageBuilder message;
  writer.add(made(1'000));
  writer.go_by(route, never);
  writer.build(message.initRoot<schema::TensorTable>());
  EXPECT_EQ(writer.take_payloads().at(0).place, memory_place{});
  EXPECT_EQ(asked, 1);
}

TEST_F(tensor_leases, are_believed_in_nothing) {
  const auto leased = [](auto change) {
    return [change](table_builder b) { change(b.getStorages()[0].getLeased()); };
  };
  const auto storage = [](auto change) {
    return [change](table_builder b) { change(b.getStorages()[0]); };
  };
  EXPECT_EQ(error_of([](auto) {}), "it was read");
  const auto reaches = HasSubstr("of the sender's memory, which has");
  EXPECT_THAT(error_of(leased([](auto b) { b.setOffset(512); })), reaches);
  EXPECT_THAT(error_of(leased([](auto b) { b.setOffset(~0ull); })), reaches);
  EXPECT_THAT(error_of(leased([](auto b) { b.setBytes(1 << 20); })), HasSubstr("its size"));
  EXPECT_THAT(error_of(storage([](auto b) {
                b.setSize(1 << 20);
                b.getLeased().setBytes(1 << 20);
              })),
              HasSubstr("and its lease 4000"));
  EXPECT_THAT(error_of(storage([](auto b) {
                         b.setSize(1 << 20);
                         b.getLeased().setBytes(1 << 20);
                       }),
                       [](auto& p) { p.size = 1 << 20; }),
              reaches);
  EXPECT_THAT(error_of(leased([](auto b) { b.initHandle(24); })), HasSubstr("never exported"));
  EXPECT_THAT(error_of(leased([](auto b) { b.initHandle(257); })), HasSubstr("too long"));
  EXPECT_THAT(error_of(leased([](auto b) { b.setPayload(1); })), HasSubstr("leased payload 1"));
  EXPECT_THAT(error_of(storage([](auto b) { b.setLanding(0); })), HasSubstr("no device is named"));
  EXPECT_THAT(error_of(storage([](auto b) { b.setLandingType(1); })), HasSubstr("Storage 0"));
  EXPECT_THAT(error_of(storage([](auto b) { b.setPayload(0); })), HasSubstr("empty"));
  const auto no_lease = HasSubstr("its payload is no lease");
  EXPECT_THAT(error_of([](auto) {}, [](auto& p) { p.place = {}; }), no_lease);
  EXPECT_THAT(error_of([](auto) {}, [](auto& p) { p.place.where = memory_place::kind::cuda; }),
              no_lease);
  std::byte some{};
  EXPECT_THAT(error_of([](auto) {}, [&](auto& p) { p.data = {p.data, &some}; }), no_lease);
}

TEST_F(tensor_leases, keep_some_allocations_open_that_nobody_uses) {
  // Tests before may have some open that is soon used no longer.
  soon([] {
    detail::close_unused_memory();
    return detail::opened_allocations() == 0;
  });
  const auto a = made(1'000);
  const auto first = ipc().export_memory(0, a.const_data_ptr());
  const auto opened = ipc().opened.load(), closed = ipc().closed.load();
  auto held = detail::open_memory(place(1), first.handle);
  EXPECT_EQ(detail::open_memory(place(1), first.handle).get(), held.get());
  held.reset();
  EXPECT_EQ(ipc().closed, closed);
  held = detail::open_memory(place(1), first.handle);
  EXPECT_EQ(ipc().opened, opened + 1);
  // In use now: as soon as it no longer is.
  detail::close_unused_memory();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(ipc().closed, closed);
  held.reset();
  EXPECT_TRUE(soon([&] { return ipc().closed == closed + 1; }));
  std::vector<at::Tensor> many;
  for (int i = 0; i < 40; ++i) {
    many.push_back(made(100'000));
    detail::open_memory(place(1), ipc().export_memory(0, many.back().const_data_ptr()).handle);
  }
  EXPECT_TRUE(soon([] { return detail::opened_allocations() == 32; }));
  detail::close_unused_memory();
  EXPECT_TRUE(soon([] { return detail::opened_allocations() == 0; }));
  EXPECT_THROW(detail::open_memory({memory_place::kind{12}, 0}, first.handle), transport_error);
}

}  // namespace
}  // namespace troupe::testing
