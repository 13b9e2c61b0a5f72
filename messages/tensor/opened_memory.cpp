#include "troupe/messages/tensor/opened_memory.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/quiet_thread.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/messages/tensor/device_route.hpp"

namespace troupe::detail {

namespace {

// Open and not used. What its owner has freed is not free before it is closed.
constexpr std::size_t most_unused = 32;
constexpr std::chrono::seconds longest_unused(10);
// Between two looks at what is open.
constexpr std::chrono::seconds between_looks(2);

// The driver is called without the lock of the table, since it may take long, and others use what
// is open meanwhile.
class opened_allocations_of_all;
opened_allocations_of_all& all_opened();

class opened_allocations_of_all {
public:
  std::shared_ptr<const opened_memory> open(const memory_place& on,
                                            std::span<const std::byte> handle) {
    const key name{on.where, on.device, {handle.begin(), handle.end()}};
    if (auto known = find(name)) return known;
    const std::lock_guard driver(driver_);
    if (auto known = find(name)) return known;  // another thread was faster
    auto how = find_device_ipc(on.where);
    if (!how)
      throw transport_error("memory of " + to_string(on) +
                            " cannot be opened: this process does not know how");
    start_thread();
    table fresh;
    const auto made = fresh.try_emplace(name).first;
    auto held = std::make_shared<use>(*this);
    made->second.memory = open_anew(*how, on, handle);
    made->second.how = std::move(how);
    const std::lock_guard lock(mutex_);
    if (all_.empty()) changed_.notify_one();
    return used(all_.insert(fresh.extract(made)).position, std::move(held));
  }

  // By the thread: whoever says so may not wait for the driver.
  void close_unused() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (all_.empty()) return;
      ++turn_;
    }
    changed_.notify_one();
  }

  std::size_t count() noexcept {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }

private:
  using key = std::tuple<memory_place::kind, std::int8_t, std::vector<std::byte>>;
  struct allocation {
    opened_memory memory;
    std::shared_ptr<const device_ipc> how;
    std::size_t users = 0;
    std::uint64_t turn = 0;                        // of `close_unused`, when it was used last
    std::chrono::steady_clock::time_point unused;  // when it became so
  };
  using table = std::map<key, allocation>;

  struct use {
    explicit use(opened_allocations_of_all& in) : all(in) {}
    ~use() {
      if (counted) all.end(of);
    }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

    opened_allocations_of_all& all;
    table::iterator of{};
    bool counted = false;
  };

  // Null: it is not open.
  std::shared_ptr<const opened_memory> find(const key& name) {
    auto held = std::make_shared<use>(*this);
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(name);
    return found == all_.end() ? nullptr : used(found, std::move(held));
  }

  // Under the lock.
  std::shared_ptr<const opened_memory> used(table::iterator which,
                                            std::shared_ptr<use> held) noexcept {
    ++which->second.users;
    which->second.turn = turn_;
    held->of = which;
    held->counted = true;
    return {std::move(held), &which->second.memory};
  }

  // An owner may have freed an allocation that is still open here, and have another one at the same
  // address. CUDA then refuses to open that beside the old one, or takes it for the old one.
  opened_memory open_anew(const device_ipc& how, const memory_place& on,
                          std::span<const std::byte> handle) {
    for (bool again = false;; again = true) {
      try {
        const auto memory = how.open(on.device, handle);
        if (!is_open(on, memory.data)) return memory;
        how.close(on.device, memory);
        throw transport_error(
            "the driver opens memory that has been freed, of an allocation that is still open");
      } catch (const transport_error&) {
        if (again || !close_if([&](const auto& name, const auto& one) {
              return one.users == 0 && std::get<0>(name) == on.where;
            }))
          throw;
      }
    }
  }

  bool is_open(const memory_place& on, const std::byte* at) {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, one] : all_)
      if (std::get<0>(name) == on.where && std::get<1>(name) == on.device && one.memory.data == at)
        return true;
    return false;
  }

  // Those for which `over` is true. With the lock of the driver: what is open there is in the
  // table, or in the hands of whoever has that lock. False: there are none.
  template <class Test>
  bool close_if(const Test& over) noexcept {
    table gone;
    {
      const std::lock_guard lock(mutex_);
      take_if(over, gone);
    }
    close_all(gone);
    return !gone.empty();
  }

  // Under the lock.
  template <class Test>
  void take_if(const Test& over, table& to) noexcept {
    for (auto at = all_.begin(); at != all_.end();) {
      const auto next = std::next(at);
      if (over(at->first, at->second)) to.insert(all_.extract(at));
      at = next;
    }
  }

  static void close_all(const table& gone) noexcept {
    for (const auto& [name, one] : gone) one.how->close(std::get<1>(name), one.memory);
  }

  void end(table::iterator of) noexcept {
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      auto& one = of->second;
      if (--one.users > 0) return;
      one.unused = std::chrono::steady_clock::now();
      wake = one.turn != turn_ || unused().size > most_unused;
    }
    if (wake) changed_.notify_one();
  }

  struct unused_ones {
    std::size_t size = 0;
    bool any_before_turn = false;
    table::iterator oldest{};  // if there are any
  };
  // Under the lock.
  unused_ones unused() noexcept {
    unused_ones out;
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      const auto& one = at->second;
      if (one.users > 0) continue;
      if (out.size++ == 0 || one.unused < out.oldest->second.unused) out.oldest = at;
      out.any_before_turn = out.any_before_turn || one.turn != turn_;
    }
    return out;
  }

  void start_thread() {
    if (std::exchange(started_, true)) return;
    start_quiet_thread("troupe-opened", [this] { run(); }).detach();
    // The driver was used before, so its own handlers run after this one.
    std::atexit([] { all_opened().end_with_process(); });
  }

  // From now on the driver may be gone.
  void end_with_process() noexcept {
    const std::lock_guard driver(driver_);
    over_ = true;
  }

  // Closes what has not been used for long.
  [[noreturn]] void run() {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !all_.empty(); });
        changed_.wait_for(lock, between_looks, [&] {
          const auto now = unused();
          return now.any_before_turn || now.size > most_unused;
        });
      }
      close_surplus();
    }
  }

  void close_surplus() noexcept {
    const std::lock_guard driver(driver_);
    if (over_) return;
    table gone;
    {
      const std::lock_guard lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      take_if(
          [&](const auto&, const allocation& one) {
            return one.users == 0 && (one.turn != turn_ || now - one.unused > longest_unused);
          },
          gone);
      for (auto left = unused(); left.size > most_unused; left = unused())
        gone.insert(all_.extract(left.oldest));
    }
    close_all(gone);
  }

  std::mutex driver_;  // for calls that open and close; locked first
  std::mutex mutex_;   // the table's
  std::condition_variable changed_;
  table all_;
  std::uint64_t turn_ = 0;
  bool started_ = false;  // under `driver_`
  bool over_ = false;     // the same: the process ends
};

// Never destroyed: streams may read until the process ends.
opened_allocations_of_all& all_opened() {
  static auto* const all = new opened_allocations_of_all;
  return *all;
}

}  // namespace

std::shared_ptr<const opened_memory> open_memory(const memory_place& on,
                                                 std::span<const std::byte> handle) {
  return all_opened().open(on, handle);
}

void close_unused_memory() noexcept { all_opened().close_unused(); }

std::size_t opened_allocations() noexcept { return all_opened().count(); }

}  // namespace troupe::detail
