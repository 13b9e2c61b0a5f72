#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "tests/accelerator/device_kinds.hpp"
#include "tests/actors/node/job.hpp"

namespace troupe::test {

/// A test that runs on every network with devices of every type: with the simulated accelerator
/// everywhere, with GPUs where there are some.
class on_devices : public testing::TestWithParam<std::tuple<network, std::string>> {
protected:
  void SetUp() override {
    kind_.emplace(std::get<1>(GetParam()));
    if (kind_->count() == 0) GTEST_SKIP() << "libtorch finds no " << std::get<1>(GetParam());
  }

  /// "sim:1"
  std::string device(int index) const { return (*kind_)(index); }
  bool simulated() const { return kind_->simulated(); }
  int count() const { return kind_->count(); }

  std::vector<node> start(const std::vector<std::string>& names, const rpc_options& options = {}) {
    return make_nodes(std::get<0>(GetParam()), names, options);
  }

private:
  std::optional<device_kind> kind_;
};

#define TROUPE_ON_DEVICES(suite)                                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                      \
      devices, suite,                                                                            \
      testing::Combine(::troupe::test::all_networks(),                                           \
                       testing::Values(std::string("sim"), std::string("cuda"))),                \
      [](const auto& info) {                                                                     \
        return ::troupe::test::name_of(std::get<0>(info.param)) + "_" + std::get<1>(info.param); \
      })

}  // namespace troupe::test
