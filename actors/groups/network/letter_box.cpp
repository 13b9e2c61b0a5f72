#include "troupe/actors/groups/network/letter_box.hpp"

#include <algorithm>
#include <utility>

namespace troupe::groups::network {

namespace {

bool is_for(int from, int tag, const letter& what) noexcept {
  return (from == any_source || from == what.from) && tag == what.tag;
}

}  // namespace

void letter_box::put(letter&& what) {
  std::shared_ptr<posted_receive> receive;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(
        receives_, [&](const place& one) { return is_for(one.from, one.tag, what); });
    if (at == receives_.end()) {
      letters_.push_back(std::move(what));
      return;
    }
    receive = std::move(at->receive);
    receives_.erase(at);
  }
  receive->on_letter(std::move(what));
}

void letter_box::post(int from, int tag, std::shared_ptr<posted_receive> receive) {
  letter found;
  std::exception_ptr why;
  {
    const std::lock_guard lock(mutex_);
    const auto at =
        std::ranges::find_if(letters_, [&](const letter& one) { return is_for(from, tag, one); });
    if (at != letters_.end()) {
      found = std::move(*at);
      letters_.erase(at);
    } else {
      why = failure_of(from);
      if (!why) {
        receives_.push_back({from, tag, std::move(receive)});
        return;
      }
    }
  }
  if (why)
    receive->on_failure(why);
  else
    receive->on_letter(std::move(found));
}

// A receive from any source waits as long as one rank is there.
std::exception_ptr letter_box::failure_of(int from) const {
  if (failure_) return failure_;
  if (from != any_source) return left_.at(static_cast<std::size_t>(from));
  const auto gone = static_cast<std::size_t>(
      std::ranges::count_if(left_, [](const auto& one) { return one != nullptr; }));
  return gone + 1 < left_.size()
             ? nullptr
             : *std::ranges::find_if(left_, [](const auto& one) { return one != nullptr; });
}

bool letter_box::withdraw(const posted_receive& receive) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(receives_, [&](const place& one) { return one.receive.get() == &receive; }) >
         0;
}

void letter_box::fail(const std::exception_ptr& why) {
  std::deque<place> over;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = why;
    over.swap(receives_);
  }
  for (const auto& one : over) one.receive->on_failure(why);
}

void letter_box::leave(int rank, const std::exception_ptr& why) {
  std::vector<std::shared_ptr<posted_receive>> over;
  {
    const std::lock_guard lock(mutex_);
    left_.at(static_cast<std::size_t>(rank)) = why;
    std::erase_if(receives_, [&](place& one) {
      const bool ends = failure_of(one.from) != nullptr;
      if (ends) over.push_back(std::move(one.receive));
      return ends;
    });
  }
  for (const auto& one : over) one->on_failure(why);
}

}  // namespace troupe::groups::network
