#include "troupe/actors/simulation/simulation.hpp"

#include <algorithm>

#include "troupe/actors/membership/member_descriptor.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/node/option_checks.hpp"
#include "troupe/actors/simulation/virtual_engine.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

transport::virtual_network_options network_of(const simulation_options& options) {
  auto network = options.network;
  network.seed = options.seed;
  network.self_driven = false;
  return network;
}

std::vector<std::byte> descriptor_of(const transport::transport& net, const rpc_options& options) {
  return detail::write_descriptor({detail::read_device_options(options.devices, options.device_maps,
                                                               detail::device_directory::here()),
                                   net.address(), detail::rules_of(options)});
}

}  // namespace

simulation::simulation(simulation_options options)
    : options_(std::move(options)),
      network_(std::make_shared<transport::virtual_network>(network_of(options_))),
      world_(std::make_shared<world>(
          world::options{options_.seed, options_.service, options_.limit, options_.trace},
          network_)),
      job_(world_->random().next() | 1) {}

simulation::~simulation() {
  world_->lift_limit();
  for (auto& [rank, weak] : nodes_)
    if (auto one = weak.lock()) one->crash();
  world_->end();
}

std::shared_ptr<node_core> simulation::make(std::uint32_t rank, std::uint64_t incarnation,
                                            const membership_view& start) {
  auto made = node_core::make({rank, job_, incarnation}, start, options_.node,
                              [&](dispatcher& client) -> std::shared_ptr<engine> {
                                return std::make_shared<virtual_engine>(client, world_, rank);
                              });
  nodes_[rank] = made;
  return made;
}

std::vector<node> simulation::start(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < count; ++rank) names.push_back("worker" + std::to_string(rank));
  return start(names);
}

std::vector<node> simulation::start(const std::vector<std::string>& names) {
  check_options(options_.node);
  membership_view first;
  std::vector<std::unique_ptr<deferred_sink>> parts;
  std::vector<std::unique_ptr<transport::transport>> nets;
  for (const auto& name : names) {
    const auto rank = static_cast<transport::rank_t>(nets.size());
    parts.push_back(std::make_unique<deferred_sink>());
    nets.push_back(transport::make_virtual_transport(network_, rank, *parts.back(), *parts.back()));
    first.members[rank] = {rank, 1, name, descriptor_of(*nets.back(), options_.node)};
  }
  detail::check_descriptors(first, {}, true);
  std::vector<node> nodes;
  for (std::uint32_t rank = 0; rank < nets.size(); ++rank) {
    auto made = make(rank, 1, first);
    made->open(std::move(nets[rank]), std::move(parts[rank]), first);
    nodes.emplace_back(std::move(made));
  }
  return nodes;
}

node simulation::join(const std::string& name, std::optional<std::uint32_t> rank) {
  std::shared_ptr<node_core> leader;
  for (const auto& [r, weak] : nodes_)
    if (const auto one = weak.lock(); one && one->is_open()) {
      leader = core(one->members().leader());
      break;
    }
  if (!leader) throw rendezvous_error("no node of the simulation can admit another one");
  const auto place = rank ? *rank : nodes_.rbegin()->first + 1;
  auto parts = std::make_unique<deferred_sink>();
  auto net = transport::make_virtual_transport(network_, place, *parts, *parts);
  auto answer = std::make_shared<promise<membership_view>>();
  leader->members().admit({place, name, descriptor_of(*net, options_.node)},
                          [answer](const membership_view* view, const fault& why) {
                            if (view)
                              answer->set_value(*view);
                            else
                              answer->set_exception(to_exception(why));
                          });
  const auto admitted = answer->get_future();
  answer = nullptr;
  const auto view = admitted.get_for(options_.node.init_timeout);
  auto made = make(place, view.members.at(place).incarnation, view);
  made->open(std::move(net), std::move(parts), view);
  return node(std::move(made));
}

std::shared_ptr<node_core> simulation::core(std::uint32_t rank) const {
  const auto place = nodes_.find(rank);
  auto found = place == nodes_.end() ? nullptr : place->second.lock();
  if (!found) throw unknown_worker("no node of the simulation has rank " + std::to_string(rank));
  return found;
}

void simulation::crash(std::uint32_t rank) {
  const auto doomed = core(rank);
  network_->crash(rank);
  doomed->crash();
}

void simulation::hang(std::uint32_t rank, std::chrono::nanoseconds time) {
  core(rank);
  world_->hang(rank, time);
}

void simulation::slow(std::uint32_t rank, double times) {
  core(rank);
  world_->slow(rank, times);
}

clock::time_point simulation::now() const noexcept { return world_->now(); }

void simulation::sleep(std::chrono::nanoseconds time) {
  completion nothing;
  engine::wait_without_network(nothing, world_->now() + time);
}

bool simulation::wait_until(const std::function<bool()>& condition,
                            std::chrono::nanoseconds limit) {
  // Each look passes the baton to this thread and back: look less often at what takes longer.
  constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds(50);
  constexpr std::chrono::nanoseconds longest = std::chrono::milliseconds(1);
  const auto begin = world_->now();
  while (!condition()) {
    const std::chrono::nanoseconds waited = world_->now() - begin;
    if (waited >= limit) return false;
    sleep(std::clamp(waited / 16, shortest, longest));
  }
  return true;
}

future<void> simulation::spawn(std::function<void()> body) {
  auto state = std::make_shared<detail::future_state<void>>(nullptr);
  world_->spawn([state, body = std::move(body)] {
    try {
      body();
      state->set_value();
    } catch (...) {
      state->set_exception(std::current_exception());
    }
  });
  return future<void>(state);
}

std::uint64_t simulation::random(std::uint64_t limit) { return world_->random().next() % limit; }

std::uint64_t simulation::steps() const noexcept { return world_->steps(); }

}  // namespace troupe
