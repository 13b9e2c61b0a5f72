#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::test::accelerator {

using counter = std::atomic<std::uint64_t>;

// accelerator.hpp, counts
struct counters {
  counter device_synchronizations{0};
  counter stream_synchronizations{0};
  counter event_synchronizations{0};
  counter event_blocks{0};
  counter copies_to_device{0};
  counter copies_to_host{0};
  counter copies_on_device{0};
  counter kernels{0};
  counter fallbacks{0};
  counter records{0};
  counter allocations{0};
  counter reused{0};
  counter exports{0};
  counter opened{0};
  counter closed{0};
  counter pinned{0};
};

counters& count() noexcept;

}  // namespace troupe::test::accelerator
