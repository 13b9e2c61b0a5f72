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

std::optional<store_reply> store_desk::answer(std::uint64_t client, store_request& request,
                                              bool last_chance) {
  if (request.what == op::queue_pop) {
    const auto& key = request.keys[0];
    auto reply = pop(key);
    // Who was woken and finds nothing goes back to its place.
    const auto found = waits_for_.find(client);
    const auto ticket = found == waits_for_.end() ? 0 : found->second.ticket;
    leave(client, reply.has_value());
    if (reply) return reply;
    if (last_chance) return store_reply{.what = kind::missing, .keys = {key}};
    stand_in_line(client, key, ticket);
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
  // One key is enough to wait for: when it comes, the others are looked at again, those behind it
  // first. Keys mostly come in their order, and who looked at all of them each time would take
  // minutes for a call that names as many as it may.
  const auto& key = request.keys[*missing];
  waiters_[key].insert(client);
  waits_for_[client] = {.key = key, .at = *missing};
  return std::nullopt;
}

void store_desk::leave(std::uint64_t client, bool served) {
  const auto found = waits_for_.find(client);
  if (found == waits_for_.end()) return;
  const auto was = std::move(found->second);
  waits_for_.erase(found);
  if (was.ticket == 0) {
    const auto waiters = waiters_.find(was.key);
    waiters->second.erase(client);
    if (waiters->second.empty()) waiters_.erase(waiters);
  } else if (was.woken) {
    // Somebody else shall have what it leaves behind.
    if (!served && state_.queue_len(was.key) > 0) wake_next_in_line(was.key);
  } else {
    const auto line = lines_.find(was.key);
    line->second.erase(was.ticket);
    if (line->second.empty()) lines_.erase(line);
  }
}

std::vector<std::string> store_desk::lacking(const store_request& request) const {
  return request.what == op::wait ? state_.missing(request.keys)
                                  : state_.without_value(request.keys);
}

std::optional<store_reply> store_desk::pop(const std::string& key) {
  auto value = state_.queue_pop(key);
  if (!value) return std::nullopt;
  return store_reply{.what = kind::value, .value = std::move(*value)};
}

void store_desk::stand_in_line(std::uint64_t client, const std::string& key, std::uint64_t ticket) {
  if (ticket == 0) ticket = ++last_ticket_;
  lines_[key].emplace(ticket, client);
  waits_for_[client] = {.key = key, .ticket = ticket};
}

store_reply store_desk::execute(store_request& request) {
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
      wake_next_in_line(request.keys[0]);
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

void store_desk::wake(const std::string& key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  woken_.insert(woken_.end(), found->second.begin(), found->second.end());
}

// So that at least as many are woken as there are values, or all who was.
void store_desk::wake_next_in_line(const std::string& key) {
  const auto line = lines_.find(key);
  if (line == lines_.end()) return;
  const auto client = line->second.begin()->second;
  line->second.erase(line->second.begin());
  if (line->second.empty()) lines_.erase(line);
  waits_for_.at(client).woken = true;
  woken_.push_back(client);
}

}  // namespace troupe::transport
