// Tensors on devices between processes.
#include <ATen/ops/full.h>

#include "tests/actors/devices/device_functions.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {
namespace {

class device_processes : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(networks, device_processes, testing::Values("ucx", "tcp"),
                         [](const auto& info) { return info.param; });

TEST_P(device_processes, see_what_was_begun_before_a_call) {
  accelerator::install();
  const temporary_folder folder;
  const auto file = (folder.path() / "meet").string();
  rank_process other({TROUPE_TEST_PROGRAM_DIR "/device_rank_program", GetParam(), file});
  const auto here = init_rpc(with_devices("0", GetParam(), file));
  const auto before = accelerator::counted();
  {
    const accelerator::slow slow(std::chrono::milliseconds(1));
    for (int i = 0; i < 50; ++i) {
      const auto size = i % 2 == 0 ? 1'000 : 300'000;
      const auto x = at::full({size}, i - 1, at::TensorOptions().device("sim:0").dtype(at::kFloat));
      x.add_(1);
      EXPECT_EQ(here.rpc_sync<&device_there>("rank1", x), "sim:1");
      const auto y = here.rpc_sync<&fourfold>("rank1", x);
      EXPECT_EQ(y.device().str(), "sim:0");
      EXPECT_TRUE((y + 1).cpu().equal(at::full({size}, 4.0f * static_cast<float>(i) + 1))) << i;
    }
    const auto kept = kept_fourfold(here, "rank1", at::full({9}, 2.0, "sim:1"));
    EXPECT_TRUE(kept.to_here().cpu().equal(at::full({9}, 8.0)));
    EXPECT_EQ(kept.to_here().device().str(), "sim:1");
    // Device 2 has no map, and is not to be used.
    const auto start = clock::now();
    EXPECT_THROW(here.rpc_sync<&fourfold>("rank1", at::full({9}, 2.0, "sim:2")), encode_error);
    EXPECT_LT(clock::now() - start, 1s);
  }
  EXPECT_EQ(accelerator::counted().device_synchronizations, before.device_synchronizations);
  EXPECT_EQ(here.rpc_sync<&device_synchronizations>("rank1"), 0u);
  here.shutdown(true, time_limit);
  EXPECT_TRUE(eventually([&] { return other.ended(); }) && other.ended_well());
}

}  // namespace
}  // namespace troupe::test
