#include "transport/ucx/neighbours.hpp"

#include <map>
#include <mutex>
#include <set>

#include "transport/ucx/backend.hpp"

namespace troupe::transport::ucx::neighbours {

namespace {

struct watcher {
  backend* who;
  peer* about;
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

bool watch(const nonce& id, backend& who, peer& about) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  if (!t.alive.contains(id)) return false;
  t.watchers.emplace(id, watcher{&who, &about});
  return true;
}

void unwatch(const backend& who) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.watchers, [&](const auto& one) { return one.second.who == &who; });
}

void unwatch(const peer& about) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  std::erase_if(t.watchers, [&](const auto& one) { return one.second.about == &about; });
}

void end(const nonce& id) {
  auto& t = all();
  const std::lock_guard lock(t.mutex);
  t.alive.erase(id);
  const auto [first, last] = t.watchers.equal_range(id);
  for (auto one = first; one != last; ++one) one->second.who->has_left(*one->second.about);
  t.watchers.erase(first, last);
}

}  // namespace troupe::transport::ucx::neighbours
