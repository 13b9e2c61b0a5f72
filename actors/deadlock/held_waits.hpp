#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "troupe/actors/deadlock/wait_messages.hpp"
#include "troupe/actors/sync/futex.hpp"
#include "troupe/messages/base/error.hpp"

namespace caf {
class scheduled_actor;
}

namespace troupe {

class engine;

namespace detail {
class future_core;
}

namespace deadlock {

/// While it lives, the calling thread runs that call: the function has not returned, so the call
/// has no answer yet. Hot path: some stores.
class running_call {
public:
  running_call(const peer& from, std::uint64_t request, std::string_view function) noexcept;
  ~running_call();
  running_call(const running_call&) = delete;
  running_call& operator=(const running_call&) = delete;

  const peer& from;
  const std::uint64_t request;
  const std::string_view function;

private:
  const running_call* const before_;
};

/// The handlers of a node that have waited for a while for the answer to a question, without a
/// limit of their own. Thread-safe: one lock, under which the run queue's may be taken.
class held_waits {
public:
  held_waits(engine& driver, const incarnation& self) : engine_(driver), self_(self) {}

  /// While it lives, the handler of the calling thread waits for `what`, the answer to `waits_for`,
  /// which may be empty for now if `what` asks on.
  class scope {
  public:
    scope(held_waits* in, const std::shared_ptr<detail::future_core>& what,
          const question& waits_for);
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

  private:
    friend class held_waits;
    held_waits* const in_;  // nullptr: the wait is not entered
    std::uint64_t number_ = 0;
    scope* before_ = nullptr;
  };

  /// While it lives, the calling thread runs something else in the middle of its wait, which does
  /// not count meanwhile.
  class interruption {
  public:
    interruption();
    ~interruption();
    interruption(const interruption&) = delete;
    interruption& operator=(const interruption&) = delete;

  private:
    scope* const waiting_;
  };

  /// The outlook, from here, of questions that have been asked at this node. Looks through the run
  /// queue, and each mailbox, once for all of them.
  report look_at(const std::vector<question>& asked);

  /// The waits that are due to be looked at, each at growing intervals; `next` becomes the earliest
  /// time at which another one is due, if that is earlier.
  std::vector<held_handler> take_due(clock::time_point now, clock::time_point& next);

  /// Do all of these still wait?
  bool still_wait(const std::vector<std::uint64_t>& numbers);

  /// Makes the future of the wait of that number fail, if it still waits. Continuations of the
  /// future may run on the calling thread.
  void fail(std::uint64_t number, fault why);

private:
  struct entry {
    held_handler what;
    std::shared_ptr<detail::future_core> future;
    caf::scheduled_actor* actor = nullptr;  // whose handler it is
    std::optional<question> call;           // the one that it answers
    scope* where = nullptr;                 // on the stack of its thread
    bool waits = true;                      // not interrupted
    clock::time_point due;
    clock::duration pause;

    /// Does it wait for an answer at this moment?
    bool asks() const noexcept { return waits && what.waits_for.request != 0; }
  };

  // The questions of a message for which nothing has been found yet: of functions (0) and of
  // actors.
  using open_questions = std::map<std::uint64_t, std::set<question>>;
  using outlooks = std::map<question, outlook>;

  void ask_again();
  entry& renumber(scope& wait);
  bool look_in_handler(const entry& held, open_questions& asked, outlooks& found) const;
  bool look_in_queue(open_questions& asked, outlooks& found) const;

  engine& engine_;
  const incarnation self_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, entry> entries_;
  std::uint64_t last_number_ = 0;
};

}  // namespace deadlock

}  // namespace troupe
