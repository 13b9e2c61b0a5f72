#pragma once

#include <memory>
#include <utility>

#include "troupe/actors/messaging/flow_control.hpp"

namespace troupe {

/// Room in this node's window that a message from `from` takes, until it is taken up. Move-only.
class window_credit {
public:
  window_credit() = default;
  window_credit(std::shared_ptr<flow_control> flow, peer& from, std::size_t bytes) noexcept
      : flow_(std::move(flow)), from_(&from), bytes_(bytes) {}
  window_credit(window_credit&& other) noexcept = default;
  window_credit& operator=(window_credit&& other) noexcept {
    settle();
    flow_ = std::move(other.flow_);
    from_ = other.from_;
    bytes_ = other.bytes_;
    return *this;
  }
  ~window_credit() { settle(); }

  /// The message is being worked on; once.
  void settle() noexcept {
    if (auto flow = std::move(flow_)) flow->taken_up(*from_, bytes_);
  }

private:
  std::shared_ptr<flow_control> flow_;
  peer* from_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace troupe
