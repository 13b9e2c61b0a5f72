#include "troupe/transport/ucx/pending_sends.hpp"

#include <array>
#include <utility>

namespace troupe::transport::ucx {

namespace {

// A thread's spare slots.
struct slot_cache {
  std::array<send_slot*, 16> spare;
  std::size_t count = 0;
  bool closed = false;

  ~slot_cache() {
    closed = true;
    while (count > 0) delete spare[--count];
  }
};

thread_local slot_cache cache;

}  // namespace

pending_sends::~pending_sends() {
  release();
  while (waiting_) {
    send_slot* slot = waiting_;
    unlink(slot);
    delete slot;
  }
}

send_slot* pending_sends::begin(peer& to) {
  send_slot* slot = cache.count > 0 ? cache.spare[--cache.count] : new send_slot;
  slot->owner = this;
  slot->to = &to;
  // Relaxed: `reconnect` changes it while no sender is inside, and the lock under which the link
  // opens again publishes it.
  if (to.net) slot->connection = to.net->number.load(std::memory_order_relaxed);
  return slot;
}

void pending_sends::end(send_slot* slot) noexcept {
  slot->envelope = {};
  slot->keep.reset();
  slot->finished = false;
  if (!cache.closed && cache.count < cache.spare.size())
    cache.spare[cache.count++] = slot;
  else
    delete slot;
}

void pending_sends::wait(send_slot* slot) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!slot->finished) {
      slot->previous = nullptr;
      slot->next = waiting_;
      if (waiting_) waiting_->previous = slot;
      waiting_ = slot;
      // Under the lock, as in `unlink`, so that no decrement comes first. These publish nothing:
      // relaxed would do.
      count_.fetch_add(1, std::memory_order_release);
      slot->to->pending.fetch_add(1, std::memory_order_release);
      return;
    }
  }
  end(slot);  // another thread's progress was faster
}

void pending_sends::callback(void* request, ucs_status_t status, void* user_data) noexcept {
  auto* slot = static_cast<send_slot*>(user_data);
  pending_sends& self = *slot->owner;
  if (status != UCS_OK) self.failed_(*slot, status);
  {
    const std::lock_guard lock(self.mutex_);
    if (slot->previous || self.waiting_ == slot) {
      self.unlink(slot);
      slot->next = self.finished_;
      self.finished_ = slot;
      // A hint, see `release`.
      self.any_finished_.store(true, std::memory_order_release);
    }
    slot->finished = true;
  }
  ucp_request_free(request);
}

void pending_sends::unlink(send_slot* slot) noexcept {
  (slot->previous ? slot->previous->next : waiting_) = slot->next;
  if (slot->next) slot->next->previous = slot->previous;
  slot->previous = slot->next = nullptr;
  // Pair with the acquires of `idle` and `finish_closing`, which take no lock: a thread that reads
  // 0 there knows that UCX has let go of the sends.
  count_.fetch_sub(1, std::memory_order_release);
  slot->to->pending.fetch_sub(1, std::memory_order_release);
}

unsigned pending_sends::release() {
  // A hint, to poll without the lock, which publishes the list. Relaxed would do: what this look
  // misses, the next poll finds.
  if (!any_finished_.load(std::memory_order_acquire)) return 0;
  send_slot* slot;
  {
    const std::lock_guard lock(mutex_);
    slot = std::exchange(finished_, nullptr);
    any_finished_.store(false, std::memory_order_release);
  }
  unsigned n = 0;
  while (slot) {
    send_slot* next = std::exchange(slot->next, nullptr);
    end(slot);
    slot = next;
    ++n;
  }
  return n;
}

}  // namespace troupe::transport::ucx
