#include "transport/store/store_desk.hpp"

#include "messages/error.hpp"

namespace troupe::transport {

using op = store_request::op;
using kind = store_reply::kind;

std::optional<store_reply> store_desk::answer(std::uint64_t client, store_request& request,
                                              bool last_chance) {
  forget(client);
  if (request.what != op::get && request.what != op::wait) {
    try {
      return execute(request);
    } catch (const error& e) {
      return store_reply{.what = kind::failed, .value = to_bytes(e.fault().text)};
    }
  }
  auto missing = state_.missing(request.keys);
  if (missing.empty()) {
    if (request.what == op::wait) return store_reply{};
    return store_reply{.what = kind::value, .value = *state_.find(request.keys[0])};
  }
  if (last_chance) return store_reply{.what = kind::missing, .keys = std::move(missing)};
  // One key is enough to wait for: when it comes, the others are looked at again.
  waiters_[missing.front()].insert(client);
  waits_for_[client] = std::move(missing.front());
  return std::nullopt;
}

void store_desk::forget(std::uint64_t client) {
  const auto found = waits_for_.find(client);
  if (found == waits_for_.end()) return;
  const auto waiters = waiters_.find(found->second);
  waiters->second.erase(client);
  if (waiters->second.empty()) waiters_.erase(waiters);
  waits_for_.erase(found);
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
    case op::delete_key: return {.what = kind::number, .number = state_.erase(request.keys[0])};
    case op::num_keys:
      return {.what = kind::number, .number = static_cast<std::int64_t>(state_.size())};
    case op::check: return {.what = kind::number, .number = state_.missing(request.keys).empty()};
    case op::get:
    case op::wait:
    case op::status: break;
  }
  throw store_error("the store has no such operation");
}

void store_desk::wake(const std::string& key) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  woken_.insert(woken_.end(), found->second.begin(), found->second.end());
}

}  // namespace troupe::transport
