#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "troupe/actors/future/future.hpp"

namespace troupe::groups {

class work_queue;

/// The future of a collective that waits in `queue`: whoever waits for it may run it.
class work_future final : public troupe::detail::future_state<std::vector<at::Tensor>> {
public:
  work_future(std::shared_ptr<engine> driver, std::shared_ptr<work_queue> queue)
      : future_state(std::move(driver)), queue_(std::move(queue)) {}

  /// Before others have it.
  void set_sequence(std::uint64_t number) noexcept { sequence_ = number; }

  void wanted(const clock::time_point* deadline) override;

private:
  const std::shared_ptr<work_queue> queue_;  // nullptr: of a message
  std::uint64_t sequence_ = 0;
};

}  // namespace troupe::groups
