#include "troupe/transport/store/file_store.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/file_store_log.hpp"
#include "troupe/transport/store/store_wire.hpp"

namespace troupe::transport {

namespace {

using op = store_request::op;
using namespace std::chrono_literals;

// How long another process may hold the lock: operations take microseconds.
constexpr std::chrono::milliseconds lock_limit = 30s;

constexpr std::chrono::milliseconds longest_pause = 20ms;

store::bytes copy(std::span<const std::byte> value) { return {value.begin(), value.end()}; }

}  // namespace

file_store::file_store(const std::filesystem::path& path, const std::optional<job_secret>& secret,
                       milliseconds timeout)
    : path_(std::filesystem::absolute(path)),
      given_(secret),
      log_(std::make_unique<file_store_log>(path_, secret, deadline_after(timeout))) {}

file_store::~file_store() = default;

const job_secret& file_store::secret() { return log().secret(); }

std::shared_ptr<store> file_store::make_clone() {
  std::lock_guard lock(mutex_);
  log();  // once closed there is nothing to clone
  auto other = std::make_shared<file_store>(path_, given_);
  if (!other->log().is_one_with(log()))
    throw store_error("the store's file " + path_.string() +
                      " cannot be opened again: it was removed or replaced");
  return other;
}

void file_store::close() {
  check_process();
  std::lock_guard lock(mutex_);
  log_.reset();
}

file_store_log& file_store::log() {
  if (!log_) throw store_error("the store's file was closed by this rank");
  return *log_;
}

void file_store::refresh() {
  log().read_new(
      [this](std::span<const std::byte> content) { take_up(decode_store_request(content)); });
}

// Applies a change of another process.
void file_store::take_up(store_request&& change) {
  switch (change.what) {
    case op::set: return state_.set(change.keys[0], std::move(change.value));
    case op::append: return state_.append(change.keys[0], change.value);
    case op::multi_set: return state_.multi_set(change.keys, std::move(change.values));
    case op::queue_push: return state_.queue_push(change.keys[0], std::move(change.value));
    case op::queue_pop: return (void)state_.queue_pop(change.keys[0]);
    case op::delete_key: return (void)state_.erase(change.keys[0]);
    default:
      throw store_error("the store's file " + path_.string() + " has a record of unknown kind");
  }
}

// Writes a change that `state_` has made already.
void file_store::write(const store_request& change) {
  try {
    log().append(encode(change));
  } catch (...) {
    // No other process has seen it: forget it and read again what they have seen.
    state_ = store_state();
    log().start_over();
    throw;
  }
}

template <class Look>
bool file_store::poll(milliseconds timeout, bool writing, Look&& look) {
  check_process();
  const auto deadline = deadline_after(timeout);
  std::chrono::milliseconds pause = 1ms;
  for (int i = 0;; ++i) {
    const bool last = time_left(deadline) == 0ms;
    // A network file system may show the old size for a while, but not to the holder of the lock.
    std::unique_lock lock(mutex_);
    if (last || i % 10 == 0 || log().has_grown()) {
      file_store_log::guard hold(log(), writing, deadline_after(lock_limit));
      refresh();
      if (look()) return true;
    }
    if (last) return false;
    lock.unlock();
    std::this_thread::sleep_for(std::min(pause, time_left(deadline)));
    pause = std::min(2 * pause, longest_pause);
  }
}

// Starts an operation: checks the process, takes the file's lock and reads what others have
// written.
class file_store::turn {
public:
  turn(file_store& at, bool writing)
      : lock_(mutex_of(at)), hold_(at.log(), writing, deadline_after(lock_limit)) {
    at.refresh();
  }

private:
  static std::mutex& mutex_of(file_store& at) {
    at.check_process();  // in a forked child the mutex may be held by a thread that does not exist
    return at.mutex_;
  }

