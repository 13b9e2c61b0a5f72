#pragma once

#include "troupe/autograd/context.hpp"
#include "troupe/optim/shard/shard_messages.hpp"

// Requests to all shards at once. All have an outcome before the first error is thrown.
namespace troupe::detail {

/// Sends a request. If it cannot be sent, the future has the error, and the other requests go on.
template <class Handle, class Message>
auto request_one(const Handle& whom, const Message& what) {
  using pending = decltype(request(whom, what));
  try {
    return request(whom, what);
  } catch (...) {
    auto failed = std::make_shared<future_state<typename pending::value_type>>(nullptr);
    failed->set_exception(std::current_exception());
    return pending(std::move(failed));
  }
}

/// In the order of `shards`. The shard on the node `me` comes last, by `local`: what that does on
/// this thread, it does while the others are at work.
template <class Message, class Local>
auto request_all(const std::vector<shard_handle>& shards, const std::string& me,
                 const Message& what, const Local& local) {
  const autograd::within none(0);
  std::vector<decltype(request(shards.front().actor, what))> all(shards.size());
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (shards[i].node != me) all[i] = request_one(shards[i].actor, what);
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (shards[i].node == me) all[i] = local(shards[i]);
  return all;
}

template <class Message>
auto request_all(const std::vector<shard_handle>& shards, const std::string& me,
                 const Message& what) {
  return request_all(shards, me, what,
                     [&](const auto& one) { return request_one(one.actor, what); });
}

template <class T>
std::vector<std::shared_ptr<future_core>> cores_of(const std::vector<future<T>>& all) {
  std::vector<std::shared_ptr<future_core>> out;
  out.reserve(all.size());
  for (const auto& one : all) out.push_back(one.shared());
  return out;
}

/// Throws the first error, in the order of `all`.
template <class T>
void wait_for_all(const std::vector<future<T>>& all) {
  for (const auto& one : all) one.wait();
  if (const auto why = first_failure(cores_of(all))) std::rethrow_exception(why);
}

}  // namespace troupe::detail
