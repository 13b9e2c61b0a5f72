#include "troupe/actors/groups/nccl/farewell.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

namespace troupe::groups::nccl {

namespace {

constexpr auto most_wait_at_exit = std::chrono::seconds(6);

// Never destroyed: threads may outlast the process's objects.
struct farewells {
  std::mutex mutex;
  std::condition_variable changed;
  int running = 0;
};

farewells& all() {
  static auto* const made = new farewells;
  return *made;
}

void wait_at_exit() {
  std::unique_lock lock(all().mutex);
  all().changed.wait_for(lock, most_wait_at_exit, [] { return all().running == 0; });
}

}  // namespace

farewell::farewell() {
  const std::lock_guard lock(all().mutex);
  static const int registered = std::atexit(&wait_at_exit);
  static_cast<void>(registered);
  ++all().running;
}

farewell::~farewell() {
  const std::lock_guard lock(all().mutex);
  --all().running;
  all().changed.notify_all();
}

}  // namespace troupe::groups::nccl
