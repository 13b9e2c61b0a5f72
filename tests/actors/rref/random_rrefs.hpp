#pragma once

#include "tests/actors/simulation/random_world.hpp"

namespace troupe::test {

/// A random program of remote references on a `random_world`: created, created from others, used,
/// passed on in arguments, answers and messages, fetched by those who want the value, dropped;
/// creations that fail, or run into their limits. docs/simulation.md lists what must be.
class random_rrefs : public random_world {
public:
  /// `hurried`: the nodes end as soon as their programs have, and must have nothing left then.
  explicit random_rrefs(std::uint64_t seed, bool hurried = false);
  ~random_rrefs() override;

private:
  struct my_place;

  std::shared_ptr<place> make_place(node n) override;
  void play(place& at) override;
  void check() override;
  void check_end() override;

  void step(my_place& at);
  void use(my_place& at, std::size_t which);
  void check_uses();
  void check_rest();

  void drop_all();

  struct book;
  std::shared_ptr<book> book_;
  const bool hurried_;
};

/// The same for programs that drop all that they have and end.
class hurried_rrefs final : public random_rrefs {
public:
  explicit hurried_rrefs(std::uint64_t seed) : random_rrefs(seed, true) {}
};

}  // namespace troupe::test
