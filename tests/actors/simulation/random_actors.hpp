#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <troupe/troupe.hpp>
#include <tuple>
#include <utility>
#include <vector>

// The functions and actors of random programs, and the book in which they write what they did.
namespace troupe::test {

struct numbered {
  std::uint32_t rank = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t number = 0;
};
TROUPE_MESSAGE(numbered, rank, incarnation, number)

struct count_up {
  std::uint64_t id = 0;
};
TROUPE_MESSAGE(count_up, id)

using recorder = actor<answers<count_up, std::int64_t>, accepts<numbered>>;
using watcher = actor<accepts<numbered>>;

/// Of one run; its nodes run one at a time.
struct log_of_all {
  static log_of_all*& current() {
    static log_of_all* one = nullptr;
    return one;
  }

  struct home {
    std::uint32_t rank = 0;
    std::uint64_t incarnation = 0;
    bool ended = false;
  };
  using actor_key = std::pair<caf::actor_id, caf::node_id>;
  using way = std::tuple<std::uint32_t, std::uint64_t, caf::actor_id, caf::node_id>;
  struct change {
    std::uint32_t epoch;
    std::string text;
  };
  struct watch {
    actor_key whom;
    std::uint32_t rank = 0;  // of who watches
    std::uint64_t incarnation = 0;
    int downs = 0;
  };

  std::uint64_t last_call = 0;
  std::uint64_t last_watch = 0;
  std::map<std::uint64_t, int> executed;  // how often each call ran
  std::map<actor_key, home> recorders;
  std::map<way, std::uint64_t> sent;      // notes sent, from a node to a recorder
  std::map<way, std::uint64_t> received;  // and received there
  std::map<std::uint64_t, watch> watches;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<change>> members;
  std::vector<watcher> handles;
  std::vector<std::string> wrong;
  int actors = 0;
};

inline std::int64_t twice(std::uint64_t id) {
  ++log_of_all::current()->executed[id];
  return static_cast<std::int64_t>(2 * id);
}

/// Blocks in its handler.
inline std::int64_t through(worker_info third, std::uint64_t id) {
  return this_node().rpc_sync<&twice>(third, id);
}

inline std::int64_t ask_for_me(const recorder& whom, std::uint64_t id) {
  return request(whom, count_up{id}, timeout(std::chrono::seconds(20))).get();
}

/// Counts the actors of a run that live.
class counted {
public:
  counted() { ++log_of_all::current()->actors; }
  counted(const counted&) : counted() {}
  ~counted() {
    if (auto* log = log_of_all::current()) --log->actors;
  }
};

inline recorder::behavior_type record(recorder::pointer self, std::uint64_t incarnation) {
  auto* log = log_of_all::current();
  const log_of_all::actor_key me{self->id(), self->node()};
  log->recorders[me] = {this_node().rank(), incarnation, false};
  self->attach_functor([log, me](const caf::error&) { log->recorders[me].ended = true; });
  return {
      [log, alive = counted()](const count_up& x) {
        ++log->executed[x.id];
        return static_cast<std::int64_t>(x.id + 1);
      },
      [log, me](const numbered& x) {
        auto& next = log->received[{x.rank, x.incarnation, me.first, me.second}];
        if (x.number != next)
          log->wrong.push_back(
              fmt::format("note {} from rank {} came where {} was due", x.number, x.rank, next));
        next = x.number + 1;
      },
  };
}

/// Watches, and perhaps is linked to, `whom`; ends with it.
inline watcher::behavior_type watch_end(watcher::pointer self, std::uint64_t number,
                                        std::uint64_t incarnation, const recorder& whom,
                                        bool link) {
  auto* log = log_of_all::current();
  log->watches[number] = {{whom.id(), whom.node()}, this_node().rank(), incarnation, 0};
  self->set_down_handler([log, number](const caf::down_msg&) { ++log->watches[number].downs; });
  self->monitor(whom);
  if (link) {
    self->set_exit_handler([](const caf::exit_msg&) {});
    self->link_to(whom);
  }
  return {[alive = counted()](const numbered&) {}};
}

inline member_watcher::behavior_type record_members(member_watcher::pointer, std::uint32_t rank,
                                                    std::uint64_t incarnation) {
  auto* log = log_of_all::current();
  return {[log, rank, incarnation, alive = counted()](const member_event& x) {
    log->members[{rank, incarnation}].push_back(
        {x.epoch,
         fmt::format("{} rank {} ({})", static_cast<int>(x.what), x.who.id, x.incarnation)});
  }};
}

}  // namespace troupe::test
