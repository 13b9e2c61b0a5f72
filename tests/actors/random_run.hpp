#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "actors/simulation/simulation.hpp"

namespace troupe::test {

/// A random program of many nodes on a bad network, as a seed decides: calls, nested calls that
/// block, actors made, told, asked, watched, linked and killed; nodes that crash, hang, are cut
/// off, come back, join and leave. `run` does it all and returns what was not as it must be (docs/
/// simulation.md says what must be); nothing when all was well.
class random_run {
public:
  explicit random_run(std::uint64_t seed);
  ~random_run();

  std::vector<std::string> run();

  /// Steps of the simulation: the same for the same seed.
  std::uint64_t steps() const { return steps_; }

private:
  struct log_book;
  struct place;

  void play(std::shared_ptr<place> at);
  void break_things();
  void check_calls();
  void check_notes();
  void check_members();
  void check_stories();
  void check_rest();
  void wrong(std::string what);
  static bool sound(const place& p);
  std::uint64_t incarnation_of(std::uint32_t rank) const;

  std::uint64_t below(std::uint64_t limit) { return lab_->random(limit); }
  bool once_in(std::uint64_t n) { return below(n) == 0; }

  const std::uint64_t seed_;
  std::unique_ptr<simulation> lab_;
  std::shared_ptr<log_book> book_;
  std::vector<std::shared_ptr<place>> places_;  // all nodes that there ever were
  std::vector<future<void>> threads_;
  std::vector<std::string> wrong_;
  std::uint64_t steps_ = 0;
  bool elects_ = false;
  bool bad_day_ = false;
};

}  // namespace troupe::test
