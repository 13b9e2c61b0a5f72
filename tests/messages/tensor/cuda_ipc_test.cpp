// CUDA's IPC, with a double of the driver; leased_devices_test uses a GPU where there is one.
#include <dlfcn.h>

#include <gmock/gmock.h>

#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/cuda_ipc_internal.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/messages/tensor/opened_memory.hpp"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;

class cuda_memory : public ::testing::Test {
protected:
  const std::string library = TROUPE_TEST_PROGRAM_DIR "/../libtroupe_cuda_double.so";
  const std::shared_ptr<const device_ipc> ipc = detail::make_cuda_ipc(library.c_str());

  void SetUp() override { ASSERT_NE(ipc, nullptr); }

  template <class Function>
  Function* of_double(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(dlopen(library.c_str(), RTLD_NOW), name));
  }
  int open_handles() const { return of_double<int()>("troupe_cuda_double_open_handles")(); }
  static const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }
  template <class F>
  static std::string refusal_of(F&& make) {
    try {
      make();
    } catch (const transport_error& e) {
      return e.fault().text;
    }
    return "nothing was thrown";
  }
};

TEST_F(cuda_memory, is_named_by_its_allocation_and_opened_by_that) {
  const auto first = ipc->export_memory(0, at(0x10200));
  EXPECT_EQ(first.offset, 0x200u);
  EXPECT_LE(first.handle.size(), device_ipc::most_handle);
  EXPECT_EQ(ipc->export_memory(0, at(0x10000)).handle, first.handle);
  EXPECT_NE(ipc->export_memory(0, at(0x20000)).handle, first.handle);
  const auto opened = ipc->open(1, first.handle);
  EXPECT_EQ(opened.data, at(0x1010000));
  EXPECT_EQ(opened.size, 0x4000u);
  EXPECT_EQ(open_handles(), 1);
  ipc->close(1, opened);
  EXPECT_EQ(open_handles(), 0);
}

TEST_F(cuda_memory, is_refused_where_there_is_no_handle) {
  EXPECT_THAT(refusal_of([&] { ipc->export_memory(0, at(0x30010)); }),
              HasSubstr("expandable segments"));
  EXPECT_THAT(refusal_of([&] { ipc->export_memory(0, at(0x90000)); }),
              HasSubstr("cuMemGetAddressRange has failed: wrong value"));
  EXPECT_THAT(refusal_of([&] { ipc->export_memory(3, at(0x10000)); }), HasSubstr("cuDeviceGet"));
}

TEST_F(cuda_memory, believes_no_handle) {
  auto handle = ipc->export_memory(0, at(0x10000)).handle;
  auto shorter = handle;
  shorter.pop_back();
  EXPECT_THAT(refusal_of([&] { ipc->open(0, shorter); }), HasSubstr("wrong size"));
  EXPECT_THAT(refusal_of([&] { ipc->open(0, {}); }), HasSubstr("wrong size"));
  handle[1] = std::byte{0x77};
  EXPECT_THAT(refusal_of([&] { ipc->open(0, handle); }),
              HasSubstr("cuIpcOpenMemHandle has failed: not mapped"));
  EXPECT_EQ(open_handles(), 0);
}

TEST_F(cuda_memory, is_reached_by_gpus_that_say_so) {
  EXPECT_EQ(ipc->identity(0).size(), 16u);
  EXPECT_EQ(ipc->why_not_reached(0, ipc->identity(0)), "");
  EXPECT_EQ(ipc->why_not_reached(0, ipc->identity(1)), "");
  EXPECT_THAT(ipc->why_not_reached(0, ipc->identity(2)), HasSubstr("no access"));
  EXPECT_THAT(ipc->why_not_reached(0, "another"), HasSubstr("not visible"));
}

// The double stands for devices of a type of its own, since the tests run on GPUs, too.
class opened_cuda_memory : public cuda_memory {
protected:
  static constexpr memory_place on{memory_place::kind{13}, 1};

  void SetUp() override {
    cuda_memory::SetUp();
    register_device_ipc(on.where, ipc);
  }
  // The owner's memory at `address` is freed, and there is other memory.
  void replace(std::uint64_t address) const {
    of_double<void(std::uint64_t)>("troupe_cuda_double_replace")(address);
  }
  std::uint64_t number_of(const opened_memory& which) const {
    return of_double<std::uint64_t(int, const void*)>("troupe_cuda_double_opened_number")(
        on.device, which.data);
  }
};

TEST_F(opened_cuda_memory, is_not_taken_for_what_was_there_before) {
  detail::open_memory(on, ipc->export_memory(0, at(0x20000)).handle);
  EXPECT_EQ(open_handles(), 1) << "it stays open for a while";
  replace(0x20000);
  const auto second = ipc->export_memory(0, at(0x20000)).handle;
  const auto opened = detail::open_memory(on, second);
  EXPECT_EQ(number_of(*opened), 102u);
  EXPECT_EQ(open_handles(), 1);
  // What is in use is not closed, and never taken for other memory.
  replace(0x20000);
  EXPECT_THAT(
      refusal_of([&] { detail::open_memory(on, ipc->export_memory(0, at(0x20000)).handle); }),
      HasSubstr("of an allocation that is still open"));
  EXPECT_EQ(number_of(*opened), 102u);
  EXPECT_EQ(open_handles(), 1);
}

TEST(cuda_library, may_be_missing_or_another_one) {
  EXPECT_EQ(detail::make_cuda_ipc("libcuda_of_nobody.so.1"), nullptr);
  EXPECT_EQ(detail::make_cuda_ipc("libc.so.6"), nullptr);
}

}  // namespace
}  // namespace troupe::testing
