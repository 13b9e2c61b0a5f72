#include "troupe/actors/remote/actor_system_host.hpp"

#include <caf/actor_ostream.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/logger.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/send.hpp>
#include <cstring>
#include <iostream>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>

#include "troupe/messages/base/log.hpp"

// CAF reserves this name for a network module, which may set the id of its system before the first
// actor is made. No CAF that has such a module of its own is ever linked with Troupe.
namespace caf::net {

class middleman {
public:
  static void set_node(actor_system& system, node_id id) { system.node_ = std::move(id); }
};

}  // namespace caf::net

namespace troupe {

// ---- The clock

template <class F>
void node_clock::locked(time_point t, F&& change) {
  if (forked::from_nodes()) return;  // the timers are the parent's
  {
    std::lock_guard guard(mutex_);
    change();
  }
  engine_.set_timer(t);
}

node_clock::time_point node_clock::run_due() {
  const std::lock_guard sending(sending_);
  std::vector<unique_delayed_event_ptr> due;
  {
    const std::lock_guard guard(mutex_);
    // As simple_actor_clock::trigger_expired_timeouts, which would send under the lock.
    for (const auto t = now(); !schedule_.empty() && schedule_.begin()->first <= t;) {
      due.push_back(std::move(schedule_.begin()->second));
      schedule_.erase(schedule_.begin());
      if (due.back()->backlink != actor_lookup_.end()) actor_lookup_.erase(due.back()->backlink);
    }
  }
  for (auto& one : due) {
    ship(*one);
    one.reset();
  }
  const std::lock_guard guard(mutex_);
  return schedule_.empty() ? time_point::max() : schedule_.begin()->first;
}

void node_clock::set_ordinary_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                      std::uint64_t id) {
  locked(t, [&] { simple_actor_clock::set_ordinary_timeout(t, self, type, id); });
}

void node_clock::set_multi_timeout(time_point t, caf::abstract_actor* self, caf::atom_value type,
                                   std::uint64_t id) {
  locked(t, [&] { simple_actor_clock::set_multi_timeout(t, self, type, id); });
}

void node_clock::set_request_timeout(time_point t, caf::abstract_actor* self, caf::message_id id) {
  locked(t, [&] { simple_actor_clock::set_request_timeout(t, self, id); });
}

void node_clock::cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) {
  std::lock_guard guard(mutex_);
  simple_actor_clock::cancel_ordinary_timeout(self, type);
}

void node_clock::cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) {
  std::lock_guard guard(mutex_);
  simple_actor_clock::cancel_request_timeout(self, id);
}

void node_clock::cancel_timeouts(caf::abstract_actor* self) {
  std::lock_guard guard(mutex_);
  simple_actor_clock::cancel_timeouts(self);
}

void node_clock::schedule_message(time_point t, caf::strong_actor_ptr receiver,
                                  caf::mailbox_element_ptr content) {
  locked(t,
         [&] { simple_actor_clock::schedule_message(t, std::move(receiver), std::move(content)); });
}

void node_clock::schedule_message(time_point t, caf::group target, caf::strong_actor_ptr sender,
                                  caf::message content) {
  locked(t, [&] {
    simple_actor_clock::schedule_message(t, std::move(target), std::move(sender),
                                         std::move(content));
  });
}

void node_clock::cancel_all() {
  schedule_map dropped;  // after the locks: with it go messages, and actors perhaps
  const std::lock_guard sending(sending_);
  const std::lock_guard guard(mutex_);
  actor_lookup_.clear();
  dropped.swap(schedule_);
}

// ---- The scheduler

namespace {

// What `caf::aout` writes to: whole lines to standard output. CAF's own would take a thread a node.
// The unit is there because CAF would take arguments out of nothing if there were none.
caf::behavior print_lines(caf::event_based_actor* self, const caf::unit_t&) {
  auto lines = std::make_shared<std::unordered_map<caf::actor_id, std::string>>();
  auto flush = [lines](caf::actor_id id, bool all) {
    auto& text = (*lines)[id];
    auto end = all ? text.size() : text.rfind('\n') + 1;
    std::cout << text.substr(0, end) << std::flush;
    text.erase(0, end);
  };
  self->set_default_handler(caf::drop);
  return {
      [=](caf::add_atom, caf::actor_id id, std::string& text) {
        (*lines)[id] += text;
        flush(id, false);
      },
      [=](caf::flush_atom, caf::actor_id id) { flush(id, true); },
      [=](caf::delete_atom, caf::actor_id id) {
        if (lines->count(id)) flush(id, true);
        lines->erase(id);
      },
  };
}

class node_scheduler final : public caf::scheduler::abstract_coordinator {
public:
  node_scheduler(caf::actor_system& system, engine& driver, node_clock& clock, completion& stopped)
      : abstract_coordinator(system), engine_(driver), clock_(clock), stopped_(stopped) {}

  void enqueue(caf::resumable* item) override {
    if (forked::from_nodes()) return;  // nobody is there who could run it
    if (!engine_.push_if_open(item)) cleanup_and_release(item);
  }

  caf::actor_clock& clock() noexcept override { return clock_; }

  void start() override {
    engine_.attach(system());
    utility_actors_[printer_id] = system().spawn<caf::hidden>(print_lines, caf::unit);
  }

