#include "actors/task.hpp"

#include "actors/current.hpp"
#include "actors/job.hpp"
#include "actors/node_core.hpp"

namespace troupe::detail {

namespace {

// A coroutine that waits: whoever has this resumes it, or ends it by letting go.
class suspended {
public:
  explicit suspended(std::coroutine_handle<> who) noexcept : who_(who) {}
  suspended(const suspended&) = delete;
  suspended& operator=(const suspended&) = delete;
  ~suspended() {
    if (who_) who_.destroy();
  }

  void resume() { std::exchange(who_, nullptr).resume(); }

private:
  std::coroutine_handle<> who_;
};

}  // namespace

std::shared_ptr<engine> current_driver() {
  auto* node = current_node();
  return node ? node->actors().driver() : nullptr;
}

void resume_when_ready(future_core& what, std::coroutine_handle<> who,
                       const std::shared_ptr<engine>& driver) {
  auto waiting = std::make_shared<suspended>(who);
  what.when_ready(make_continuation([waiting = std::move(waiting), driver] {
    if (!driver || driver->is_own_thread()) return waiting->resume();
    auto* job = make_continuation([waiting] { waiting->resume(); });
    // What it knows of its node is gone with it.
    if (!driver->push_if_open(job)) intrusive_ptr_release(job);
  }));
}

}  // namespace troupe::detail
