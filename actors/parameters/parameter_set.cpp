#include "troupe/actors/parameters/parameter_set.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "troupe/actors/rpc/rpc_node.hpp"
#include "troupe/actors/tensors/snapshot.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace detail {

TROUPE_MESSAGE_CODE(pull_request)
TROUPE_MESSAGE_CODE(pull_answer)

namespace {

// As torch::chunk: parts of as many rows, rounded up.
at::Tensor shard_of(const at::Tensor& whole, std::uint32_t shard, std::uint32_t shards) {
  if (shards == 1 || !whole.defined() || whole.dim() == 0) return whole;
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto rows = whole.size(0);
  const auto each = (rows + shards - 1) / shards;
  const auto begin = std::min(rows, each * shard);
  return whole.narrow(0, begin, std::min(each, rows - begin));
}

const void* memory_of(const at::Tensor& t) {
  return t.defined() && t.has_storage() ? t.storage().data() : nullptr;
}

}  // namespace

/// The call that asks for the parameters of a set. A reader that waits, and the answer that it
/// waits for, keep the set: the wait is given up when the reader's is over, or when this node ends.
future<pull_answer> pull_from(parameter_set& set, const pull_request& request) {
  constexpr std::chrono::milliseconds spare{20};  // the caller's wait has ended by then
  constexpr std::chrono::hours no_end(24 * 365);
  const auto reader = asking_node::of_this_call();
  auto answer = set.serve(request, reader, nullptr);
  auto* const agent = current_agent();
  if (answer.ready() || !agent) return answer;
  const auto until = reader.deadline() == never ? clock::now() + no_end : reader.deadline() + spare;
  const auto timer = agent->wake_at(until);
  timer.state().when_ready(
      make_continuation([waiting = std::weak_ptr<future_state<pull_answer>>(answer.shared())] {
        if (const auto one = waiting.lock()) one->cancel();
      }));
  answer.state().when_ready(make_continuation([node = agent->weak_from_this(), timer, until] {
    if (const auto one = node.lock()) one->forget(timer, until);
  }));
  return answer;
}

namespace {

pulled_parameters parameters_in(const pull_answer& answer, std::uint32_t shard,
                                std::uint32_t shards) {
  if (answer.names.size() != answer.tensors.size() || answer.whole.size() != answer.tensors.size())
    throw decode_error("an answer to a pull has lists of several lengths");
  pulled_parameters out;
  out.version = answer.version;
  out.tensors.reserve(answer.tensors.size());
  for (std::size_t i = 0; i < answer.tensors.size(); ++i) {
    const auto& tensor = answer.tensors[i];
    out.tensors.emplace_back(answer.names[i],
                             answer.whole[i] != 0 ? shard_of(tensor, shard, shards) : tensor);
  }
  return out;
}

}  // namespace

}  // namespace detail

parameter_set::parameter_set(named_tensors tensors, bool readers_wait)
    : live_(std::move(tensors)), readers_wait_(readers_wait) {
  std::unordered_set<std::string_view> names;
  for (const auto& one : live_)
    if (!names.insert(one.first).second)
      throw invalid_argument("a parameter_set has two tensors named '" + one.first + "'");
  publish();
}

void parameter_set::begin_update() {
  std::vector<at::Tensor> before;  // let go without the lock
  const std::lock_guard lock(mutex_);
  if (readers_wait_) published_.swap(before);
}

std::uint64_t parameter_set::commit() {
  std::vector<at::Tensor> before;  // goes last: readers wait
  std::vector<waiting_pull> due;
  std::uint64_t version = 0;
  {
    const std::lock_guard lock(mutex_);
    before = publish();
    version = counts_.version;
    due.swap(waiting_);
  }
  std::vector<waiting_pull> too_early;
  for (auto& one : due) {
    if (one.answer.cancelled()) continue;
    if (one.request.newer_than >= version) {
      too_early.push_back(std::move(one));
      continue;
    }
    try {
      detail::pull_answer answered;
      {
        const std::lock_guard lock(mutex_);
        // Another update may have begun.
        if (published_.empty() && !live_.empty()) {
          too_early.push_back(std::move(one));
          continue;
        }
        answered = answer(one.request, one.places, one.reader);
        ++counts_.pulls;
      }
      one.answer.set_value(std::move(answered));
    } catch (...) {
      one.answer.set_exception(std::current_exception());
    }
  }
  const std::lock_guard lock(mutex_);
  for (auto& one : too_early) waiting_.push_back(std::move(one));
  return version;
}

