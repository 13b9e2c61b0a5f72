#include "troupe/actors/node/worker_collectives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <set>
#include <tuple>

#include "troupe/actors/node/node_core.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

TROUPE_MESSAGE_CODE(gather_request)

namespace {

// An answer of the leader that says who is missing comes before the caller's own limit passes.
constexpr std::chrono::milliseconds spare_for_leader{1000};

bool includes_name(const std::vector<std::string>& sorted, const std::string& name) {
  return std::ranges::binary_search(sorted, name);
}

/// The gatherings that one node leads, and the numbers of those that it takes part in. Thread-safe.
class gathering_table : public std::enable_shared_from_this<gathering_table> {
public:
  explicit gathering_table(node_core& node) : node_(node) {}

  std::uint64_t next(const std::string& operation, const std::vector<std::string>& names) {
    const std::lock_guard lock(mutex_);
    return counts_[{operation, names}]++;
  }

  void join(const gather_request& request, const std::string& from,
            function_ref<std::shared_ptr<gathering>(std::shared_ptr<engine>)> make,
            function_ref<bool(gathering&, const std::string&)> add);
  void evict(const peer& whom) noexcept;
  void close() noexcept;

private:
  using key = std::tuple<std::string, std::vector<std::string>, std::uint64_t>;

  struct entry {
    std::shared_ptr<gathering> objects;
    std::set<std::string> arrived;
    // It has failed, and stays until the others have come as well and know.
    std::exception_ptr failure;
    std::optional<future<void>> timer;
    clock::time_point until = clock::time_point::max();
  };
  using entries = std::map<key, entry>;
  /// What is told its end when the lock is free: that runs continuations.
  using ended = std::pair<std::shared_ptr<gathering>, std::exception_ptr>;

  static const std::vector<std::string>& names_of(const key& of) { return std::get<1>(of); }

  void check_members(const std::vector<std::string>& names) const;
  void stop_timer(entry& one);
  ended fail(entries::iterator at, std::exception_ptr why);
  void expire(const key& which, clock::time_point until, std::chrono::milliseconds limit);
  std::exception_ptr timed_out(const key& which, const entry& one,
                               std::chrono::milliseconds limit) const;

  node_core& node_;
  std::mutex mutex_;
  bool closed_ = false;
  entries all_;
  std::map<std::pair<std::string, std::vector<std::string>>, std::uint64_t> counts_;
};

void gathering_table::join(const gather_request& request, const std::string& from,
                           function_ref<std::shared_ptr<gathering>(std::shared_ptr<engine>)> make,
                           function_ref<bool(gathering&, const std::string&)> add) {
  const key which(request.operation, request.names, request.sequence);
  const std::chrono::milliseconds limit(request.limit_ms);
  const auto until = deadline_after(limit);
  std::shared_ptr<gathering> complete;
  ended failed;
  std::optional<future<void>> timer;
  {
    const std::lock_guard lock(mutex_);
    if (closed_)
      throw not_initialized(
          fmt::format("{} cannot lead: it is being shut down", node_.self().name));
    auto at = all_.find(which);
    if (at == all_.end()) {
      check_members(request.names);
      auto objects = make(node_.driver());
      at = all_.try_emplace(which).first;
      at->second.objects = std::move(objects);
    }
    auto& one = at->second;
    if (!one.arrived.insert(from).second)
      throw invalid_argument(
          fmt::format("{} has come to {} {} twice", from, request.operation, request.sequence));
    const bool all_here = one.arrived.size() == request.names.size();
    if (const auto why = one.failure) {
      if (all_here) all_.erase(at);
      std::rethrow_exception(why);
    }
    if (!add(*one.objects, from)) {
      failed = fail(at, std::make_exception_ptr(type_mismatch(
                            fmt::format("{} gives {} an object of another type than those who came "
                                        "before",
                                        from, request.operation))));
    } else if (all_here) {
      complete = std::move(one.objects);
      stop_timer(one);
      all_.erase(at);
    } else if (limit.count() > 0 && until < one.until) {
      stop_timer(one);
      one.until = until;
      one.timer = timer = node_.agent().wake_at(until);
    }
  }
  if (complete) complete->complete();
  if (failed.second) {
    if (failed.first) failed.first->fail(failed.second);
    std::rethrow_exception(failed.second);
  }
  // Not by `then`: that would keep the timer for ever when it is forgotten.
  if (timer)
    timer->state().when_ready(make_continuation(
        [self = weak_from_this(), alarm = std::weak_ptr(timer->shared()), which, until, limit] {
          if (const auto rung = alarm.lock(); !rung || rung->failure())
            return;  // the node has ended
          if (const auto table = self.lock()) table->expire(which, until, limit);
        }));
}

// Under the lock, where `evict` comes later.
void gathering_table::check_members(const std::vector<std::string>& names) const {
  for (const auto& name : names)
    if (const auto& member = node_.find(name); !member.live()) throw peer_lost(member.loss());
}

void gathering_table::stop_timer(entry& one) {
  if (one.timer) node_.agent().forget(*one.timer, one.until);
  one.timer.reset();
}

gathering_table::ended gathering_table::fail(entries::iterator at, std::exception_ptr why) {
  auto& one = at->second;
  stop_timer(one);
  ended out(std::move(one.objects), why);
  one.failure = std::move(why);
  if (one.arrived.size() == names_of(at->first).size()) all_.erase(at);
  return out;
}

void gathering_table::expire(const key& which, clock::time_point until,
                             std::chrono::milliseconds limit) {
  ended failed;
  {
    const std::lock_guard lock(mutex_);
    const auto at = all_.find(which);
    if (at == all_.end() || at->second.failure || at->second.until != until) return;
    failed = fail(at, timed_out(which, at->second, limit));
  }
  failed.first->fail(failed.second);
}

std::exception_ptr gathering_table::timed_out(const key& which, const entry& one,
                                              std::chrono::milliseconds limit) const {
  std::vector<std::string> missing;
  std::ranges::set_difference(names_of(which), one.arrived, std::back_inserter(missing));
  fault why;
  why.code = errc::rpc_timeout;
  why.node = node_.self().name;
  why.limit = limit;
  const auto when = fmt::format("timed out in {} after {:.2f} seconds", std::get<0>(which),
                                std::chrono::duration<double>(limit).count());
  if (missing.front() != names_of(which).front()) {
    why.text = fmt::format("Followers [{}] {}", fmt::join(missing, ", "), when);
  } else {
    why.text = fmt::format("Leader {} ", missing.front());
    missing.erase(missing.begin());
    if (!missing.empty()) why.text += fmt::format("and followers [{}] ", fmt::join(missing, ", "));
    why.text += when;
  }
  return std::make_exception_ptr(rpc_timeout(std::move(why)));
}

// A node that comes in its place counts from 0, so the others do as well.
void gathering_table::evict(const peer& whom) noexcept {
  std::vector<ended> failed;
  const auto& name = whom.info.name;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(counts_, [&](const auto& one) { return includes_name(one.first.second, name); });
    for (auto at = all_.begin(); at != all_.end();) {
      const auto now = at++;
      auto& one = now->second;
      if (!includes_name(names_of(now->first), name) ||
          (one.arrived.contains(name) && !one.failure))
        continue;
      if (!one.failure) {
        stop_timer(one);
        failed.emplace_back(std::move(one.objects),
                            std::make_exception_ptr(peer_lost(whom.loss())));
      }
      all_.erase(now);
    }
  }
  for (auto& [objects, why] : failed) objects->fail(why);
}

