#include "double_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "accelerator.hpp"

namespace troupe::test::nccl_double {

using groups::nccl::no_color;
using groups::nccl::result;
using groups::nccl::unique_id;
using namespace std::chrono_literals;

namespace {

std::atomic<int> alive{0};

}  // namespace

const char* name_of(call::what function) noexcept {
  switch (function) {
    case call::what::all_reduce: return "all_reduce";
    case call::what::reduce: return "reduce";
    case call::what::broadcast: return "broadcast";
    case call::what::all_gather: return "all_gather";
    case call::what::reduce_scatter: return "reduce_scatter";
    case call::what::send: return "send";
    case call::what::recv: return "recv";
  }
  return "";
}

communicator::~communicator() { --alive; }

std::shared_ptr<communicator> communicator::join(const unique_id& id, int rank, int size) {
  auto out = std::make_shared<communicator>(rank, size);
  ++alive;
  const auto wrong = next_fault("init", rank);
  if (wrong.kind == fault_kind::fails || wrong.kind == fault_kind::fails_later)
    out->error_ = result::system_error;
  out->region_ = region::open(id);
  if (!out->region_) {
    out->error_ = result::remote_error;
    return out;
  }
  if (wrong.kind == fault_kind::waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(wrong.milliseconds));
  if (wrong.kind == fault_kind::hangs)
    out->hangs_ = true;
  else if (out->error_.load() == result::success)
    out->region_->of(rank).joined = 1;
  return out;
}

void communicator::begin_split(int color, int key, std::vector<int> taking_part, delivery deliver) {
  const auto wrong = next_fault("split", rank_);
  auto child = std::make_shared<communicator>(0, 0);
  ++alive;
  child->slot_ = static_cast<int>(split_count_++ % region::splits);
  child->parent_ = shared_from_this();
  child->taking_part_ = std::move(taking_part);
  splitting_ = child;
  deliver_ = std::move(deliver);
  if (wrong.kind == fault_kind::fails) child->error_ = result::system_error;
  if (wrong.kind == fault_kind::hangs) {
    child->hangs_ = true;
    return;
  }
  auto& wish = region_->of(rank_).wishes[child->slot_];
  wish.color = color;
  wish.key = key;
  wish.made.store(1);
}

// NCCL's own thread hands over what it has made when all is done, after an abort too.
result communicator::go_on_with_split() {
  const auto state = splitting_->state();
  if (state == result::in_progress) return state;
  auto made = std::exchange(splitting_, nullptr);
  const bool none = made->no_color_;
  std::exchange(deliver_, nullptr)(none ? nullptr : std::move(made));
  return state;
}

void communicator::abort() noexcept {
  aborted_ = true;
  if (!splitting_) return;
  std::exchange(splitting_, nullptr)->parent_.reset();
  auto late = std::make_shared<communicator>(0, 0);
  ++alive;
  std::exchange(deliver_, nullptr)(std::move(late));
}

bool communicator::finalize() {
  region_->of(rank_).finalized = 1;
  for (int one = 0; one < size_; ++one)
    if (region_->of(one).finalized.load() == 0) return false;
  return idle();
}

result communicator::launch_later(void* stream, std::vector<call> calls, const fault& how) {
  launches_at_ = how.kind == fault_kind::hangs ? std::chrono::steady_clock::time_point::max()
                                               : std::chrono::steady_clock::now() +
                                                     std::chrono::milliseconds(how.milliseconds);
  launches_ = [this, stream, calls = std::move(calls)] { launch(stream, calls); };
  return result::in_progress;
}

result communicator::state() {
  if (error_.load() != result::success) return error_;
  if (!ready_.load()) return hangs_.load() ? result::in_progress : join_region();
  if (splitting_) return go_on_with_split();
  if (launches_) {
    if (std::chrono::steady_clock::now() < launches_at_) return result::in_progress;
    std::exchange(launches_, nullptr)();
  }
  return result::success;
}

// A step on the way to being ready.
result communicator::join_region() {
  if (parent_) {
    auto& table = *parent_->region_;
    for (const int one : taking_part_)
      if (table.of(one).wishes[slot_].made.load() == 0) return result::in_progress;
    auto& mine = table.of(parent_->rank_).wishes[slot_];
    if (mine.color == no_color) {
      no_color_ = true;
      parent_.reset();
      ready_ = true;
      return result::success;
    }
    std::vector<int> members;
    for (const int one : taking_part_)
      if (table.of(one).wishes[slot_].color == mine.color) members.push_back(one);
    std::ranges::stable_sort(members, {}, [&](int one) { return table.of(one).wishes[slot_].key; });
    rank_ = static_cast<int>(std::ranges::find(members, parent_->rank()) - members.begin());
    size_ = static_cast<int>(members.size());
    auto& first = table.of(members.front()).wishes[slot_];
    if (rank_ == 0) {
      first.leader = region::make();
      first.made.store(2);
    }
    if (first.made.load() != 2) return result::in_progress;
    region_ = region::open(first.leader);
    if (!region_) return error_ = result::remote_error;
    region_->of(rank_).joined = 1;
    parent_.reset();
  }
  for (int one = 0; one < size_; ++one)
    if (region_->of(one).joined.load() == 0) return result::in_progress;
  ready_ = true;
  return result::success;
}

int communicator::make_reduction(double factor) {
  const std::lock_guard lock(mutex_);
  factors_[next_reduction_] = factor;
  return next_reduction_++;
}

std::optional<double> communicator::factor_of(int number) {
  const std::lock_guard lock(mutex_);
  const auto found = factors_.find(number);
  if (found == factors_.end()) return std::nullopt;
  return found->second;
}

void communicator::launch(void* stream, std::vector<call> calls) {
  ++pending_;
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    ticket = issued_++;
  }
  auto* const work = new std::function<void()>(
      [self = shared_from_this(), ticket, calls = std::move(calls)] { self->run(ticket, calls); });
  troupe_sim_enqueue(
      stream,
      [](void* given) {
        const std::unique_ptr<std::function<void()>> owned(
            static_cast<std::function<void()>*>(given));
        (*owned)();
      },
      work);
}

// On a stream's thread. Calls of several streams follow one another as they were issued.
void communicator::run(std::uint64_t ticket, const std::vector<call>& calls) {
  {
    std::unique_lock lock(mutex_);
    turn_.wait(lock, [&] { return ran_ == ticket; });
  }
  for (const auto& one : calls) {
    if (one.wrong.kind == fault_kind::waits)
      await([until = std::chrono::steady_clock::now() +
                     std::chrono::milliseconds(one.wrong.milliseconds)] {
        return std::chrono::steady_clock::now() >= until;
      });
    if (one.wrong.kind == fault_kind::hangs) await([] { return false; });
    if (one.wrong.kind == fault_kind::fails_later) error_ = result::remote_error;
  }
  messages(calls);
  for (const auto& one : calls)
    if (one.function != call::what::send && one.function != call::what::recv) collective(one);
  {
    const std::lock_guard lock(mutex_);
    ++ran_;
  }
  turn_.notify_all();
  --pending_;
}

// False: it was aborted.
bool communicator::await(const std::function<bool()>& until) const {
  while (!until()) {
    if (aborted_.load() || error_.load() != result::success) return false;
    std::this_thread::sleep_for(20us);
  }
  return !aborted_.load();
}

}  // namespace troupe::test::nccl_double

int troupe_nccl_double_communicators() { return troupe::test::nccl_double::alive.load(); }
