// How a node ends: together with the others, or at once.

#include <algorithm>
#include <system_error>
#include <thread>

#include "troupe/actors/deadlock/deadlock_search.hpp"
#include "troupe/actors/node/end_report.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/rref_table.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

constexpr auto leave_limit = std::chrono::seconds(5);
constexpr auto delivery_limit = std::chrono::seconds(2);

// The process's end waits for it; that of a forked one has nothing to wait for.
class last_thread {
public:
  ~last_thread() {
    if (!forked::from_nodes()) delete thread_;
  }
  std::jthread& operator*() const noexcept { return *thread_; }

private:
  std::jthread* const thread_ = new std::jthread;
};

}  // namespace

void node_core::shutdown(bool graceful, std::chrono::milliseconds limit) {
  forked::check();
  if (closed_) return;
  if (engine_->runs_here())
    throw deadlock_error("shutdown was called inside of a handler, which it would wait for");
  engine_->lock(shutdown_mutex_);
  std::lock_guard guard(shutdown_mutex_, std::adopt_lock);
  if (closed_) return;
  // What has gone wrong, by its weight: the first is thrown, the log has the others.
  std::vector<std::exception_ptr> failures;
  const auto add = [&](std::exception_ptr why) {
    if (why) failures.push_back(std::move(why));
  };
  bool together = false;
  if (graceful) {
    auto why = come_to_rest(limit);
    const auto ended = life_.end_of_job();
    if (ended) why = to_exception(*ended);
    together = !why;
    add(std::move(why));
    if (!ended) add(report_losses());
    if (together) add(find_leaks());
  }
  close(together);
  if (failures.empty()) return;
  for (std::size_t i = 1; i < failures.size(); ++i)
    log().error("{}: {}", self().name, describe(failures[i], {}, {}).text);
  std::rethrow_exception(failures.front());
}

// Others may still copy what they were leased on devices, which ends with this process. Not for
// long: one that is busy may not have begun, and the others wait for this node.
void node_core::wait_for_leases(clock::time_point deadline) const {
  const auto now = clock::now();
  auto last = now + delivery_limit;
  if (deadline != never) last = std::min(last, now + (deadline - now) / 2);
  completion nothing;
  while (net_->holds_leases() && clock::now() < last)
    engine_->wait(nothing, std::min(last, clock::now() + std::chrono::milliseconds(1)));
}

// Waits until nothing is left to be done anywhere. Returns why that could not be.
std::exception_ptr node_core::come_to_rest(std::chrono::milliseconds limit) {
  if (!life_.is_open()) return nullptr;  // the job has ended, or this node's part in it
  members_->wait_for_the_end();
  const auto deadline = limit.count() > 0 ? deadline_after(limit) : never;
  try {
    termination_->wait(
        [&] {
          termination_detection::report r;
          r.epoch = router_->epoch();
          r.idle = engine_->quiet() && !agent_->waits_for_answers() && rrefs_->settled();
          const auto members = *peers_->live();
          for (const auto& who : members) r.received += peers_->find(who.id)->counted_received;
          // Read last: what is sent meanwhile is then missing at the receiver.
          for (const auto& who : members) r.sent += peers_->find(who.id)->counted_sent;
          return r;
        },
        deadline);
    wait_for_leases(deadline);  // all who copy are there yet
    termination_->leave(clock::now() + leave_limit);
  } catch (const error&) {
    return std::current_exception();
  }
  return nullptr;
}

// The job has come to rest without those that were lost. A program that has got an error of that,
// or a notice of `watch_members`, knows; one that only waits here would take it for a success.
// Returns what to throw: calls that this shutdown had promised to wait for will never be done.
std::exception_ptr node_core::report_losses() const {
  constexpr std::size_t most = 10;
  std::size_t lost = 0;
  std::vector<const peer*> in_debt;  // some have left
  for (const auto* one : peers_->all()) {
    if (one->losses.promised > 0) in_debt.push_back(one);
    if (one->losses.lost && ++lost <= most)
      log().warn(detail::text_of_loss(self().name, *one, peers_->find(one->rank()) != one));
  }
  if (lost > most)
    log().warn("{}: shut down without {} other nodes, which were lost", self().name, lost - most);
  return in_debt.empty() ? nullptr : detail::broken_promises(in_debt);
}

