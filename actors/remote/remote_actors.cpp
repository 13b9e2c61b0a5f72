#include "troupe/actors/remote/remote_actors.hpp"

#include "troupe/actors/messaging/call_control.hpp"
#include "troupe/actors/remote/mailbox_message.hpp"
#include "troupe/actors/remote/reference_protocol.hpp"
#include "troupe/actors/remote/remote_actors_internal.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/actors/scheduler/work_item.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

// The values of the entries that match, which the table loses.
template <class Table, class Match>
auto take_out(Table& table, const Match& match) {
  std::vector<typename Table::mapped_type> out;
  for (auto place = table.begin(); place != table.end();) {
    if (match(*place)) {
      out.push_back(std::move(place->second));
      place = table.erase(place);
    } else {
      ++place;
    }
  }
  return out;
}

}  // namespace

remote_actors::remote_actors(const node_identity& self, std::shared_ptr<engine> driver,
                             std::shared_ptr<peer_table> peers,
                             std::shared_ptr<request_table> requests, const messaging_rules& rules)
    : engine_(std::move(driver)),
      table_(std::move(peers)),
      peers_(*table_),
      flow_(std::make_shared<flow_control>(
          peers_, *engine_, static_cast<flow_control::sender&>(*this), rules.window, self.rank)),
      senders_wait_(rules.overload == when_full::wait),
      contexts_(peers_, self.rank),
      lost_(rules.on_lost_gradient),
      out_(self, *engine_, *flow_,
           [this](peer& to, std::uint64_t order, const envelope_header& header, const fault& why) {
             unsent(to, order, header, why);
           }),
      requests_(std::move(requests)) {}

remote_actors::~remote_actors() = default;

void remote_actors::set_references(std::unique_ptr<detail::reference_protocol> references) {
  references_ = std::move(references);
}

void remote_actors::attach(caf::actor_system& system) { system_ = &system; }

remote_actors::key remote_actors::key_of(const actor_proxy& proxy) noexcept {
  return {proxy.home().rank(), proxy.home().incarnation, proxy.id()};
}

bool remote_actors::is_own(const caf::strong_actor_ptr& handle) const noexcept {
  return handle->home_system == system_ && handle->node() == system_->node();
}

std::size_t remote_actors::proxies() const {
  std::lock_guard guard(mutex_);
  return proxies_.size();
}

// ---- Requests

std::uint64_t remote_actors::expect(pending_request&& pending) {
  forked::check();
  if (pending.sender || detail::in_handler()) pending.looked_after = true;
  const bool limited = pending.limit.count() > 0;
  if (limited && pending.deadline == never) pending.deadline = deadline_after(pending.limit);
  const auto deadline = pending.deadline;
  const auto id = requests_->add(std::move(pending));
  if (limited) engine_->set_timer(deadline);
  return id;
}

void remote_actors::cancel(peer& to, std::uint64_t request) noexcept {
  if (forked::from_nodes()) return;
  if (requests_->give_up(request, to.rank()))
    out_.try_send_control(to, calls_channel, call_control::cancel, request);
}

void remote_actors::answer(pending_request&& request, fault&& why, caf::execution_unit* unit) {
  if (request.sink)
    request.sink->on_fault(std::move(why));
  else if (request.sender)
    request.sender->enqueue(make_mailbox_message(nullptr, request.mid.response_id(),
                                                 caf::make_message(to_caf(why)), request.context),
                            unit);
}

// An answer, or an error, may run code of the program: not on the outbox's thread.
void remote_actors::unsent(peer& to, std::uint64_t order, const envelope_header& header,
                           const fault& why) {
  auto* work = make_work_item([this, &to, order, kind = header.kind, target = header.target,
                               request = header.request, why](caf::execution_unit* unit) {
    gate::pass pass(entrance());
    if (!pass) return;  // what waits has failed with the node
    auto told = why;
    if (kind == envelope_kind::response) {
      if (told.node.empty()) told.node = own_name();
      log().warn("{}: an answer for {} was not sent: {}", own_name(), to.info.name, why.text);
      return out_.send_fault(to, order, target, told);
    }
    if (told.node.empty()) told.node = to.info.name;
    if (request == 0)
      return log().error("a message to {} was not sent: {}", to.info.name, why.text);
    auto pending = requests_->take(request, to.rank());
    if (!pending) return;  // it has timed out
    if (told.function.empty()) told.function = pending.function;
    answer(std::move(pending), std::move(told), unit);
  });
  if (!engine_->push_if_open(work)) intrusive_ptr_release(work);
}

// ---- Ends

lost_requests remote_actors::fail_requests(const peer& whom) {
  const auto why = whom.loss();
  lost_requests out;
  for (auto& request : requests_->take_peer(whom.rank())) {
    ++out.all;
    if (!request.looked_after && !request.late) ++out.of_program;
    auto told = why;
    told.function = request.function;
    answer(std::move(request), std::move(told), nullptr);
  }
  return out;
}

void remote_actors::fail_others(const fault& why) {
  for (const auto* other : peers_.all()) {
    if (other->rank() == out_.self().rank) continue;
    for (auto& request : requests_->take_peer(other->rank())) {
      auto told = why;
      told.function = request.function;
      answer(std::move(request), std::move(told), nullptr);
    }
  }
}

void remote_actors::evict(const peer& whom) {
  const auto why = to_caf(whom.loss());
  std::vector<caf::strong_actor_ptr> proxies;
  // Dropped outside of the lock.
  std::vector<pinned> pins;
  std::vector<caf::attachable_ptr> orphans;
  {
    std::lock_guard guard(mutex_);
    for (auto& [name, weak] : proxies_)
      if (name.rank == whom.rank() && name.incarnation == whom.incarnation)
        if (auto proxy = caf::actor_cast<caf::strong_actor_ptr>(weak)) proxies.push_back(proxy);
    orphans = take_out(orphans_, [&](const auto& entry) {
      return entry.first.rank == whom.rank() && entry.first.incarnation == whom.incarnation;
    });
    pins = take_out(pins_, [&](const auto& entry) {
      return entry.second.receiver == &whom || &entry.second.owner() == &whom;
    });
  }
  for (auto& proxy : proxies) static_cast<actor_proxy*>(proxy->get())->kill_proxy(nullptr, why);
  for (auto& watchers : orphans) notify(watchers, why, nullptr);
  exports_->release_all(whom);
  if (auto* records = this->records()) records->evict(whom);
  references_->evict(whom);
}

void remote_actors::close() {
  entrance().close();
  flow_->give_up(nullptr);
  engine_->wait_until_empty(entrance());
}

void remote_actors::fail_pending(const fault& why) {
  for (auto& request : requests_->take_all()) answer(std::move(request), fault(why), nullptr);
  decltype(pins_) pins;
  decltype(orphans_) orphans;  // they may hold handles of this node
  {
    std::lock_guard guard(mutex_);
    pins.swap(pins_);
    orphans.swap(orphans_);
  }
  exports_->clear();
  if (auto* records = this->records()) records->close();
  references_->close(why);
}

}  // namespace troupe
