#include "actors/rref/rref_core.hpp"

#include "actors/rref/rref_table.hpp"

namespace troupe::detail {

rref_core::rref_core(std::shared_ptr<remoting> actors, peer& owner, const rref_id& id,
                     const value_type& type, origin how, std::uint64_t use,
                     std::source_location site)
    : remote_answer_state<void>(*actors, owner, "the creation of a value"),
      actors_(std::move(actors)),
      owner_(owner),
      id_(id),
      type_(type),
      origin_(how),
      use_(use),
      site_(site) {
  actors_->rrefs().enter(*this);
}

rref_core::~rref_core() {
  if (forked::from_nodes()) return;  // it is the parent's use that the owner knows of
  auto& table = actors_->rrefs();
  if (origin_ == origin::creation && !ready()) {  // the owner was never asked
    fault why;
    why.code = errc::rref_gone;
    why.text = to_string(id_) + " was never created";
    table.failed(*this, why);
  }
  table.leave(*this);
  table.dropped(*this);
}

bool rref_core::is_owner() const noexcept { return owner_.rank() == actors_->out().self().rank; }

void rref_core::check() const {
  forked::check();
  if (ready() && failure()) std::rethrow_exception(failure());
  if (!owner_.live()) {
    auto why = owner_.loss();
    why.text = to_string(id_) + ": its owner " + owner_.info.name + " is lost: " + why.text;
    throw peer_lost(std::move(why));
  }
}

value_cell rref_core::local(const value_type& type) const {
  if (type.hash != type_.hash)
    throw invalid_argument(to_string(id_) + " is a " + std::string(type_.name) + ", not a " +
                           std::string(type.name));
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!local_) {
    check();
    local_ = actors_->rrefs().find(id_, type);
  }
  return local_;
}

void rref_core::release_object() noexcept {
  std::shared_ptr<rref_core> last;  // dropped outside of the lock
  const std::lock_guard lock(mutex_);
  last.swap(object_);
}

void rref_core::on_value(opened_envelope&) noexcept {
  release_object();
  set_value();
}

void rref_core::on_fault(fault&& why) noexcept {
  auto told = why;
  if (why.code == errc::rpc_timeout)
    told.text =
        "RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner "
        "node does not exist.";
  // First: the owner, once told, may answer that it was given up, which is no news.
  set_exception(to_exception(std::move(told)));
  actors_->rrefs().failed(*this, why);
  release_object();
}

}  // namespace troupe::detail
