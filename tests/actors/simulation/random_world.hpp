#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/actors/simulation/random_actors.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {

/// The stage of a random program: many nodes on a bad network, as a seed decides; they crash, hang,
/// are cut off, come back, join and leave while the program of each of them runs.
class random_world {
public:
  /// `leaks`: what a shutdown makes of rrefs that are left.
  random_world(std::uint64_t seed, std::uint64_t least_nodes, std::uint64_t most_nodes,
               leaked_rref leaks = leaked_rref::ignore);
  virtual ~random_world();
  random_world(const random_world&) = delete;
  random_world& operator=(const random_world&) = delete;

  /// Does it all; what was not as it must be, or nothing.
  std::vector<std::string> run();

  /// Steps of the simulation: the same for the same seed.
  std::uint64_t steps() const { return steps_; }

protected:
  /// A node that there is or was.
  struct place {
    explicit place(node n) : here(std::move(n)), rank(here.rank()) {}
    virtual ~place() = default;

    node here;
    std::uint32_t rank = 0;
    std::uint64_t incarnation = 0;
    bool crashed = false;
    bool left = false;
    bool healthy = true;  // nothing has been done to it that may shut it out
  };

  virtual std::shared_ptr<place> make_place(node n) {
    return std::make_shared<place>(std::move(n));
  }
  /// Before its program runs.
  virtual void prepare(place&) {}
  /// The program of one node.
  virtual void play(place& at) = 0;
  /// What must be when the programs have ended, and the nodes have not.
  virtual void check() = 0;
  /// What must be when all nodes are gone.
  virtual void check_end() {}

  void check_members();
  void shut_down();
  /// May nothing have gone wrong with it?
  static bool sound(const place& p);
  std::uint64_t incarnation_of(std::uint32_t rank) const;
  void wrong(std::string what) { wrong_.push_back(std::move(what)); }
  std::uint64_t below(std::uint64_t limit) { return cluster_->random(limit); }
  bool once_in(std::uint64_t n) { return below(n) == 0; }

  std::unique_ptr<simulation> cluster_;
  std::vector<std::shared_ptr<place>> places_;  // all nodes that there ever were
  bool faults_injected_ = false;

private:
  void enter(node n, std::uint64_t incarnation);
  void break_things();
  void befall(place& victim, std::uint64_t what, std::uint64_t number);

  const std::uint64_t least_;
  const std::uint64_t most_;
  std::vector<future<void>> threads_;
  std::vector<std::string> wrong_;
  std::uint64_t steps_ = 0;
};

/// Longer than any limit in such a program: a call that has not ended by then never does.
inline constexpr auto longest = std::chrono::seconds(120);

}  // namespace troupe::test
