// Sends and receives of a group.

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "troupe/actors/future/combinators.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/rpc/rpc_agent.hpp"
#include "troupe/actors/scheduler/lent_thread.hpp"

namespace troupe::groups {

namespace {

// A thread waits for it.
class awaited_letter final : public network::posted_receive {
public:
  explicit awaited_letter(std::shared_ptr<engine> driver) : driver_(std::move(driver)) {}

  void on_letter(network::letter&& what) noexcept override {
    mail = std::move(what);
    driver_->finish(over);
  }
  void on_failure(const std::exception_ptr& reason) noexcept override {
    why = reason;
    driver_->finish(over);
  }

  network::letter mail;
  std::exception_ptr why;
  completion over;

private:
  const std::shared_ptr<engine> driver_;
};

// Ends a receive at the group's timeout.
struct letter_timer {
  std::weak_ptr<node_core> node;
  future<void> when;
  clock::time_point deadline;

  void forget() const {
    if (const auto here = node.lock()) here->agent().forget(when, deadline);
  }
};

// A work handle stands for it; a thread of the node takes the letter.
class started_receive final : public network::posted_receive {
public:
  std::shared_ptr<engine> driver;
  letter_timer timer;
  std::shared_ptr<prepared_call> call;
  std::shared_ptr<work_state> state;
  // The group's handles may all be gone when it ends.
  std::weak_ptr<group_core> group;
  std::function<void(const std::exception_ptr&)> ended;

