#pragma once

#include "tests/actors/simulation/random_world.hpp"

namespace troupe::test {

/// A random program of calls, nested calls that block, actors made, sent to, asked, watched, linked
/// and killed, on a `random_world`. docs/simulation.md lists what must be.
class random_run final : public random_world {
public:
  explicit random_run(std::uint64_t seed);
  ~random_run() override;

private:
  struct log_book;
  struct my_place;

  std::shared_ptr<place> make_place(node n) override;
  void prepare(place& at) override;
  void play(place& at) override;
  void check() override;
  void check_end() override;

  void check_calls();
  void check_notes();
  void check_stories();
  void check_rest();

  std::shared_ptr<log_book> book_;
};

}  // namespace troupe::test
