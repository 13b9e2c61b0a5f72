#include "troupe/actors/groups/work/work.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "troupe/actors/groups/work/work_future.hpp"
#include "troupe/actors/groups/work/work_queue.hpp"
#include "troupe/actors/scheduler/lent_thread.hpp"

namespace troupe {

namespace groups {

// Without a limit it runs on the thread that waits: there it lasts as long as it does.
void work_future::wanted(const clock::time_point* deadline) {
  if (!queue_ || ready()) return;
  if (deadline && *deadline == never)
    queue_->run_up_to(sequence_);
  else
    queue_->hurry();
}

work_state::work_state(const std::shared_ptr<engine>& driver, operation_place where,
                       const std::shared_ptr<work_queue>& queue)
    : where_(std::move(where)),
      driver_(driver),
      own_(std::make_shared<work_future>(driver, queue)),
      relay_(std::make_shared<work_future>(driver, queue)),
      result_(own_) {}

// Whoever has a future of it shall not wait for ever.
work_state::~work_state() {
  if (!result_.ready())
    fail(std::make_exception_ptr(
        remote_error(fmt::format("{} was dropped before it ended", to_string(where_)))));
}

future<std::vector<at::Tensor>> work_state::relayed() const {
  return future<std::vector<at::Tensor>>(relay_);
}

void work_state::begin_wait(clock::time_point deadline) const { own_->wanted(&deadline); }

void work_state::set_sequence(std::uint64_t number) noexcept {
  where_.sequence = number;
  own_->set_sequence(number);
  relay_->set_sequence(number);
}

void work_state::put_on_stream(std::shared_ptr<c10::Event> end) {
  end_ = std::move(end);
  driver_->finish(put_);
}

void work_state::await_put() const {
  if (put_.ready() || result_.ready()) return;
  const lent_thread lent;
  driver_->wait(put_, never);
}

void work_state::block_current_stream() const {
  if (!end_) return;
  const c10::impl::VirtualGuardImpl device(end_->device_type());
  end_->block(device.getStream(end_->device()));
}

void work_state::complete(std::vector<at::Tensor> results) {
  ended_ = clock::now();
  own_->set_value(results);
  relay_->set_value(std::move(results));
}

void work_state::fail(std::exception_ptr why) {
  ended_ = clock::now();
  own_->set_exception(why);
  relay_->set_exception(std::move(why));
  // Behind the error: whoever waits for this alone looks for it next.
  if (on_stream_ && !put_.ready()) driver_->finish(put_);
}

std::chrono::nanoseconds work_state::duration() const noexcept {
  if (!result_.ready() || started_ == clock::time_point()) return {};
  return ended_ - started_;
}

}  // namespace groups

groups::work_state& work::state() const {
  if (!state_) throw invalid_argument("this work is no operation: this node is not in the group");
  return *state_;
}

bool work::is_completed() const { return state().result().ready(); }

bool work::is_success() const {
  if (!is_completed())
    throw invalid_argument(
        fmt::format("{} has not ended: is_success tells nothing yet", to_string(state().where())));
  return state().result().state().failure() == nullptr;
}

std::exception_ptr work::exception() const {
  return is_completed() ? state().result().state().failure() : nullptr;
}

void work::wait(std::chrono::milliseconds limit) const {
  auto& it = state();
  if (limit.count() < 0)
    throw invalid_argument(
        fmt::format("{} cannot be waited for {} ms: give 0 for the group's timeout alone",
                    to_string(it.where()), limit.count()));
  const auto deadline = limit.count() > 0 ? deadline_after(limit) : never;
  const auto& result = it.result();
  it.begin_wait(deadline);
  if (it.on_stream() && deadline == never) {
    it.await_put();
    if (!result.ready()) return it.block_current_stream();
  }
  std::optional<lent_thread> lent;
  if (!result.ready()) lent.emplace();
  const bool ended = deadline == never ? (result.wait(), true)
                                       : result.wait_for(deadline - clock::now()) || result.ready();
  lent.reset();
  if (!ended) std::rethrow_exception(groups::timeout_error(it.where(), limit, {}));
  result.get();
}

int work::source_rank() const {
  if (state().source() < 0)
    throw invalid_argument(fmt::format("{} has no source rank: it is no recv that has ended",
                                       to_string(state().where())));
  return state().source();
}

std::vector<at::Tensor> work::result() const {
  wait();
  if (state().on_stream()) state().result().wait();
  return state().result().get();
}

std::chrono::nanoseconds work::duration() const { return state().duration(); }
std::uint64_t work::sequence_number() const { return state().where().sequence; }
std::string work::name() const { return to_string(state().where().kind); }
future<std::vector<at::Tensor>> work::get_future() const { return state().relayed(); }

}  // namespace troupe
