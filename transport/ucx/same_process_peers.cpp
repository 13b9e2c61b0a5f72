#include "troupe/transport/ucx/same_process_peers.hpp"

#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace troupe::transport::ucx::same_process_peers {

namespace {

struct watcher {
  const void* who;
  std::function<void()> ended;
};

struct table {
  std::mutex mutex;
  std::set<nonce> alive;
  std::multimap<nonce, watcher> watchers;
};

// Never destroyed: a transport may live as long as the process.
table& all() {
  static auto* one = new table;
  return *one;
}

}  // namespace

void begin(const nonce& id) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  t.alive.insert(id);
}

bool watch(const nonce& id, const void* who, std::function<void()> ended) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  if (!t.alive.contains(id)) return false;
  t.watchers.emplace(id, watcher{who, std::move(ended)});
  return true;
}

void unwatch(const void* who) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.watchers, [&](const auto& one) { return one.second.who == who; });
}

void end(const nonce& id) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  t.alive.erase(id);
  const auto [first, last] = t.watchers.equal_range(id);
  // Under the lock: after `unwatch` none is called any more. They lock only what is held for no
  // call, and wake their transport.
  for (auto one = first; one != last; ++one) one->second.ended();
  t.watchers.erase(first, last);
}

}  // namespace troupe::transport::ucx::same_process_peers
