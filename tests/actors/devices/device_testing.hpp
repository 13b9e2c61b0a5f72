#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/actors/cluster/on_devices.hpp"

namespace troupe::test {

/// Devices of every type on every network; the simulated ones run every piece of work late.
class on_slow_devices : public on_devices {
protected:
  void SetUp() override {
    on_devices::SetUp();
    if (IsSkipped() || !simulated()) return;
    slow_.emplace(std::chrono::milliseconds(1));
    before_ = accelerator::counted();
  }

  /// Nothing has waited for a whole device.
  void TearDown() override {
    if (!slow_) return;
    EXPECT_EQ(accelerator::counted().device_synchronizations, before_.device_synchronizations);
  }

  /// Nodes a, b and c. a maps its device 0 to 1 of b, 1 to 0 of b, and 0 to the host memory of c.
  std::vector<node> start_mapped() {
    rpc_options options;
    auto& to_b = options.device_maps["b"];
    to_b.push_back({device(0), device(1)});
    if (count() > 1) to_b.push_back({device(1), device(0)});
    options.device_maps["c"] = {{device(0), "cpu"}};
    return start({"a", "b", "c"}, options);
  }

  c10::impl::VirtualGuardImpl guard() const {
    return c10::impl::VirtualGuardImpl(c10::Device(device(0)).type());
  }
  c10::Stream side_stream(int index) const {
    return guard().getStreamFromGlobalPool(c10::Device(device(index)));
  }

  /// A tensor of this value that is not computed yet.
  at::Tensor coming(double value, int index = 0, std::int64_t size = 1'000) const {
    auto out = at::full({size}, value - 1, at::TensorOptions().device(device(index)));
    out.add_(1);
    return out;
  }

  static void expect_all(const at::Tensor& t, double value) {
    EXPECT_TRUE(t.cpu().equal(at::full(t.sizes(), value))) << t.cpu().sum().item<float>();
  }

private:
  std::optional<accelerator::slow> slow_;
  accelerator::counts before_;
};

}  // namespace troupe::test