  void on_letter(network::letter&& what) noexcept override {
    timer.forget();
    // What is lent is copied, which takes a while, and may have to wait for the group's memory: not
    // on the thread that has received the letter and drives the network.
    const bool at_once = what.lent == 0;
    auto body = [mail = std::move(what), call = call, state = state, group = group, ended = ended] {
      try {
        state->begin();
        const auto here = group.lock();
        if (!here)
          throw group_failed(fmt::format("{}: the group has ended", to_string(state->where())));
        here->take_letter(*call, state->where(), mail);
        state->set_source(mail.from);
        ended(nullptr);
        state->complete({call->results().begin(), call->results().end()});
      } catch (...) {
        ended(std::current_exception());
        state->fail(std::current_exception());
      }
    };
    if (at_once)
      troupe::detail::run_on_thread_of(*driver, std::move(body));
    else
      troupe::detail::run_soon(*driver, std::move(body));
  }
  void on_failure(const std::exception_ptr& why) noexcept override {
    timer.forget();
    fail(error_at(state->where(), why));
  }
  void on_timeout(std::chrono::milliseconds limit) noexcept {
    const auto from = call->what().peer;
    const auto missing = from == any_source ? std::vector<int>() : std::vector{from};
    fail(timeout_error(state->where(), limit, missing));
  }

private:
  void fail(const std::exception_ptr& placed) noexcept {
    ended(placed);
    state->fail(placed);
  }
};

bool is_object(const network::letter& mail) {
  return mail.dtype == static_cast<std::int8_t>(c10::ScalarType::Undefined) && mail.lent == 0;
}

std::exception_ptr letter_mismatch(const operation_place& where, const network::letter& mail,
                                   const std::string& taken) {
  const auto sent = is_object(mail)
                        ? std::string("an object")
                        : fmt::format("{} bytes of {}", mail.size(),
                                      c10::toString(static_cast<c10::ScalarType>(mail.dtype)));
  return mismatch_error(where, fmt::format("rank {} has sent {} with tag {}, this recv takes {}",
                                           mail.from, sent, mail.tag, taken));
}

}  // namespace

// A backend whose ranks find each other's tensors, if there is one already.
std::shared_ptr<backend> group_core::lender() const {
  if (!ready_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  for (const auto& one : backends())
    if (one->lends()) return one;
  return {};
}

// Who has what `mail` does not carry itself; null where it does.
std::shared_ptr<backend> group_core::lender_of(const network::letter& mail,
                                               const operation_place& where) {
  if (mail.lent == 0) return {};
  auto out = lender();
  if (!out) {
    // The sender has its backends; here the last step of making them may still run.
    establish();
    out = lender();
  }
  if (!out)
    throw group_failed(
        fmt::format("{}: the memory of group '{}' is gone", to_string(where), about_.name));
  return out;
}

// Takes what `mail` has into the call's output.
void group_core::take_letter(prepared_call& call, const operation_place& where,
                             const network::letter& mail) {
  call.make_dense();
  letter_by_host(call);
  auto& what = call.bind();
  const auto& to = what.outputs[0];
  const auto from = lender_of(mail, where);
  if (mail.dtype != static_cast<std::int8_t>(what.dtype) || mail.size() != to.nbytes()) {
    if (from) from->take(mail.lent, mail.from, nullptr);
    std::rethrow_exception(letter_mismatch(
        where, mail, fmt::format("{} bytes of {}", to.nbytes(), c10::toString(what.dtype))));
  }
  if (from)
    from->take(mail.lent, mail.from, &to);
  else if (mail.size() > 0)
    std::memcpy(to.mutable_data_ptr(), mail.content.bytes().data(), mail.size());
  what.peer = mail.from;
  call.finish();
}

void group_core::send(prepared_call& call) {
  check_usable();
  if (const auto started = start_alone(call)) return started->wait();
  call.make_dense();
  letter_by_host(call);
  const auto& what = call.bind();
  const auto record = schedule(what);
  recorder_.start(record);
  std::shared_ptr<backend> by;
  std::uint64_t lent = 0;
  try {
    const auto& tensor = what.inputs[0];
    network::letter mail;
    mail.tag = what.tag;
    mail.dtype = static_cast<std::int8_t>(what.dtype);
    const bool large = tensor.nbytes() > network::packet::small_packet;
    const bool object = what.dtype == c10::ScalarType::Undefined;
    if (large && !object) by = lender();
    if (by) mail.lent = lent = by->lend(tensor, what.peer);
    if (mail.lent != 0)
      mail.lent_bytes = tensor.nbytes();
    else if (large && object)
      mail.content = network::packet(tensor);
    else
      mail.content = network::packet(
          {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
    channel_->send(what.peer, std::move(mail));
  } catch (...) {
    const auto why = error_at(place_of(what), std::current_exception());
    if (lent != 0) by->take_back(lent);
    operation_ended(record, place_of(what), why);
    std::rethrow_exception(why);
  }
  operation_ended(record, place_of(what), nullptr);
}

work group_core::start_send(prepared_call& call) {
  if (auto started = start_alone(call)) return std::move(*started);
  auto state = std::make_shared<work_state>(channel_->driver(), place_of(call.what()), nullptr);
  state->begin();
  send(call);
  state->complete({});
  return work(std::move(state));
}

void group_core::operation_ended(std::uint64_t record, const operation_place& where,
                                 const std::exception_ptr& why) noexcept {
  if (why)
    recorder_.fail(record);
  else
    recorder_.complete(record);
  if (has_hooks_.load(std::memory_order_relaxed)) notify_hooks(where, why);
}

work group_core::start_receive(prepared_call&& call) {
  check_usable();
  if (auto started = start_alone(call)) return std::move(*started);
  finish_device(call);
  auto posted = std::make_shared<started_receive>();
  posted->driver = channel_->driver();
  posted->call = std::make_shared<prepared_call>(std::move(call));
  const auto& what = posted->call->bind();
  posted->state = std::make_shared<work_state>(channel_->driver(), place_of(what), nullptr);
  auto& agent = node()->agent();  // throws where the node has ended
  const auto record = schedule(what);
  recorder_.start(record);
  posted->group = weak_from_this();
  posted->ended = [weak = weak_from_this(), record, where = place_of(what)](const auto& why) {
    if (const auto self = weak.lock()) self->operation_ended(record, where, why);
  };
  const auto limit = timeout();
  posted->timer.deadline = deadline_after(limit);
  posted->timer.node = node_;
  posted->timer.when = agent.wake_at(posted->timer.deadline);
  // Not by `then`: that would keep the timer, with the channel, for ever when it is forgotten.
  posted->timer.when.state().when_ready(troupe::detail::make_continuation(
      [channel = channel_, limit, alarm = std::weak_ptr(posted->timer.when.shared()),
       waits = std::weak_ptr(posted)] {
        if (const auto rung = alarm.lock(); !rung || rung->failure()) return;  // the node has ended
        const auto late = waits.lock();
        if (late && channel->letters().withdraw(*late)) late->on_timeout(limit);
      }));
  work out(posted->state);
  auto& letters = channel_->letters();
  const auto when = posted->timer.when;
  const std::weak_ptr waits(posted);
  letters.post(what.peer, what.tag, std::move(posted));
  // The time may have been over before there was anything to withdraw.
  if (when.ready())
    if (const auto late = waits.lock(); late && letters.withdraw(*late)) late->on_timeout(limit);
  return out;
}

int group_core::receive(prepared_call& call) {
  if (const auto started = start_alone(call)) {
    started->wait();
    return started->source_rank();
  }
  return receive_letter(call.bind(), [&](const auto& where,
                                         const auto& mail) { take_letter(call, where, mail); })
      .from;
}

network::letter group_core::receive_object(prepared_call& call) {
  return receive_letter(call.bind(), [&](const auto& where, const auto& mail) {
    if (is_object(mail)) return;
    if (const auto from = lender_of(mail, where)) from->take(mail.lent, mail.from, nullptr);
    std::rethrow_exception(letter_mismatch(where, mail, "an object"));
  });
}

network::letter group_core::receive_letter(
    const operation& what,
    function_ref<void(const operation_place&, const network::letter&)> take) {
  check_usable();
  const auto where = place_of(what);
  const auto record = schedule(what);
  recorder_.start(record);
  try {
    const auto posted = std::make_shared<awaited_letter>(channel_->driver());
    const auto limit = timeout();
    channel_->letters().post(what.peer, what.tag, posted);
    bool came = false;
    try {
      const lent_thread lent;
      came = channel_->driver()->wait(posted->over, deadline_after(limit));
    } catch (...) {
      channel_->letters().withdraw(*posted);
      throw;
    }
    if (!came && channel_->letters().withdraw(*posted)) {
      const auto missing = what.peer == any_source ? std::vector<int>() : std::vector{what.peer};
      std::rethrow_exception(timeout_error(where, limit, missing));
    }
    // It may have come with the deadline.
    if (!came) channel_->driver()->wait(posted->over, never);
    if (posted->why) std::rethrow_exception(error_at(where, posted->why));
    take(where, posted->mail);
    operation_ended(record, where, nullptr);
    return std::move(posted->mail);
  } catch (...) {
    operation_ended(record, where, std::current_exception());
    throw;
  }
}

}  // namespace troupe::groups
