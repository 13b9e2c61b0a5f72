#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <troupe/troupe.hpp>
#include <utility>
#include <vector>

namespace batch {

/// Calls that are answered together. Each member hands in its part of a round and gets a future;
/// with the last part the round is completed, and its value is everyone's. Who waits for the future
/// in a coroutine holds no thread. Thread-safe.
template <class T>
class gathering {
public:
  /// Makes a round's value from the parts that have been handed in. Called once a round, by the
  /// thread that brings the last part, while no part can come. What it throws is everyone's error.
  using completion = std::function<T()>;

  gathering(std::size_t members, completion complete)
      : members_(members, place::awaited), awaited_(members), complete_(std::move(complete)) {}

  /// `member` hands in its part of this round, which `take` puts where `complete` finds it; parts
  /// are taken one at a time. Throws what `take` throws (the part is missing still), and
  /// troupe::invalid_argument for one who is no member, has left, or has a part in this round.
  troupe::future<T> come(std::size_t member, const std::function<void()>& take) {
    std::unique_lock lock(mutex_);
    if (member >= members_.size() || members_[member] != place::awaited)
      throw troupe::invalid_argument("member " + std::to_string(member) +
                                     " is not awaited in this round");
    take();
    members_[member] = place::here;
    --awaited_;
    ++here_;
    auto result = round_.get_future();
    complete_if_due(lock);
    return result;
  }

  /// `member` has gone: no round waits for it from now on. A part of its own stays in this round.
  void leave(std::size_t member) {
    std::unique_lock lock(mutex_);
    const auto was = std::exchange(members_.at(member), place::gone);
    if (was == place::awaited) --awaited_;
    complete_if_due(lock);
  }

private:
  enum class place : std::uint8_t { awaited, here, gone };

  // Tells the members without the lock: their coroutines go on in there, and may come again.
  void complete_if_due(std::unique_lock<std::mutex>& lock) {
    if (awaited_ > 0 || here_ == 0) return;
    std::optional<T> value;
    std::exception_ptr failure;
    try {
      value = complete_();
    } catch (...) {
      failure = std::current_exception();
    }
    here_ = 0;
    for (auto& member : members_)
      if (member == place::here) {
        member = place::awaited;
        ++awaited_;
      }
    auto round = std::exchange(round_, troupe::promise<T>());
    lock.unlock();
    if (failure)
      round.set_exception(failure);
    else
      round.set_value(std::move(*value));
  }

  std::mutex mutex_;
  std::vector<place> members_;
  std::size_t awaited_;   // who belong to the round and have not come
  std::size_t here_ = 0;  // parts of the round, also of those who have gone since
  completion complete_;
  troupe::promise<T> round_;
};

}  // namespace batch
