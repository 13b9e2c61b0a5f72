#pragma once

#include "troupe/optim/client/optimizer_client.hpp"

// How shards are asked: all at once, and all have an outcome before one of them is looked at.
namespace troupe::detail {

/// A request that cannot even be made fails like one that is not answered: the others go on.
template <class Handle, class Message>
auto ask_one(const Handle& whom, const Message& what) {
  using asked = decltype(request(whom, what));
  try {
    return request(whom, what);
  } catch (...) {
    auto failed = std::make_shared<future_state<typename asked::value_type>>(nullptr);
    failed->set_exception(std::current_exception());
    return asked(std::move(failed));
  }
}

/// In the order of `shards`. That of the node `me` last, by `mine`: what is to be done here is done
/// while the others are at it.
template <class Message, class Mine>
auto ask_all(const std::vector<shard_handle>& shards, const std::string& me, const Message& what,
             const Mine& mine) {
  const autograd::within none(0);
  std::vector<decltype(request(shards.front().actor, what))> all(shards.size());
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (shards[i].node != me) all[i] = ask_one(shards[i].actor, what);
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (shards[i].node == me) all[i] = mine(shards[i]);
  return all;
}

template <class Message>
auto ask_all(const std::vector<shard_handle>& shards, const std::string& me, const Message& what) {
  return ask_all(shards, me, what, [&](const auto& one) { return ask_one(one.actor, what); });
}

template <class T>
std::vector<std::shared_ptr<future_core>> cores_of(const std::vector<future<T>>& all) {
  std::vector<std::shared_ptr<future_core>> out;
  for (const auto& one : all) out.push_back(one.shared());
  return out;
}

/// Throws the first error.
template <class T>
void wait_for_all(const std::vector<future<T>>& all) {
  for (const auto& one : all) one.wait();
  if (const auto why = first_failure(cores_of(all))) std::rethrow_exception(why);
}

}  // namespace troupe::detail