void gathering_table::close() noexcept {
  entries left;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    left.swap(all_);
  }
  const auto why = std::make_exception_ptr(
      not_initialized(fmt::format("{}, the leader, has been shut down", node_.self().name)));
  for (auto& [which, one] : left)
    if (one.objects) one.objects->fail(why);
}

/// For what it hears of the node; nothing is sent but calls.
class gathering_protocol final : public node_protocol {
public:
  explicit gathering_protocol(node_core& node) : table(std::make_shared<gathering_table>(node)) {}

  void deliver(decoder& /*body*/, peer& /*from*/) override {
    throw decode_error("gatherings of nodes have no control messages");
  }
  void evict(const peer& whom) noexcept override { table->evict(whom); }
  void close() noexcept override { table->close(); }

  const std::shared_ptr<gathering_table> table;
};

[[maybe_unused]] const bool gatherings_registered = [] {
  register_protocol(gatherings_channel,
                    [](node_core& node) { return std::make_unique<gathering_protocol>(node); });
  return true;
}();

gathering_table& gatherings_of(node_core& node) {
  return *static_cast<gathering_protocol&>(*node.protocols().find(gatherings_channel)).table;
}

}  // namespace

void join_gathering(const gather_request& request,
                    function_ref<std::shared_ptr<gathering>(std::shared_ptr<engine>)> make,
                    function_ref<bool(gathering& all, const std::string& name)> add) {
  const auto* const from = current_active_call().from;
  auto* const node = current_node();
  if (!node || !from) throw not_initialized("a gathering is joined by a call of its leader");
  const auto& names = request.names;
  if (!std::ranges::is_sorted(names) || std::ranges::adjacent_find(names) != names.end() ||
      names.empty() || names.front() != node->self().name ||
      !includes_name(names, from->info.name) || request.limit_ms < 0)
    throw invalid_argument(fmt::format("{} asks {} for a {} of [{}]", from->info.name,
                                       node->self().name, request.operation,
                                       fmt::join(names, ", ")));
  gatherings_of(*node).join(request, from->info.name, make, add);
}

gather_call next_gathering(rpc_agent& agent, std::string_view operation,
                           const std::vector<std::string>& names,
                           const std::optional<timeout>& limit) {
  agent.check_open();
  auto& node = static_cast<node_core&>(agent.node());
  std::set<std::string> whom;  // an alias is another name of one
  for (const auto& name : names) whom.insert(node.find(name).info.name);
  if (names.empty())
    for (const auto& worker : *node.workers()) whom.insert(worker.name);
  gather_call out;
  out.request.operation = operation;
  out.request.names.assign(whom.begin(), whom.end());
  const auto& self = node.self().name;
  if (!whom.contains(self))
    throw invalid_argument(fmt::format("{} cannot call {} of [{}]: add its name", self, operation,
                                       fmt::join(out.request.names, ", ")));
  out.leader = node.find(out.request.names.front()).info;
  const auto bound = limit ? limit->limit : agent.rpc_timeout();
  out.request.limit_ms = bound.count();
  out.how.limit = bound.count() > 0 ? bound + spare_for_leader : bound;
  out.how.sync = true;
  out.request.sequence = gatherings_of(node).next(out.request.operation, out.request.names);
  return out;
}

}  // namespace troupe::detail
