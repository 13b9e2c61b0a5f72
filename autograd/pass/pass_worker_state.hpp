#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "troupe/autograd/pass/pass_runner.hpp"
#include "troupe/messages/envelope/error_codec.hpp"

namespace troupe::autograd::detail {

/// What a pass_actor knows: the passes of the context that it works for. The actor's own, but for
/// `sit_down`.
class pass_desk {
public:
  explicit pass_desk(node_core& node) : node_(node) {}

  node_core& node() const noexcept { return node_; }

  /// From now on the actor, which works for nobody, works for that context. Before anybody else has
  /// the actor's handle.
  void sit_down(std::shared_ptr<participant> part) { part_ = std::move(part); }

  /// The context is over.
  void leave();

  /// It works for nobody. Only who has the actor for itself may ask.
  bool is_free() const noexcept { return part_ == nullptr; }

  /// One step; `work` gets the pass and where the steps go that follow from it.
  template <class Work>
  caf::result<step_report> step(const pass_info& what, std::uint64_t number, const Work& work) {
    try {
      auto& pass = pass_of(what);
      step_report report;
      report.step = number;
      work(pass, report.caused);
      report.standing = pass.standing();
      if (pass.done()) passes_.erase(what.number);
      return report;
    } catch (...) {
      const auto why = describe(std::current_exception(), node_.self().name, {});
      forget({what.context, what.number});
      return to_caf(why);
    }
  }

  /// Each node tells those that it knows, once.
  void forget(const forget_pass& what);

private:
  static constexpr std::size_t most_forgotten = 1024;

  pass_part& pass_of(const pass_info& what);
  bool works_for(std::uint64_t context) const noexcept { return part_ && part_->id() == context; }

  node_core& node_;
  std::shared_ptr<participant> part_;
  std::unordered_map<std::uint64_t, std::unique_ptr<pass_part>> passes_;
  std::unordered_set<std::uint64_t> forgotten_;
  std::deque<std::uint64_t> order_;
};

/// What the actor of a participant does.
pass_actor::behavior_type run_passes(pass_actor::pointer self, std::shared_ptr<pass_desk> desk);

/// The actors that run a node's passes. To make and to end one costs more than a small pass, so one
/// whose context is over works for another one later. Thread-safe.
class pass_actors {
public:
  explicit pass_actors(node_core& node) : node_(node) {}

  /// One that works for nobody but `part`.
  pass_worker take(std::shared_ptr<participant> part);

  /// Its context is over: what it still holds of it goes now, on the calling thread if possible.
  void take_back(pass_worker&& one) noexcept;

  /// How many work for nobody, and are told nothing any more: the next contexts get these.
  std::size_t count_free();

  /// The node ends, and with it those who work for nobody. They end when they come back from now
  /// on.
  void close();

  static constexpr std::size_t most_idle = 64;

private:
  node_core& node_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<pass_worker> idle_;
};

}  // namespace troupe::autograd::detail
