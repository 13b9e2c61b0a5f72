#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/transport/virtual/datagram.hpp"

namespace troupe::transport::virtual_net {

/// A timer of a connection: to resend what is unacknowledged, or to acknowledge.
struct alarm {
  enum class kind : std::uint8_t { resend, acknowledge };
  kind what{};
  std::uint64_t self = 0;
  std::uint64_t peer = 0;
};

/// The timer of a close handshake: a leave notice that was not answered is sent again.
struct close_alarm {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

/// Notifies `at` that `who` has ended; a node that has not added it forgets it.
struct notice {
  std::uint64_t at = 0;
  node_key who;
  loss_kind kind{};
  bool only_forget = false;  ///< a node that has added it is not notified
};

using event = std::variant<std::monostate, datagram, alarm, close_alarm, notice>;

/// The pending events, by time, and in order of creation at the same moment.
class agenda {
public:
  void put(virtual_time when, event&& what) {
    std::uint32_t slot;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.push_back(std::move(what));
    } else {
      slot = free_.back();
      free_.pop_back();
      slots_[slot] = std::move(what);
    }
    heap_.push_back({when, made_++, slot});
    std::ranges::push_heap(heap_, later);
  }

  virtual_time next() const noexcept { return heap_.empty() ? never : heap_.front().when; }

  /// Pre: `next() != never`.
  event take() {
    const std::uint32_t slot = heap_.front().slot;
    std::ranges::pop_heap(heap_, later);
    heap_.pop_back();
    event what = std::exchange(slots_[slot], std::monostate{});
    free_.push_back(slot);
    if (heap_.empty() && slots_.size() > 1024)
      *this = agenda(made_);  // free the memory after a burst
    return what;
  }

  /// Drops the datagrams that satisfy `which`.
  template <class Predicate>
  void drop_datagrams(Predicate which) {
    for (auto& slot : slots_)
      if (const auto* d = std::get_if<datagram>(&slot); d && which(*d)) slot = std::monostate{};
  }

  agenda() = default;

private:
  explicit agenda(std::uint64_t made) : made_(made) {}

  struct entry {
    virtual_time when;
    std::uint64_t number;
    std::uint32_t slot;
  };

  static bool later(const entry& a, const entry& b) noexcept {
    return a.when != b.when ? a.when > b.when : a.number > b.number;
  }

  std::uint64_t made_ = 0;
  std::vector<entry> heap_;
  std::vector<event> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace troupe::transport::virtual_net