  void stop() override {
    for (auto& actor : utility_actors_) caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
    clock_.cancel_all();
    engine_.stop(&cleanup_and_release);
    stopped_.complete();
  }

private:
  engine& engine_;
  node_clock& clock_;
  completion& stopped_;
};

// Takes the slot of CAF's network module, only to say who this node is.
class identity_module final : public caf::actor_system::module {
public:
  identity_module(caf::actor_system& system, caf::node_id id)
      : system_(system), id_(std::move(id)) {}

  void init(caf::actor_system_config&) override { caf::net::middleman::set_node(system_, id_); }
  void start() override {}
  void stop() override {}
  id_t id() const override { return network_manager; }
  void* subtype_ptr() override { return this; }

private:
  caf::actor_system& system_;
  caf::node_id id_;
};

}  // namespace

// ---- The system

struct actor_system_host::config : caf::actor_system_config {
  config(std::shared_ptr<engine> engine_of_node, node_clock& clock, const node_identity& self)
      : driver(std::move(engine_of_node)) {
    module_factories.push_back([this, &clock](caf::actor_system& system) {
      return static_cast<caf::actor_system::module*>(
          new node_scheduler(system, *driver, clock, stopped));
    });
    auto id = id_of(self.job, self.incarnation, self.rank);
    module_factories.push_back([id](caf::actor_system& system) {
      return static_cast<caf::actor_system::module*>(new identity_module(system, id));
    });
    set("scheduler.max-threads", 1);
  }

  std::shared_ptr<engine> driver;
  completion stopped;  // the engine, at the system's end
};

namespace {

constexpr auto logger_limit = std::chrono::milliseconds(1000);

// All nodes of this process that have not been shut down.
struct living {
  std::mutex mutex;
  std::unordered_map<const caf::actor_system*, std::shared_ptr<remote_actors>> actors;
};

living& hosts() {
  static auto& all = *new living;
  return all;
}

}  // namespace

// In the order in which they are made.
struct actor_system_host::parts {
  std::unique_ptr<node_clock> clock;
  std::unique_ptr<config> settings;
  std::unique_ptr<caf::actor_system> system;
};

caf::actor_system& actor_system_host::system() noexcept { return *parts_->system; }
node_clock& actor_system_host::clock() noexcept { return *parts_->clock; }

actor_system_host::actor_system_host(std::shared_ptr<remote_actors> actors,
                                     const node_identity& self)
    : parts_(std::make_shared<parts>()) {
  parts_->clock = std::make_unique<node_clock>(*actors->driver());
  parts_->settings = std::make_unique<config>(actors->driver(), *parts_->clock, self);
  parts_->system = std::make_unique<caf::actor_system>(*parts_->settings);
  {
    std::lock_guard guard(hosts().mutex);
    hosts().actors.emplace(parts_->system.get(), std::move(actors));
  }
  let_go_of_logger();
}

void actor_system_host::let_go_of_logger() { caf::logger::set_current_actor_system(nullptr); }

// The last thing that a system's end waits for is its logger, which stays with each thread that has
// used the system by CAF's own means for as long as the thread lives. That may be for ever.
actor_system_host::~actor_system_host() {
  {
    std::lock_guard guard(hosts().mutex);
    hosts().actors.erase(parts_->system.get());
  }
  if (parts_->settings->driver->simulated()) {  // where only one thread runs at a time
    let_go_of_logger();
    parts_->system.reset();
    return;
  }
  const auto ended = std::make_shared<completion>();
  std::thread end;
  try {
    end = std::thread([parts = parts_, ended] {
      parts->system.reset();
      ended->complete();
    });
  } catch (const std::system_error&) {  // no thread can be made
    parts_->system.reset();
    return;
  }
  parts_->settings->stopped.wait(never);
  if (ended->wait(deadline_after(logger_limit))) {
    end.join();
    return;
  }
  log().warn(
      "a thread of the program that has used node.system() still lives, so CAF's actor system is "
      "kept until that thread ends");
  end.detach();
}

// Handles outlive their system, so nothing of it is touched before it is known to live.
std::shared_ptr<remote_actors> actor_system_host::actors_of(const caf::actor_system* system) {
  forked::check();
  if (auto found = find_actors_of(system)) return found;
  throw not_initialized(
      "the actor's node has been shut down, or its CAF system is no node of Troupe");
}

std::shared_ptr<remote_actors> actor_system_host::find_actors_of(
    const caf::actor_system* system) noexcept {
  if (forked::from_nodes()) return nullptr;  // another thread may hold the lock for ever
  std::lock_guard guard(hosts().mutex);
  auto place = hosts().actors.find(system);
  return place == hosts().actors.end() ? nullptr : place->second;
}

caf::node_id actor_system_host::id_of(std::uint64_t job, std::uint64_t incarnation,
                                      transport::rank_t rank) {
  caf::node_id::default_data::host_id_type host{};
  std::memcpy(host.data(), &job, sizeof job);
  std::memcpy(host.data() + sizeof job, &incarnation, sizeof incarnation);
  // CAF takes an id of zeros, and a process id of 0, for "no node".
  host.back() = 1;
  return caf::make_node_id(rank + 1, host);
}

}  // namespace troupe