  std::lock_guard<std::mutex> lock_;
  file_store_log::guard hold_;
};

void file_store::set(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  turn mine(*this, true);
  state_.set(key, copy(value));
  write({.what = op::set, .keys = {key}, .value = copy(value)});
}

store::bytes file_store::get(const std::string& key, milliseconds timeout) {
  check_store_key(key);
  bytes out;
  const auto look = [&] {
    const auto found = state_.find(key);
    if (found) out = *found;
    return found != nullptr;
  };
  if (!poll(timeout, false, look))
    throw store_error(wait_timeout_text(timeout, std::span(&key, 1)));
  return out;
}

void file_store::wait(std::span<const std::string> keys, milliseconds timeout) {
  check_store_keys(keys);
  std::vector<std::string> missing;
  const auto look = [&] { return (missing = state_.missing(keys)).empty(); };
  if (!poll(timeout, false, look)) throw store_error(wait_timeout_text(timeout, missing));
}

bool file_store::check(std::span<const std::string> keys) {
  check_store_keys(keys);
  turn mine(*this, false);
  return state_.missing(keys).empty();
}

std::int64_t file_store::add(const std::string& key, std::int64_t delta) {
  check_store_key(key);
  turn mine(*this, true);
  const auto sum = state_.add(key, delta);
  write({.what = op::set, .keys = {key}, .value = to_bytes(std::to_string(sum))});
  return sum;
}

store::bytes file_store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                     std::span<const std::byte> desired) {
  check_store_key(key);
  check_store_value(expected.size());
  check_store_value(desired.size());
  turn mine(*this, true);
  auto result = state_.compare_set(key, expected, desired);
  if (result.written) write({.what = op::set, .keys = {key}, .value = copy(desired)});
  return std::move(result.now);
}

void file_store::append(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  turn mine(*this, true);
  state_.append(key, value);
  write({.what = op::append, .keys = {key}, .value = copy(value)});
}

bool file_store::delete_key(const std::string& key) {
  check_store_key(key);
  turn mine(*this, true);
  if (!state_.erase(key)) return false;
  write({.what = op::delete_key, .keys = {key}});
  return true;
}

std::uint64_t file_store::num_keys() {
  turn mine(*this, false);
  return state_.size();
}

std::vector<std::string> file_store::keys_with(const std::string& prefix) {
  turn mine(*this, false);
  return state_.keys_with(prefix);
}

std::vector<store::bytes> file_store::multi_get(std::span<const std::string> keys,
                                                milliseconds timeout) {
  check_store_keys(keys);
  std::vector<std::string> missing;
  std::vector<bytes> out;
  const auto look = [&] {
    missing = state_.without_value(keys);
    if (missing.empty()) out = state_.copy(keys);
    return missing.empty();
  };
  if (!poll(timeout, false, look)) throw store_error(wait_timeout_text(timeout, missing));
  return out;
}

void file_store::multi_set(std::span<const std::string> keys, std::span<const bytes> values) {
  check_store_values(keys, values);
  turn mine(*this, true);
  state_.multi_set(keys, {values.begin(), values.end()});
  write({.what = op::multi_set,
         .keys = {keys.begin(), keys.end()},
         .values = {values.begin(), values.end()}});
}

void file_store::queue_push(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  turn mine(*this, true);
  state_.queue_push(key, copy(value));
  write({.what = op::queue_push, .keys = {key}, .value = copy(value)});
}

std::optional<store::bytes> file_store::queue_try_pop(const std::string& key,
                                                      milliseconds timeout) {
  check_store_key(key);
  std::optional<bytes> out;
  poll(timeout, true, [&] {
    out = state_.queue_pop(key);
    if (out) write({.what = op::queue_pop, .keys = {key}});
    return out.has_value();
  });
  return out;
}

std::uint64_t file_store::queue_len(const std::string& key) {
  check_store_key(key);
  turn mine(*this, false);
  return state_.queue_len(key);
}

}  // namespace troupe::transport
