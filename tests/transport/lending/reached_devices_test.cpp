// Which devices of another process this one's reach, and how often the driver is asked.

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/transport/lending/leased_devices.hpp"

namespace troupe::transport::lending::test {
namespace {

using ::testing::HasSubstr;

constexpr auto counted_type = static_cast<memory_place::kind>(19);

// Reaches the device "near" from all, "far" from device 0 alone.
class counted_ipc final : public device_ipc {
public:
  std::string identity(int) const override { return "near"; }
  std::string why_not_reached(int device, const std::string& identity) const override {
    ++asked;
    if (identity == "broken") throw transport_error("the driver failed");
    return identity == "near" || device == 0 ? "" : "no access";
  }
  exported_memory export_memory(int, const void*) const override { return {}; }
  opened_memory open(int, std::span<const std::byte>) const override { return {}; }
  void close(int, const opened_memory&) const noexcept override {}

  mutable std::atomic<int> asked{0};
};

memory_place counted(int device) { return {counted_type, static_cast<std::int8_t>(device)}; }

TEST(reached_devices, ask_the_driver_once_for_a_pair_that_reaches) {
  static const auto ipc = std::make_shared<counted_ipc>();
  register_device_ipc(counted_type, ipc);
  reached_devices there;
  there.set({{counted(0), "near"}, {counted(1), "far"}, {counted(2), "broken"}});
  ipc->asked = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(there.why_not(counted(0), counted(0)), "");
    EXPECT_EQ(there.why_not(counted(0), counted(1)), "");
    EXPECT_EQ(there.why_not(counted(7), counted(0)), "");
  }
  EXPECT_EQ(ipc->asked, 3);
  // What is known of one pair says nothing about others, and what fails may work later.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(there.why_not(counted(1), counted(1)), "no access");
    EXPECT_EQ(there.why_not(counted(0), counted(2)), "the driver failed");
  }
  EXPECT_EQ(ipc->asked, 7);
  // Beyond what is kept.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(there.why_not(counted(100), counted(0)), "");
  EXPECT_EQ(ipc->asked, 9);
}

TEST(reached_devices, name_what_cannot_be) {
  reached_devices there;
  there.set({{{static_cast<memory_place::kind>(18), 0}, "unknown"}});
  EXPECT_THAT(there.why_not(counted(0), {static_cast<memory_place::kind>(18), 0}),
              HasSubstr("different types"));
  EXPECT_THAT(there.why_not(counted(0), counted(5)), HasSubstr("does not open memory on"));
  EXPECT_THAT(there.why_not({static_cast<memory_place::kind>(18), 0},
                            {static_cast<memory_place::kind>(18), 0}),
              HasSubstr("does not know how"));
}

}  // namespace
}  // namespace troupe::transport::lending::test
