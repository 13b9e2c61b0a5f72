#include "troupe/messages/tensor/opened_memory.hpp"

#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/device_ipc_registry.hpp"
#include "troupe/messages/tensor/device_route.hpp"

namespace troupe::detail {

namespace {

// Open and not used. What its owner has freed is not free before it is closed.
constexpr std::size_t most_unused = 32;
constexpr std::chrono::seconds longest_unused(10);

class opened_allocations_of_all {
public:
  std::shared_ptr<const opened_memory> open(const memory_place& on,
                                            std::span<const std::byte> handle) {
    const key name{on.where, on.device, {handle.begin(), handle.end()}};
    auto held = std::make_shared<use>(*this);
    const std::lock_guard lock(mutex_);
    auto found = all_.find(name);
    if (found == all_.end()) {
      auto how = find_device_ipc(on.where);
      if (!how)
        throw transport_error("memory of " + to_string(on) +
                              " cannot be opened: this process does not know how");
      found = all_.try_emplace(name).first;
      auto& made = found->second;
      try {
        made.memory = open_anew(*how, on, handle);
      } catch (...) {
        all_.erase(found);
        throw;
      }
      made.how = std::move(how);
    }
    ++found->second.users;
    found->second.turn = turn_;
    held->of = found;
    held->counted = true;
    return {held, &found->second.memory};
  }

  void close_unused() noexcept {
    const std::lock_guard lock(mutex_);
    ++turn_;
    close_if([](const auto&, const auto& one) { return one.users == 0; });
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

  // An owner may have freed an allocation that is still open here, and have another one at the same
  // address: CUDA then refuses to open that beside the old one.
  opened_memory open_anew(const device_ipc& how, const memory_place& on,
                          std::span<const std::byte> handle) {
    try {
      return how.open(on.device, handle);
    } catch (const transport_error&) {
      if (!close_if([&](const auto& name, const auto& one) {
            return one.users == 0 && one.how && std::get<0>(name) == on.where;
          }))
        throw;
    }
    return how.open(on.device, handle);
  }

  // Those for which `over` is true. False: there are none.
  template <class Test>
  bool close_if(const Test& over) noexcept {
    bool any = false;
    for (auto at = all_.begin(); at != all_.end();) {
      const bool closes = over(at->first, at->second);
      any = any || closes;
      at = closes ? close(at) : std::next(at);
    }
    return any;
  }

  void end(table::iterator of) noexcept {
    const std::lock_guard lock(mutex_);
    auto& one = of->second;
    if (--one.users > 0) return;
    one.unused = std::chrono::steady_clock::now();
    if (one.turn != turn_) {
      close(of);
      return;
    }
    close_if([now = one.unused](const auto&, const allocation& other) {
      return other.users == 0 && now - other.unused > longest_unused;
    });
    std::size_t count = 0;
    auto oldest = all_.end();
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      if (at->second.users > 0) continue;
      ++count;
      if (oldest == all_.end() || at->second.unused < oldest->second.unused) oldest = at;
    }
    if (count > most_unused) close(oldest);
  }

  table::iterator close(table::iterator which) noexcept {
    which->second.how->close(std::get<1>(which->first), which->second.memory);
    return all_.erase(which);
  }

  std::mutex mutex_;
  table all_;
  std::uint64_t turn_ = 0;
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