// With the lock, or in the constructor. Returns the version before.
std::vector<at::Tensor> parameter_set::publish() {
  std::vector<at::Tensor> now;
  std::vector<const void*> memory;
  now.reserve(live_.size());
  memory.reserve(live_.size());
  for (std::size_t i = 0; i < live_.size(); ++i) {
    const auto& tensor = live_[i].second;
    now.push_back(detail::snapshot_of(tensor));
    memory.push_back(detail::memory_of(tensor));
    // Memory that was copied here, not by a write, is counted as well.
    const bool copied_now = tensor.defined() && detail::memory_of(now.back()) != memory.back();
    const bool copied_by_write = !written_to_.empty() && written_to_[i] != memory.back();
    if (!copied_now && !copied_by_write) continue;
    ++counts_.copies;
    counts_.copied_bytes +=
        tensor.defined() && tensor.has_storage() ? tensor.storage().nbytes() : 0;
  }
  published_.swap(now);
  written_to_.swap(memory);
  ++counts_.version;
  return now;
}

parameter_set_counts parameter_set::counts() const {
  const std::lock_guard lock(mutex_);
  auto out = counts_;
  out.waiting = waiting_.size();
  return out;
}

std::vector<std::size_t> parameter_set::places_of(const std::vector<std::string>& names) const {
  std::vector<std::size_t> out;
  if (names.empty()) {
    for (std::size_t i = 0; i < live_.size(); ++i) out.push_back(i);
    return out;
  }
  for (const auto& name : names) {
    const auto at = std::ranges::find_if(live_, [&](const auto& one) { return one.first == name; });
    if (at == live_.end())
      throw invalid_argument(
          fmt::format("a parameter_set has no tensor named '{}', but {} others, '{}' the first",
                      name, live_.size(), live_.empty() ? "" : live_.front().first));
    out.push_back(static_cast<std::size_t>(at - live_.begin()));
  }
  std::ranges::sort(out);
  const auto repeated = std::ranges::unique(out);
  out.erase(repeated.begin(), repeated.end());
  return out;
}

// With the lock.
detail::pull_answer parameter_set::answer(const detail::pull_request& request,
                                          const std::vector<std::size_t>& places,
                                          const detail::asking_node& reader) const {
  detail::pull_answer out;
  out.version = counts_.version;
  std::size_t lent = 0;
  for (const auto i : places) {
    // Each reader gets a storage of its own: who writes to what it has pulled, as the owner may,
    // must not write to what others pull.
    const auto tensor = detail::snapshot_of(published_[i]);
    const bool whole = request.shards == 1 || reader.is_lent(tensor, lent);
    if (whole && tensor.defined() && tensor.has_storage()) lent += tensor.storage().nbytes();
    out.names.push_back(live_[i].first);
    out.tensors.push_back(whole ? tensor : detail::shard_of(tensor, request.shard, request.shards));
    out.whole.push_back(whole ? 1 : 0);
  }
  return out;
}

future<detail::pull_answer> parameter_set::serve(const detail::pull_request& request,
                                                 const detail::asking_node& reader,
                                                 std::shared_ptr<engine> driver) {
  if (request.shards == 0 || request.shard >= request.shards)
    throw invalid_argument(fmt::format("there is no shard {} of {}: they count from 0",
                                       request.shard, request.shards));
  auto places = places_of(request.names);
  promise<detail::pull_answer> given(std::move(driver));
  auto out = given.get_future();
  const std::lock_guard lock(mutex_);
  const bool there = counts_.version > request.newer_than && (!published_.empty() || live_.empty());
  if (there) {
    ++counts_.pulls;
    given.set_value(answer(request, places, reader));
  } else if (!request.wait) {
    detail::pull_answer nothing;
    nothing.version = counts_.version;
    given.set_value(std::move(nothing));
  } else {
    std::erase_if(waiting_, [](const auto& one) { return one.answer.cancelled(); });
    waiting_.push_back({request, std::move(places), reader, std::move(given)});
  }
  return out;
}

namespace {

future<detail::pull_answer> ask(const rref<parameter_set>& from, const pull_options& what) {
  const detail::pull_request request{what.newer_than, what.wait, what.names, what.shard,
                                     what.shards};
  call_options how;
  how.limit = what.limit;
  if (from.is_owner()) {
    const auto driver = from.core()->agent()->driver();
    try {
      return from.local_value().serve(request, {}, driver);
    } catch (...) {  // as from another node
      promise<detail::pull_answer> failed(driver);
      failed.set_exception(std::current_exception());
      return failed.get_future();
    }
  }
  return detail::begin_call_on<&detail::pull_from, parameter_set>(from.core(), request, how);
}

}  // namespace

future<pulled_parameters> pull_async(const rref<parameter_set>& from, const pull_options& what) {
  return ask(from, what)
      .then([shard = what.shard, shards = what.shards](const detail::pull_answer& got) {
        return detail::parameters_in(got, shard, shards);
      });
}

pulled_parameters pull(const rref<parameter_set>& from, const pull_options& what) {
  // Not by `pull_async`: what continues a future runs on another thread.
  const auto answer = ask(from, what);
  const auto limit = what.limit.count() < 0 ? from.core()->agent()->rpc_timeout() : what.limit;
  const bool limited = from.is_owner() && limit.count() > 0;
  return detail::parameters_in(limited ? answer.get_for(limit) : answer.get(), what.shard,
                               what.shards);
}

}  // namespace troupe
