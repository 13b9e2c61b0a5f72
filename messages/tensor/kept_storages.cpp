#include "troupe/messages/tensor/kept_storages.hpp"

#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "troupe/messages/base/quiet_thread.hpp"

namespace troupe::detail {

namespace {

// Between two looks at what streams still read. No stream tells a thread in a way that all devices
// have.
constexpr std::chrono::milliseconds interval(5);

// Memory that streams still read, of all nodes of the process. A thread of its own drops it, which
// sleeps where there is none.
class kept_storages {
public:
  kept_storages() {
    start_quiet_thread("troupe-devices", [this] { run(); }).detach();
  }

  // If it throws, `what` is left as it is.
  void add(const stream_list& streams, std::vector<c10::Storage>& what) {
    std::list<entry> mine(1);
    for (const auto& stream : streams) {
      auto& event = mine.front().until.emplace_back(stream.device_type());
      event.record(stream);
    }
    mine.front().what = std::move(what);
    if (mine.front().is_done()) return;
    {
      const std::lock_guard lock(mutex_);
      all_.splice(all_.end(), mine);
    }
    changed_.notify_one();
  }

private:
  struct entry {
    std::vector<c10::Event> until;
    std::vector<c10::Storage> what;

    // A device that has failed reads nothing any more.
    bool is_done() const noexcept {
      try {
        return std::all_of(until.begin(), until.end(), [](const auto& e) { return e.query(); });
      } catch (const std::exception&) {
        return true;
      }
    }
  };

  [[noreturn]] void run() {
    for (;;) {
      std::list<entry> done;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !all_.empty(); });
        for (auto at = all_.begin(); at != all_.end();) {
          const auto next = std::next(at);
          if (at->is_done()) done.splice(done.end(), all_, at);
          at = next;
        }
      }
      done.clear();  // without the lock
      std::this_thread::sleep_for(interval);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<entry> all_;
};

}  // namespace

void keep_until_done(const stream_list& streams, std::vector<c10::Storage>&& what) noexcept {
  try {
    static auto* const kept = new kept_storages;  // streams may read until the process ends
    kept->add(streams, what);
    return;
  } catch (const std::exception&) {
    // There is no memory to keep it aside, or a device has failed.
  }
  for (const auto& stream : streams) {
    try {
      stream.synchronize();
    } catch (const std::exception&) {
      // It has failed: it reads nothing any more.
    }
  }
  what.clear();
}

}  // namespace troupe::detail
