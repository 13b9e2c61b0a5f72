#include "troupe/transport/store/tcp/tcp_store.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/store_wire.hpp"

namespace troupe::transport {

namespace {

using op = store_request::op;
using kind = store_reply::kind;

constexpr std::size_t most_idle = 4;
constexpr std::size_t most_read_at_once = 1024 * 1024;

// A live server accepts a further connection at once.
constexpr std::chrono::milliseconds reconnect_limit{2'000};
constexpr std::chrono::milliseconds reconnect_pause{5};

// Nothing is sent on an idle connection: one that is readable has ended.
bool has_ended(int fd) { return wait_readable(fd, std::chrono::steady_clock::now()); }

[[noreturn]] void lost(const endpoint& where, const std::string& how) {
  throw store_error(fmt::format(
      "the store at {} {}: its server (in a job rank 0) has ended, crashed or cannot be reached",
      to_string(where), how));
}

}  // namespace

tcp_store::tcp_store(endpoint where, const job_secret& secret, time_point deadline)
    : tcp_store(std::move(where), secret_source([&] { return secret; }), deadline) {}

tcp_store::tcp_store(endpoint where, const secret_source& secret, time_point deadline)
    : where_(std::move(where)) {
  auto made = connect_until(where_, addresses_, secret, deadline);
  secret_ = made.secret;
  server_ = made.link.server;
  idle_.push_back(std::move(made.link));
  local_ = local_address(idle_.back().fd.get());
}

tcp_store::tcp_store(tcp_store& original)
    : where_(original.where_),
      secret_(original.secret_),
      server_(original.server_),
      addresses_(original.addresses_),
      local_(original.local_) {
  {
    std::lock_guard lock(original.mutex_);
    closed_ = original.closed_;
    response_limit_ = original.response_limit_;
    not_after_ = original.not_after_;
  }
  idle_.push_back(take_connection(std::min(deadline_after(response_limit_), not_after_)));
}

std::shared_ptr<store> tcp_store::make_clone() {
  return std::shared_ptr<store>(new tcp_store(*this));
}

store_link tcp_store::take_connection(time_point deadline) {
  {
    std::lock_guard lock(mutex_);
    if (closed_)
      throw store_error(fmt::format("the store at {} was closed by this rank", to_string(where_)));
    while (!idle_.empty()) {
      auto link = std::move(idle_.back());
      idle_.pop_back();
      if (!has_ended(link.fd.get())) return link;
    }
  }
  const auto limit = std::min(deadline, deadline_after(reconnect_limit));
  auto result = try_connect(addresses_, secret_, limit);
  // Many strangers may have pushed us out: try again while there is time.
  while (!result.link.fd && std::chrono::steady_clock::now() < limit &&
         result.reason != std::strerror(ECONNREFUSED)) {
    std::this_thread::sleep_for(std::min(reconnect_pause, time_left(limit)));
    result = try_connect(addresses_, secret_, limit);
  }
  if (!result.link.fd) lost(where_, fmt::format("takes no connection ({})", result.reason));
  if (result.link.server != server_) lost(where_, "is another one, that was started since");
  return std::move(result.link);
}

store_reply tcp_store::exchange(store_link& link, const store_request& request,
                                time_point deadline) {
  const int fd = link.fd.get();
  const auto check = [&](io_result r) {
    if (r == io_result::closed) lost(where_, "ended the connection");
    if (r == io_result::timed_out) lost(where_, "does not answer");
  };
  check(write_all(fd, link.channel->seal(encode(request)), deadline));
  std::uint32_t length = 0;
  check(read_all(fd, std::as_writable_bytes(std::span(&length, 1)), deadline));
  if (length == 0 || length > max_store_message) lost(where_, "sends a reply of a wrong length");
  // Memory for what arrives, since the length may have been altered on the way.
  bytes in;
  for (const std::size_t all = length + store_channel::tag_size; in.size() < all;) {
    const auto here = in.size();
    in.resize(std::min(all, here + most_read_at_once));
    check(read_all(fd, std::span(in).subspan(here), deadline));
  }
  const auto reply = link.channel->open(in);
  if (!reply) lost(where_, "sends a reply that was altered on the way");
  return decode_store_reply(*reply);
}

// Returns the answer, which may be that something is missing.
store_reply tcp_store::ask(const store_request& request, milliseconds timeout) {
  check_process();
  time_point deadline;
  {
    std::lock_guard lock(mutex_);
    timeout = std::min(timeout, milliseconds::max() / 2);
    deadline = std::min(deadline_after(timeout + response_limit_), not_after_);
  }
  auto link = take_connection(deadline);
  auto reply = exchange(link, request, deadline);
  {
    // Only a connection whose answer has been read can be used again; an exception closes it.
    std::lock_guard lock(mutex_);
    if (idle_.size() < most_idle && !closed_) idle_.push_back(std::move(link));
  }
  if (reply.what == kind::failed) throw store_error(to_text(reply.value));
  return reply;
}

store_reply tcp_store::call(const store_request& request, milliseconds timeout) {
  auto reply = ask(request, timeout);
  if (reply.what == kind::missing) timed_out(timeout, reply.keys);
  return reply;
}

void tcp_store::timed_out(milliseconds timeout, std::span<const std::string> missing) const {
  throw store_error(fmt::format("{} (of the store at {})", wait_timeout_text(timeout, missing),
                                to_string(where_)));
}

void tcp_store::set(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  call({.what = op::set, .keys = {key}, .value = {value.begin(), value.end()}});
}

store::bytes tcp_store::get(const std::string& key, milliseconds timeout) {
  check_store_key(key);
  timeout = std::max(timeout, milliseconds{0});
  return call({.what = op::get, .keys = {key}, .timeout = timeout}, timeout).value;
}

void tcp_store::wait(std::span<const std::string> keys, milliseconds timeout) {
  check_store_keys(keys);
  timeout = std::max(timeout, milliseconds{0});
  call({.what = op::wait, .keys = {keys.begin(), keys.end()}, .timeout = timeout}, timeout);
}

std::int64_t tcp_store::add(const std::string& key, std::int64_t delta) {
  check_store_key(key);
  return call({.what = op::add, .keys = {key}, .delta = delta}).number;
}

store::bytes tcp_store::compare_set(const std::string& key, std::span<const std::byte> expected,
                                    std::span<const std::byte> desired) {
  check_store_key(key);
  check_store_value(expected.size());
  check_store_value(desired.size());
  return call({.what = op::compare_set,
               .keys = {key},
               .value = {desired.begin(), desired.end()},
               .expected = {expected.begin(), expected.end()}})
      .value;
}

void tcp_store::append(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  call({.what = op::append, .keys = {key}, .value = {value.begin(), value.end()}});
}

bool tcp_store::delete_key(const std::string& key) {
  check_store_key(key);
  return call({.what = op::delete_key, .keys = {key}}).number != 0;
}

std::uint64_t tcp_store::num_keys() {
  return static_cast<std::uint64_t>(call({.what = op::num_keys}).number);
}

bool tcp_store::check(std::span<const std::string> keys) {
  check_store_keys(keys);
  return call({.what = op::check, .keys = {keys.begin(), keys.end()}}).number != 0;
}

std::vector<std::string> tcp_store::keys_with(const std::string& prefix) {
  return call({.what = op::list_keys, .value = to_bytes(prefix)}).keys;
}

std::vector<store::bytes> tcp_store::multi_get(std::span<const std::string> keys,
                                               milliseconds timeout) {
  check_store_keys(keys);
  timeout = std::max(timeout, milliseconds{0});
  auto reply = call({.what = op::multi_get, .keys = {keys.begin(), keys.end()}, .timeout = timeout},
                    timeout);
  if (reply.values.size() != keys.size())
    throw decode_error("a reply of the store has another number of values than was asked for");
  return std::move(reply.values);
}

void tcp_store::multi_set(std::span<const std::string> keys, std::span<const bytes> values) {
  check_store_values(keys, values);
  call({.what = op::multi_set,
        .keys = {keys.begin(), keys.end()},
        .values = {values.begin(), values.end()}});
}

void tcp_store::queue_push(const std::string& key, std::span<const std::byte> value) {
  check_store_key(key);
  check_store_value(value.size());
  call({.what = op::queue_push, .keys = {key}, .value = {value.begin(), value.end()}});
}

std::optional<store::bytes> tcp_store::queue_try_pop(const std::string& key, milliseconds timeout) {
  check_store_key(key);
  timeout = std::max(timeout, milliseconds{0});
  auto reply = ask({.what = op::queue_pop, .keys = {key}, .timeout = timeout}, timeout);
  if (reply.what == kind::missing) return std::nullopt;
  return std::move(reply.value);
}

std::uint64_t tcp_store::queue_len(const std::string& key) {
  check_store_key(key);
  return static_cast<std::uint64_t>(call({.what = op::queue_len, .keys = {key}}).number);
}

std::string tcp_store::refusals() { return to_text(call({.what = op::status}).value); }

void tcp_store::close() {
  check_process();
  std::lock_guard lock(mutex_);
  closed_ = true;
  idle_.clear();
}

void tcp_store::set_limits(milliseconds response, time_point not_after) {
  check_process();
  std::lock_guard lock(mutex_);
  response_limit_ = response;
  not_after_ = not_after;
}

}  // namespace troupe::transport