// All is done, and no message about references is in transit, so whatever refers to something now
// is a variable of the program that has outlived its use, or a cycle.
std::exception_ptr node_core::find_leaks() const {
  // What was lent to calls that were not answered in time is none of the program's.
  for (const auto& one : requests_->take_late()) {
    fault why;
    why.code = errc::not_initialized;
    why.text = "the node has been shut down";
    if (one.sink) one.sink->on_fault(std::move(why));
  }
  auto left = rrefs_->list();
  std::erase_if(left, [](const rref_leak& one) { return one.owner == one.holder; });
  if (left.empty()) return nullptr;
  if (on_leaked_rref_ != leaked_rref::fail) {
    log().warn(detail::text_of_leaks(left, 3));
    return nullptr;
  }
  fault why;
  why.text = detail::text_of_leaks(left, 100);
  why.node = self().name;
  return std::make_exception_ptr(leaked_rref_error(std::move(why)));
}

void node_core::close(bool together) {
  life_.close();
  closed_ = true;
  members_->stop_joins();
  members_->close();
  actors_->close();
  fault why;
  why.code = errc::not_initialized;
  why.node = self().name;
  why.text = "the node has been shut down";
  actors_->fail_pending(why);
  protocols_->close();
  agent_->close(why);
  engine_->end_waits();
  life_.uses().close();
  engine_->wait_until_empty(life_.uses());
  spawner_->end_actors(leave_limit, self().name);
  spawner_->close();  // stops the engine
  members_->abandon();
  net_.reset();
  if (leave_) leave_(together ? leave_limit : std::chrono::milliseconds(0));
  leave_ = nullptr;
}

void node_core::crash() {
  members_->stop_joins();
  leave_ = nullptr;
  shutdown(false, {});
}

void node_core::leave(std::chrono::milliseconds limit) {
  check_open();
  if (engine_->runs_here())
    throw deadlock_error("leave was called inside of a handler, which it would wait for");
  const auto deadline = limit.count() > 0 ? deadline_after(limit) : never;
  // What this node has asked others for comes first, and what it has sent.
  const auto busy = [&] {
    gate::pass pass(life_.uses());
    return pass && is_open() &&
           !(engine_->quiet() && !agent_->waits_for_answers() &&
             !actors_->out().waits_for_devices() && net_->delivered());
  };
  completion nothing;
  while (busy() && clock::now() < deadline)
    engine_->wait(nothing, std::min(deadline, clock::now() + std::chrono::milliseconds(1)));
  wait_for_leases(deadline);
  check_open();
  const bool answered = members_->leave(deadline);
  shutdown(false, {});
  if (answered) return;
  fault why;
  why.code = errc::rpc_timeout;
  why.node = self().name;
  why.limit = limit;
  why.text = "the job did not confirm within the limit that " + self().name + " may leave";
  throw rpc_timeout(std::move(why));
}

node_core::~node_core() {
  try {
    shutdown(false, std::chrono::milliseconds(0));
  } catch (const std::exception& e) {
    log().error("{}: {}", self().name, e.what());
  }
}

// A handler that drops the last copy of its node cannot wait for itself: a thread of its own ends
// the node. The process's end waits for that thread, which waits for the one before it.
void node_core::destroy(node_core* core) noexcept {
  // The parent's: its threads are not here.
  if (forked::from_nodes()) return;
  if (!core->engine_->runs_here()) {
    delete core;
    return;
  }
  if (core->engine_->run_aside([core] { delete core; })) return;
  static std::mutex mutex;
  static last_thread last;
  std::lock_guard guard(mutex);
  try {
    *last = std::jthread([core, before = std::move(*last)] { delete core; });
  } catch (const std::system_error& e) {
    log().error("{}: cannot end the node: no thread could be created: {}", core->self().name,
                e.what());
  }
}

}  // namespace troupe
