#include "troupe/messages/tensor/kept_storages.hpp"

#include <c10/core/Event.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "troupe/messages/tensor/detached_thread.hpp"

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
    start_detached("troupe-devices", [this] { run(); });
  }

  void add(const stream_list& streams, std::vector<c10::Storage>&& what) {
    entry mine{{}, std::move(what)};
    for (const auto& stream : streams) {
      auto& event = mine.until.emplace_back(stream.device_type());
      event.record(stream);
    }
    if (mine.is_done()) return;
    {
      const std::lock_guard lock(mutex_);
      all_.push_back(std::move(mine));
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

void keep_until_done(const stream_list& streams, std::vector<c10::Storage>&& what) {
  static auto* const kept = new kept_storages;  // streams may read until the process ends
  kept->add(streams, std::move(what));
}

}  // namespace troupe::detail
