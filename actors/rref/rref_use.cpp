#include "troupe/actors/rref/rref_use.hpp"

#include <algorithm>
#include <utility>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe::detail {

rref_use::rref_use(std::shared_ptr<rref_registry> table, remote_actors& actors, peer& owner,
                   const rref_id& id, const value_type& type, origin how, std::uint64_t use,
                   std::source_location site)
    : remote_answer_state<void>(actors, owner, "the creation of a value"),
      registry_(std::move(table)),
      owner_(owner),
      self_(actors.out().self().rank),
      is_owner_(owner.rank() == self_),
      id_(id),
      type_(type),
      origin_(how),
      use_(use),
      site_(site) {}

rref_use::~rref_use() {
  if (forked::from_nodes()) return;  // the owner knows of the parent's use, not of this copy
  if (origin_ == origin::creation && !ready()) {  // the call was never made
    fault why;
    why.code = errc::rref_gone;
    why.text = to_string(id_) + " was never created";
    on_fault(std::move(why));  // for futures that wait for it
  }
  registry_->release(*this);
}

const worker_info& rref_use::owner_info() const noexcept { return owner_.info; }

std::shared_ptr<rpc_agent> rref_use::agent() const { return registry_->agent(); }

const std::string& rref_use::node_name() const noexcept { return registry_->own_name(); }

void rref_use::check() const {
  forked::check();
  if (ready() && failure()) std::rethrow_exception(failure());
  if (!owner_.live()) {
    auto why = owner_.loss();
    why.text = to_string(id_) + ": its owner " + owner_.info.name + " is lost: " + why.text;
    throw peer_lost(std::move(why));
  }
}

value_cell rref_use::local(const value_type& type) const {
  if (type.hash != type_.hash)
    throw invalid_argument(to_string(id_) + " is a " + std::string(type_.name) + ", not a " +
                           std::string(type.name));
  forked::check();
  // Locks are taken in this order: of the rref_table, of a rref_use, of the owner_table.
  const std::lock_guard lock(mutex_);
  if (!local_) {
    check();
    local_ = own_ ? own_ : registry_->find(id_, type);
  }
  return local_;
}

value_cell rref_use::own() const {
  const std::lock_guard lock(mutex_);
  return own_;
}

void rref_use::hold_own(value_cell value) {
  const std::lock_guard lock(mutex_);
  own_ = std::move(value);
}

value_cell rref_use::give_up_own() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(own_, nullptr);
}

void rref_use::publish() const {
  if (!is_owner()) return;
  forked::check();  // before it takes locks, which another thread may have held during the fork
  registry_->publish(*this);
}

// The continuation belongs to this use, and runs while it exists.
future<void> rref_use::outcome() {
  auto out = std::make_shared<future_state<void>>(driver());
  when_ready_at_once(make_continuation([this, out] {
    if (failure())
      out->set_exception(failure());
    else
      out->set_value();
  }));
  return future<void>(std::move(out));
}

// `ready` is read again under the lock: `finish` takes the lists under it after the use is ready,
// so that no future is added too late to be failed.
void rref_use::add_waiting(const std::shared_ptr<future_core>& waits) {
  if (!creates()) return;
  if (!ready()) {
    const std::lock_guard lock(mutex_);
    if (!ready()) {
      if (waiting_.expired()) {
        waiting_ = waits;
        return;
      }
      if (others_waiting_.size() >= most_waiting_) {
        std::erase_if(others_waiting_, [](const auto& one) { return one.expired(); });
        most_waiting_ = std::max<std::size_t>(16, 2 * others_waiting_.size());
      }
      others_waiting_.push_back(waits);
      return;
    }
  }
  if (failure()) waits->fail_early(failure());
}

// Once it is ready: the futures that wait for the value are not needed any more.
void rref_use::finish(const std::exception_ptr& failure) noexcept {
  std::shared_ptr<rref_use> object;  // dropped outside of the lock
  std::weak_ptr<future_core> first;
  std::vector<std::weak_ptr<future_core>> others;
  {
    const std::lock_guard lock(mutex_);
    object.swap(object_);
    first.swap(waiting_);
    others.swap(others_waiting_);
  }
  const auto fail = [&](const std::weak_ptr<future_core>& one) {
    if (const auto waits = one.lock()) waits->fail_early(failure);
  };
  if (!failure) return;
  fail(first);
  for (const auto& one : others) fail(one);
}

std::string rref_use::fork_text() const {
  const bool numbered_by_owner = (use_ & by_owner) != 0;
  return "fork_id(created_on=" + std::to_string(numbered_by_owner ? owner_.rank() : self_) +
         ", local_id=" + std::to_string(use_ & ~by_owner) + ')';
}

std::string rref_use::text() const {
  const auto what = '<' + std::string(type_.name) + ">(" + to_string(id_);
  if (is_owner()) return "owner_rref" + what + ')';
  return "user_rref" + what + ", " + fork_text() + " on " + owner_.info.name + ')';
}

void rref_use::on_value(opened_envelope&) noexcept {
  set_value();
  finish(nullptr);
}

void rref_use::on_fault(fault&& why) noexcept {
  auto shown = why;
  if (why.code == errc::rpc_timeout)
    shown.text =
        "RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner "
        "node does not exist.";
  // First: the owner, once notified, may answer that the value was given up, which is no news.
  set_exception(to_exception(std::move(shown)));
  registry_->creation_failed(*this, why);
  finish(failure());
}

}  // namespace troupe::detail
