#include "troupe/transport/store/store_waiters.hpp"

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

using op = store_request::op;
using kind = store_reply::kind;

namespace {

store_reply failure(const error& e) {
  return {.what = kind::failed, .value = to_bytes(e.fault().text)};
}

}  // namespace

std::optional<store_reply> store_waiters::answer(std::uint64_t client, store_request& request,
                                                 bool last_chance) {
  if (request.what == op::queue_pop) {
    const auto& key = request.keys[0];
    auto reply = pop(key);
    // A client that was notified and finds nothing goes back to its place.
    const auto found = waits_for_.find(client);
    const auto ticket = found == waits_for_.end() ? 0 : found->second.ticket;
    leave(client, reply.has_value());
    if (reply) return reply;
    if (last_chance) return store_reply{.what = kind::missing, .keys = {key}};
    enqueue(client, key, ticket);
    return std::nullopt;
  }
  const auto waited = waits_for_.find(client);
  const auto from = waited == waits_for_.end() ? 0 : waited->second.at;
  forget(client);
  if (!request.waits()) {
    try {
      return execute(request);
    } catch (const error& e) {
      return failure(e);
    }
  }
  const auto missing = state_.find_missing(request.keys, from, request.what == op::wait);
  if (!missing) {
    if (request.what == op::wait) return store_reply{};
    if (request.what == op::get)
      return store_reply{.what = kind::value, .value = *state_.find(request.keys[0])};
    try {
      return store_reply{.what = kind::values, .values = state_.copy(request.keys)};
    } catch (const error& e) {
      return failure(e);
    }
  }
  if (last_chance) return store_reply{.what = kind::missing, .keys = lacking(request)};
  // Waiting for one key is enough: when it comes, the others are checked again, those behind it
  // first. Keys mostly come in order, and checking all of them each time would take minutes for a
  // call that names as many as it may.
  const auto& key = request.keys[*missing];
  waiters_[key].insert(client);
  waits_for_[client] = {.key = key, .at = *missing};
  return std::nullopt;
}

void store_waiters::leave(std::uint64_t client, bool served) {
  const auto found = waits_for_.find(client);
  if (found == waits_for_.end()) return;
  const auto was = std::move(found->second);
  waits_for_.erase(found);
  if (was.ticket == 0) {
    const auto waiters = waiters_.find(was.key);
    waiters->second.erase(client);
    if (waiters->second.empty()) waiters_.erase(waiters);
  } else if (was.notified) {
    // Another client gets what it leaves.
    if (!served && state_.queue_len(was.key) > 0) wake_next_in_queue(was.key);
  } else {
    const auto queue = pop_queues_.find(was.key);
    queue->second.erase(was.ticket);
    if (queue->second.empty()) pop_queues_.erase(queue);
  }
}

std::vector<std::string> store_waiters::lacking(const store_request& request) const {
  return request.what == op::wait ? state_.missing(request.keys)
                                  : state_.without_value(request.keys);
}

std::optional<store_reply> store_waiters::pop(const std::string& key) {
  auto value = state_.queue_pop(key);
  if (!value) return std::nullopt;
  return store_reply{.what = kind::value, .value = std::move(*value)};
}

void store_waiters::enqueue(std::uint64_t client, const std::string& key, std::uint64_t ticket) {
  if (ticket == 0) ticket = ++last_ticket_;
  pop_queues_[key].emplace(ticket, client);
  waits_for_[client] = {.key = key, .ticket = ticket};
}

store_reply store_waiters::execute(store_request& request) {
  switch (request.what) {
    case op::set:
      state_.set(request.keys[0], std::move(request.value));
      wake(request.keys[0]);
      return {};
    case op::add: {
      const auto sum = state_.add(request.keys[0], request.delta);
      wake(request.keys[0]);
      return {.what = kind::number, .number = sum};
    }
    case op::compare_set: {
      auto result = state_.compare_set(request.keys[0], request.expected, request.value);
      if (result.written) wake(request.keys[0]);
      return {.what = kind::value, .value = std::move(result.now)};
    }
    case op::append:
      state_.append(request.keys[0], request.value);
      wake(request.keys[0]);
      return {};
    case op::multi_set:
      state_.multi_set(request.keys, std::move(request.values));
      for (const auto& key : request.keys) wake(key);
      return {};
    case op::queue_push:
      state_.queue_push(request.keys[0], std::move(request.value));
      wake(request.keys[0]);
      wake_next_in_queue(request.keys[0]);
      return {};
    case op::queue_len:
      return {.what = kind::number,
              .number = static_cast<std::int64_t>(state_.queue_len(request.keys[0]))};
    case op::delete_key: return {.what = kind::number, .number = state_.erase(request.keys[0])};
    case op::num_keys:
      return {.what = kind::number, .number = static_cast<std::int64_t>(state_.size())};
    case op::list_keys:
      return {.what = kind::keys, .keys = state_.keys_with(to_text(request.value))};
    case op::check: return {.what = kind::number, .number = state_.missing(request.keys).empty()};
    case op::get:
    case op::wait:
    case op::multi_get:
    case op::queue_pop:
    case op::status: break;
  }
  throw store_error("the store has no such operation");
}

void store_waiters::wake(const std::string& key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  ready_.insert(ready_.end(), found->second.begin(), found->second.end());
}

// Notifies one more client, so that at least as many are notified as there are values.
void store_waiters::wake_next_in_queue(const std::string& key) {
  const auto queue = pop_queues_.find(key);
  if (queue == pop_queues_.end()) return;
  const auto client = queue->second.begin()->second;
  queue->second.erase(queue->second.begin());
  if (queue->second.empty()) pop_queues_.erase(queue);
  waits_for_.at(client).notified = true;
  ready_.push_back(client);
}

}  // namespace troupe::transport
