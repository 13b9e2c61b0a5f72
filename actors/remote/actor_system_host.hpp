#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/detail/simple_actor_clock.hpp>
#include <memory>
#include <mutex>

#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/scheduler/engine.hpp"

namespace troupe {

/// CAF's timers, run by the engine's.
class node_clock final : public caf::detail::simple_actor_clock {
public:
  explicit node_clock(engine& driver) : engine_(driver) {}

  /// Sends what is due; returns when the next is, or time_point::max().
  time_point run_due();

  void set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                            std::uint64_t id) override;
  void set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                         std::uint64_t id) override;
  void set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) override;
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override;
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override;
  void cancel_timeouts(caf::abstract_actor* self) override;
  void schedule_message(time_point t, caf::strong_actor_ptr receiver,
                        caf::mailbox_element_ptr content) override;
  void schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                        caf::message content) override;
  void cancel_all() override;

private:
  template <class F>
  void locked(time_point t, F&& change);

  engine& engine_;
  std::mutex mutex_;  // no code of the program runs under it
  // Taken before `mutex_`, while messages that are due are sent: `cancel_all` waits for that.
  // Recursive: what is sent may end the system.
  std::recursive_mutex sending_;
};

/// An actor system whose actors run on an engine's threads, and which knows its node from the
/// start.
class actor_system_host {
public:
  actor_system_host(std::shared_ptr<remote_actors> actors, const node_identity& self);
  ~actor_system_host();

  caf::actor_system& system() noexcept;
  node_clock& clock() noexcept;

  /// CAF leaves the system's logger with each thread that makes an actor, and a system cannot end
  /// while another thread still holds it. To be called when a thread has made one.
  static void let_go_of_logger();

  /// The actors of the node that an actor system belongs to. Throws not_initialized if it belongs
  /// to no node, or to one that has ended.
  static std::shared_ptr<remote_actors> actors_of(const caf::actor_system* system);

  /// The same, but returns nullptr instead of throwing, in a forked process too.
  static std::shared_ptr<remote_actors> find_actors_of(const caf::actor_system* system) noexcept;

  /// The node id of `rank` in the same job.
  static caf::node_id id_of(std::uint64_t job, std::uint64_t incarnation, transport::rank_t rank);

private:
  struct config;
  struct parts;

  std::shared_ptr<parts> parts_;  // shared with the thread that ends them
};

}  // namespace troupe
