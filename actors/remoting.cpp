#include "actors/remoting.hpp"

#include "actors/remoting_internal.hpp"

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

remoting::remoting(mail& out, std::shared_ptr<engine> driver,
                   std::function<std::string(transport::rank_t)> name_of)
    : out_(out), engine_(std::move(driver)), name_of_(std::move(name_of)) {}

remoting::~remoting() = default;

void remoting::attach(caf::actor_system& system, std::vector<caf::node_id> nodes) {
  system_ = &system;
  nodes_ = std::move(nodes);
}

bool remoting::is_own(const caf::strong_actor_ptr& handle) const noexcept {
  return handle->home_system == system_ && handle->node() == system_->node();
}

std::size_t remoting::proxies() const {
  std::lock_guard guard(mutex_);
  return proxies_.size();
}

// ---- Requests
// ---------------------------------------------------------------------------------------

std::uint64_t remoting::expect(pending_request&& pending) {
  const bool limited = pending.limit.count() > 0;
  if (limited) pending.deadline = deadline_after(pending.limit);
  const auto deadline = pending.deadline;
  const auto id = requests_.add(std::move(pending));
  if (limited) engine_->set_timer(deadline);
  return id;
}

void remoting::answer(pending_request&& request, fault&& why, caf::execution_unit* unit) {
  if (request.sink)
    request.sink->on_fault(std::move(why));
  else if (request.sender)
    request.sender->enqueue(caf::make_mailbox_element(nullptr, request.mid.response_id(), {},
                                                      caf::make_message(to_caf(why))),
                            unit);
}

// ---- Ends
// -------------------------------------------------------------------------------------------

std::size_t remoting::peer_lost(transport::rank_t peer, const std::string& reason) {
  fault why;
  why.code = errc::peer_lost;
  why.node = name_of_(peer);
  why.text = "lost " + why.node + ": " + reason;
  std::vector<caf::strong_actor_ptr> proxies;
  // Dropped outside of the lock.
  std::vector<std::pair<transport::rank_t, caf::strong_actor_ptr>> pinned;
  std::vector<caf::attachable_ptr> orphans;
  {
    std::lock_guard guard(mutex_);
    lost_.insert(peer);
    for (auto& [name, weak] : proxies_)
      if (name.rank == peer)
        if (auto proxy = caf::actor_cast<caf::strong_actor_ptr>(weak)) proxies.push_back(proxy);
    orphans = take_out(orphans_, [&](const auto& entry) { return entry.first.rank == peer; });
    pinned = take_out(pins_, [&](const auto& entry) {
      const auto& [holder, proxy] = entry.second;
      return holder == peer || static_cast<remote_actor*>(proxy->get())->rank() == peer;
    });
  }
  auto requests = requests_.take_peer(peer);
  const auto failed = requests.size();
  for (auto& request : requests) {
    auto told = why;
    told.function = request.function;
    answer(std::move(request), std::move(told), nullptr);
  }
  for (auto& proxy : proxies)
    static_cast<remote_actor*>(proxy->get())->kill_proxy(nullptr, to_caf(why));
  for (auto& watchers : orphans) tell(watchers, to_caf(why), nullptr);
  exports_->release_all(peer);
  return failed;
}

void remoting::close() {
  gate_.close();
  gate_.wait_until_empty();
}

void remoting::fail_pending(const fault& why) {
  for (auto& request : requests_.take_all()) answer(std::move(request), fault(why), nullptr);
  decltype(pins_) pins;
  {
    std::lock_guard guard(mutex_);
    pins.swap(pins_);
  }
  exports_->clear();
}

}  // namespace troupe
