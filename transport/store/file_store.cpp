#include "transport/store/file_store.hpp"

#include <algorithm>
#include <thread>

#include "messages/error.hpp"
#include "transport/store/store_wire.hpp"

namespace troupe::transport {

namespace {

using op = store_request::op;
using namespace std::chrono_literals;

// How long another process may hold the lock: operations take microseconds.
constexpr std::chrono::milliseconds lock_limit = 30s;

constexpr std::chrono::milliseconds longest_pause = 20ms;

}  // namespace

file_store::file_store(std::filesystem::path path, const std::optional<job_secret>& secret,
                       milliseconds timeout)
    : log_(std::in_place, std::move(path), secret, deadline_after(timeout)) {}

file_store::~file_store() = default;

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
  log().read_new([this](std::span<const std::byte> content) {
    auto change = decode_store_request(content);
    if (change.what == op::set)
      state_.set(change.keys[0], std::move(change.value));
    else if (change.what == op::delete_key)
      state_.erase(change.keys[0]);
    else
      throw store_error("the store's file " + log().path().string() + " has a record of no change");
  });
}

void file_store::append_set(const std::string& key, std::span<const std::byte> value) {
  log().append(
      encode(store_request{.what = op::set, .keys = {key}, .value = {value.begin(), value.end()}}));
}

void file_store::set(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  check_process();
  std::lock_guard lock(mutex_);
  file_store_log::guard hold(log(), true, deadline_after(lock_limit));
  refresh();
  append_set(key, value);
  state_.set(key, bytes(value.begin(), value.end()));
}

store::bytes file_store::get(const std::string& key, milliseconds timeout) {
  wait(std::span(&key, 1), timeout);
  check_process();
  std::lock_guard lock(mutex_);
  const auto value = state_.find(key);
  if (!value) throw store_error("key '" + key + "' was deleted while a get waited for it");
  return *value;
}

void file_store::wait(std::span<const std::string> keys, milliseconds timeout) {
  check_store_keys(keys);
  check_process();
  const auto deadline = deadline_after(timeout);
  std::chrono::milliseconds pause = 1ms;
  std::vector<std::string> missing(keys.begin(), keys.end());
  for (int i = 0;; ++i) {
    const bool last = time_left(deadline) == 0ms;
    // A network file system may show the old size for a while, but not to who takes the lock.
    std::unique_lock lock(mutex_);
    if (last || i % 10 == 0 || log().has_grown()) {
      file_store_log::guard hold(log(), false, deadline_after(lock_limit));
      refresh();
      missing = state_.missing(keys);
    }
    if (missing.empty()) return;
    if (last) throw store_error(wait_timeout_text(timeout, missing));
    lock.unlock();
    std::this_thread::sleep_for(std::min(pause, time_left(deadline)));
    pause = std::min(2 * pause, longest_pause);
  }
}

std::int64_t file_store::add(const std::string& key, std::int64_t delta) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(mutex_);
  file_store_log::guard hold(log(), true, deadline_after(lock_limit));
  refresh();
  const auto sum = state_.add(key, delta);
  append_set(key, to_bytes(std::to_string(sum)));
  return sum;
}

store::bytes file_store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                     std::span<const std::byte> desired) {
  check_store_key(key);
  check_store_value(expected.size());
  check_store_value(desired.size());
  check_process();
  std::lock_guard lock(mutex_);
  file_store_log::guard hold(log(), true, deadline_after(lock_limit));
  refresh();
  auto result = state_.compare_set(key, expected, desired);
  if (result.written) append_set(key, desired);
  return std::move(result.now);
}

bool file_store::delete_key(const std::string& key) {
  check_store_key(key);
  check_process();
  std::lock_guard lock(mutex_);
  file_store_log::guard hold(log(), true, deadline_after(lock_limit));
  refresh();
  if (!state_.erase(key)) return false;
  log().append(encode(store_request{.what = op::delete_key, .keys = {key}}));
  return true;
}

std::uint64_t file_store::num_keys() {
  check_process();
  std::lock_guard lock(mutex_);
  file_store_log::guard hold(log(), false, deadline_after(lock_limit));
  refresh();
  return state_.size();
}

bool file_store::check(std::span<const std::string> keys) {
  check_store_keys(keys);
  check_process();
  std::lock_guard lock(mutex_);
  file_store_log::guard hold(log(), false, deadline_after(lock_limit));
  refresh();
  return state_.missing(keys).empty();
}

}  // namespace troupe::transport
