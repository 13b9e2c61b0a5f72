#pragma once

// Groups whose tensors lie on the simulated accelerator, where the double of NCCL works.

#include <c10/core/Device.h>
#include <c10/core/DeviceGuard.h>

#include <cstdint>
#include <string>

#include "tests/accelerator/accelerator.hpp"
#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {

/// Makes "nccl_double" a backend for devices of the simulated accelerator, "sim". Any number of
/// times.
void register_nccl_double();

/// "cpu:troupe,sim:nccl_double", with what else is asked for.
group_options on_nccl_double(group_options with = {});

/// What the double is to do wrong from now on, as double_faults.hpp says; nothing after this has
/// gone.
class double_faults {
public:
  explicit double_faults(const std::string& text);
  ~double_faults();
  double_faults(const double_faults&) = delete;
  double_faults& operator=(const double_faults&) = delete;
};

/// Calls of a function of the double so far: "init".
std::uint64_t double_calls(const std::string& function);
int double_communicators();

/// The device of a rank of `local_group`.
inline c10::Device device_of_rank(int rank) {
  return accelerator::device(rank % accelerator::device_count);
}

/// As local_group::run, each rank with its device current.
template <class F>
void run_on_devices(local_group& all, F body) {
  all.run([&](const process_group& group, int rank) {
    const c10::DeviceGuard current(device_of_rank(rank));
    body(group, rank);
  });
}

}  // namespace troupe::test
