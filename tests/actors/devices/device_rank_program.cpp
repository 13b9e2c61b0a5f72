// A rank with devices in a job of two: device_rank_program TRANSPORT FILE.

#include <cstdio>

#include "tests/actors/devices/device_functions.hpp"
#include "tests/served.hpp"

int main(int, char** argv) {
  using namespace troupe::test;
  if (!served<&fourfold, &device_there, &device_synchronizations>()) return 2;
  accelerator::install();
  accelerator::set_delay(std::chrono::microseconds(0), std::chrono::microseconds(2'000));
  try {
    const auto node = troupe::init_rpc(with_devices("1", argv[1], argv[2]));
    node.shutdown(true, time_limit);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank 1: %s\n", failure.what());
    return 1;
  }
}
