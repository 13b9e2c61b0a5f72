#include "tests/actors/simulation/random_world.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <iostream>

#include "tests/bad_network.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::test {

using namespace std::chrono_literals;

random_world::random_world(std::uint64_t seed, std::uint64_t least_nodes, std::uint64_t most_nodes,
                           leaked_rref leaks)
    : least_(least_nodes), most_(most_nodes) {
  simulation_options how;
  how.seed = seed;
  random_source choose(seed);
  draw_bad_links(how, choose, 0.7);
  if (choose.chance(0.3)) how.network.death_notice = std::nullopt;
  how.network.limit = 1000ms;
  how.node.on_leaked_rref = leaks;
  how.node.hang_limit = 2000ms;
  how.node.rpc_timeout = choose.chance(0.5) ? 60'000ms : 500ms;
  draw_window(how, choose);
  how.node.on_leader_loss = choose.chance(0.5) ? leader_loss::elect : leader_loss::end;
  const bool traced = std::getenv("TROUPE_TRACE") != nullptr;
  if (traced) how.trace = [](const std::string& line) { std::cout << line << '\n'; };
  cluster_ = std::make_unique<simulation>(how);
  if (traced)
    cluster_->network().on_event = [](const transport::trace_event& event) {
      std::cout << to_string(event) << '\n';
    };
}

random_world::~random_world() = default;

std::vector<std::string> random_world::run() {
  for (const auto& n : cluster_->start(least_ + below(most_ - least_ + 1))) {
    auto at = make_place(n);
    at->incarnation = 1;
    places_.push_back(at);
    prepare(*at);
  }
  for (const auto& at : std::vector(places_))
    threads_.push_back(cluster_->spawn([this, at] { play(*at); }));
  break_things();
  for (std::size_t i = 0; i < threads_.size(); ++i)
    if (!threads_[i].wait_for(5 * longest)) wrong(fmt::format("thread {} does not end", i));
  for (auto& thread : threads_) {
    if (!thread.ready()) continue;
    try {
      thread.get();
    } catch (const std::exception& e) {
      wrong(fmt::format("a thread of the program ended with {}", e.what()));
    }
  }
  check();
  shut_down();
  steps_ = cluster_->steps();
  places_.clear();
  threads_.clear();
  cluster_.reset();
  check_end();
  return wrong_;
}

void random_world::enter(node n, std::uint64_t incarnation) {
  auto at = make_place(std::move(n));
  at->incarnation = incarnation;
  places_.push_back(at);
  prepare(*at);
  threads_.push_back(cluster_->spawn([this, at] { play(*at); }));
}

void random_world::break_things() {
  const auto misfortunes = below(6);
  faults_injected_ = misfortunes > 0;
  for (std::uint64_t i = 0; i < misfortunes; ++i) {
    cluster_->sleep(std::chrono::microseconds(below(60'000)));
    auto& victim = *places_[below(places_.size())];
    if (victim.crashed || victim.left) continue;
    try {
      befall(victim, below(8), i);
    } catch (const error&) {
      // Not admitted, or not let go: the job may have ended.
    }
  }
}

void random_world::befall(place& victim, std::uint64_t what, std::uint64_t number) {
  auto& network = cluster_->network();
  switch (what) {
    case 0:
    case 1:
      victim.crashed = true;
      cluster_->crash(victim.rank);
      if (once_in(2)) {
        cluster_->sleep(std::chrono::milliseconds(below(3'000)));
        enter(cluster_->join(fmt::format("again{}", number), victim.rank), victim.incarnation + 1);
      }
      break;
    case 2: {
      const auto time = below(3'000);
      if (time > 400) victim.healthy = false;
      cluster_->hang(victim.rank, std::chrono::milliseconds(time));
      break;
    }
    case 3: {
      std::set<transport::rank_t> one, other;
      for (const auto& at : places_) (once_in(2) ? one : other).insert(at->rank);
      network.partition({one, other});
      const auto time = below(2'500);
      if (time > 100)
        for (auto& at : places_) at->healthy = false;
      cluster_->sleep(std::chrono::milliseconds(time));
      network.heal();
      break;
    }
    case 4: {
      auto& at = *places_[below(places_.size())];
      network.cut(victim.rank, at.rank);
      const auto time = below(2'000);
      if (time > 100) victim.healthy = at.healthy = false;
      cluster_->sleep(std::chrono::milliseconds(time));
      network.heal();
      break;
    }
    case 5: cluster_->slow(victim.rank, 1 + static_cast<double>(below(100))); break;
    case 6: enter(cluster_->join(fmt::format("new{}", number)), 1); break;
    default:
      if (victim.rank == 0) break;
      victim.healthy = false;  // as long as it is about to go
      victim.here.leave(5s);
      victim.left = true;
  }
}

bool random_world::sound(const place& p) {
  return p.healthy && !p.crashed && !p.left && p.here.in_job();
}

std::uint64_t random_world::incarnation_of(std::uint32_t rank) const {
  std::uint64_t latest = 0;
  for (const auto& at : places_)
    if (at->rank == rank) latest = std::max(latest, at->incarnation);
  return latest;
}

void random_world::check_members() {
  // Those that are in the job agree in the end who else is.
  const auto agree = [&] {
    std::set<std::pair<std::uint32_t, std::vector<std::uint32_t>>> views;
    for (const auto& at : places_) {
      if (at->crashed || at->left || !at->here.in_job()) continue;
      std::vector<std::uint32_t> ranks;
      for (const auto& worker : at->here.workers()) ranks.push_back(worker.id);
      views.insert({at->here.epoch(), ranks});
    }
    return views.size() <= 1;
  };
  if (!cluster_->wait_until(agree, 20s)) wrong("the nodes do not agree who belongs to the job");
}

void random_world::shut_down() {
  std::vector<future<void>> ends;
  for (const auto& at : places_)
    if (!at->crashed && !at->left && at->here.in_job())
      ends.push_back(cluster_->spawn([at] { at->here.shutdown(true, 3 * longest); }));
  for (auto& end : ends) {
    if (!end.wait_for(4 * longest)) wrong("a shutdown does not end");
    try {
      if (end.ready()) end.get();
    } catch (const error& e) {
      // The job may have ended meanwhile, or shut it out, after a fault.
      const bool over = e.code() == errc::peer_lost || e.code() == errc::fenced;
      if (!over || !faults_injected_) wrong(fmt::format("a shutdown failed: {}", e.what()));
    }
  }
}

}  // namespace troupe::test
