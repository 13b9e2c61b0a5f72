#include "troupe/actors/cluster/peer_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "troupe/actors/cluster/incarnation.hpp"

namespace troupe {

namespace {

constexpr std::size_t most_departed = 65'536;

// Of all tables: no two states of names have the same number.
std::atomic<std::uint64_t> last_names{0};

// The name that a thread has looked up last. Plain data: a node of static storage sends when the
// main thread's other thread-locals are gone.
struct last_lookup {
  std::uint64_t names = 0;
  std::size_t size = 0;
  std::array<char, 64> name;
  peer* found = nullptr;

  bool is(std::uint64_t now, std::string_view wanted) const noexcept {
    return found && names == now && std::string_view(name.data(), size) == wanted;
  }
  void set(std::uint64_t now, std::string_view wanted, peer& what) noexcept {
    if (wanted.size() > name.size()) return;
    names = now;
    size = wanted.size();
    std::ranges::copy(wanted, name.begin());
    found = &what;
  }
};
thread_local last_lookup last;

}  // namespace

fault peer::loss() const {
  fault why;
  why.code = errc::peer_lost;
  why.node = info.name;
  why.text = cause_;
  return why;
}

incarnation incarnation_of(const peer& one) noexcept { return {one.rank(), one.incarnation}; }

peer& peer_table::find(const destination& who) const {
  if (const auto* rank = std::get_if<std::int64_t>(&who.value())) {
    if (*rank >= 0 && *rank < std::int64_t{transport::rank_slots<peer>::most})
      if (auto* found = find(static_cast<transport::rank_t>(*rank))) return *found;
    const std::lock_guard lock(mutex_);
    throw unknown_worker("could not find destination: rank " + std::to_string(*rank) +
                         " in a job of " + std::to_string(live_.size()));
  }
  const auto& name = std::get<std::string>(who.value());
  // Acquires what `add` has published: whoever knows that a node has joined finds it.
  if (last.is(names_.load(std::memory_order_acquire), name)) return *last.found;
  const std::lock_guard lock(mutex_);
  const auto place = by_name_.find(name);
  if (place == by_name_.end())
    throw unknown_worker("could not find destination: no worker is called '" + name + "'");
  last.set(names_.load(std::memory_order_relaxed), name, *place->second);
  return *place->second;
}

peer& peer_table::add(std::unique_ptr<peer> member, const std::vector<std::string>& aliases) {
  const auto rank = member->rank();
  if (rank >= transport::rank_slots<peer>::most)
    throw invalid_argument("rank " + std::to_string(rank) + " is too large");
  const std::lock_guard lock(mutex_);
  peer& added = *member;
  all_.push_back(std::move(member));
  latest_.set(rank, &added);
  by_name_[added.info.name] = &added;
  for (const auto& name : aliases) by_name_[name] = &added;
  names_.store(last_names.fetch_add(1) + 1, std::memory_order_release);
  live_[rank] = &added;
  list_ = nullptr;
  return added;
}

bool peer_table::fence(peer& member, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (member.state_.load() != peer::standing::live) return false;
  member.cause_ = cause;
  // Publishes `cause_` to whoever finds it not live, see `loss`.
  member.state_.store(peer::standing::fenced, std::memory_order_release);
  return true;
}

bool peer_table::evict(peer& member) {
  const std::lock_guard lock(mutex_);
  if (member.state_.exchange(peer::standing::gone) == peer::standing::gone) return false;
  if (const auto place = live_.find(member.rank());
      place != live_.end() && place->second == &member)
    live_.erase(place);
  list_ = nullptr;
  return true;
}

std::shared_ptr<const std::vector<worker_info>> peer_table::live() const {
  const std::lock_guard lock(mutex_);
  if (!list_) {
    auto list = std::make_shared<std::vector<worker_info>>();
    for (const auto& [rank, member] : live_) list->push_back(member->info);
    list_ = std::move(list);
  }
  return list_;
}

peer& peer_table::departed(transport::rank_t rank, std::uint64_t incarnation) {
  const std::lock_guard lock(mutex_);
  for (const auto& member : all_)
    if (member->rank() == rank && member->incarnation == incarnation) return *member;
  if (++departed_ > most_departed)
    throw decode_error("handles name more incarnations of the past than there can have been");
  all_.push_back(std::make_unique<peer>(worker_info{"rank " + std::to_string(rank), rank},
                                        incarnation, caf::node_id{}));
  peer& gone = *all_.back();
  gone.cause_ = "an earlier incarnation of rank " + std::to_string(rank) + " is gone";
  // As in `fence`.
  gone.state_.store(peer::standing::gone, std::memory_order_release);
  return gone;
}

std::vector<peer*> peer_table::all() const {
  std::vector<peer*> out;
  const std::lock_guard lock(mutex_);
  out.reserve(all_.size());
  for (const auto& member : all_) out.push_back(member.get());
  return out;
}

std::string peer_table::name_of(transport::rank_t rank) const {
  const auto* found = find(rank);
  return found ? found->info.name : "rank " + std::to_string(rank);
}

}  // namespace troupe
