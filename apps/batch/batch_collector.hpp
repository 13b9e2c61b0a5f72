#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <troupe/troupe.hpp>
#include <utility>
#include <vector>

namespace batch {

/// Collects calls into batches that are answered together. In each round, every member submits its
/// part and gets a future; the last part completes the round, and all futures get the value of the
/// round. A coroutine that waits for the future holds no thread. Thread-safe.
template <class T>
class batch_collector {
public:
  /// Makes the value of a round from the parts that have been submitted. Called once a round, on
  /// the thread of the last part, while no part can be submitted. If it throws, all futures get the
  /// error.
  using completion = std::function<T()>;

  batch_collector(std::size_t members, completion complete)
      : members_(members, state::awaited), awaited_(members), complete_(std::move(complete)) {}

  /// Submits the part of `member` to this round: `take` puts it where `complete` finds it; parts
  /// are taken one at a time. Throws what `take` throws (the part is then still missing), and
  /// troupe::invalid_argument if there is no such member, it has left, or it has submitted its
  /// part.
  troupe::future<T> submit(std::size_t member, const std::function<void()>& take) {
    std::unique_lock lock(mutex_);
    if (member >= members_.size() || members_[member] != state::awaited)
      throw troupe::invalid_argument("member " + std::to_string(member) +
                                     " is not awaited in this round");
    take();
    members_[member] = state::submitted;
    --awaited_;
    ++submitted_;
    auto result = round_.get_future();
    complete_if_due(lock);
    return result;
  }

  /// Removes `member`: no round waits for it from now on. A part that it has submitted stays in
  /// this round.
  void leave(std::size_t member) {
    std::unique_lock lock(mutex_);
    const auto was = std::exchange(members_.at(member), state::gone);
    if (was == state::awaited) --awaited_;
    complete_if_due(lock);
  }

private:
  enum class state : std::uint8_t { awaited, submitted, gone };

  // Completes the futures without the lock: coroutines that wait for them resume there, and may
  // submit their next part.
  void complete_if_due(std::unique_lock<std::mutex>& lock) {
    if (awaited_ > 0 || submitted_ == 0) return;
    std::optional<T> value;
    std::exception_ptr failure;
    try {
      value = complete_();
    } catch (...) {
      failure = std::current_exception();
    }
    submitted_ = 0;
    for (auto& member : members_)
      if (member == state::submitted) {
        member = state::awaited;
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
  std::vector<state> members_;
  std::size_t awaited_;        // members whose part is missing
  std::size_t submitted_ = 0;  // parts of the round, also of members that have left since
  completion complete_;
  troupe::promise<T> round_;
};

}  // namespace batch
