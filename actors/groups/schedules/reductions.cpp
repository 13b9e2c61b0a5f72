#include "troupe/actors/groups/schedules/reductions.hpp"

#include <utility>

#include "troupe/actors/groups/schedules/gathers.hpp"

namespace troupe::groups::schedules {

namespace {

// Of the ranks beyond a power of two, each even one lends its data to the next, and gets the result
// from it. Those that are left have numbers of their own.
struct folded_ranks {
  folded_ranks(int rank, int ranks)
      : size(power_of_two_within(ranks)), beyond(ranks - size), rank_(rank) {}

  bool steps_aside() const noexcept { return rank_ < 2 * beyond && rank_ % 2 == 0; }
  bool stands_in() const noexcept { return rank_ < 2 * beyond && rank_ % 2 == 1; }
  int number() const noexcept { return rank_ < 2 * beyond ? rank_ / 2 : rank_ - beyond; }
  int rank_of(int number) const noexcept {
    return number < beyond ? 2 * number + 1 : number + beyond;
  }

  // All blocks.
  step before(int blocks) const {
    if (steps_aside()) return {rank_ + 1, nobody, {0, blocks}, {}};
    return {nobody, rank_ - 1, {}, {0, blocks}, true};
  }
  step after(int blocks) const {
    if (steps_aside()) return {nobody, rank_ + 1, {}, {0, blocks}};
    return {rank_ - 1, nobody, {0, blocks}, {}};
  }

  const int size;
  const int beyond;

private:
  const int rank_;
};

template <class Middle>
schedule folded(int rank, int ranks, int blocks, const Middle& add_middle) {
  const folded_ranks all(rank, ranks);
  schedule out{blocks, {}};
  const bool paired = all.steps_aside() || all.stands_in();
  if (paired) out.steps.push_back(all.before(blocks));
  if (!all.steps_aside()) add_middle(out, all);
  if (paired) out.steps.push_back(all.after(blocks));
  return out;
}

void append(schedule& to, schedule&& more) {
  for (auto& one : more.steps) to.steps.push_back(one);
}

}  // namespace

schedule doubling_all_reduce(int rank, int ranks) {
  return folded(rank, ranks, 1, [](schedule& out, const folded_ranks& all) {
    for (int distance = 1; distance < all.size; distance *= 2) {
      const int partner = all.rank_of(all.number() ^ distance);
      out.steps.push_back({partner, partner, {0, 1}, {0, 1}, true});
    }
  });
}

schedule halving_doubling_all_reduce(int rank, int ranks) {
  const int blocks = power_of_two_within(ranks);
  return folded(rank, ranks, blocks, [](schedule& out, const folded_ranks& all) {
    const int mine = all.number();
    for (int half = all.size / 2; half > 0; half /= 2) {
      const int other = mine ^ half, partner = all.rank_of(other);
      out.steps.push_back(
          {partner, partner, {other / half * half, half}, {mine / half * half, half}, true});
    }
    for (auto one : doubling_all_gather(mine, all.size).steps) {
      one.to = all.rank_of(one.to);
      one.from = all.rank_of(one.from);
      out.steps.push_back(one);
    }
  });
}

schedule ring_reduce_scatter(int rank, int ranks) {
  schedule out{ranks, {}};
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int i = 1; i < ranks; ++i)
    out.steps.push_back(
        {next, before, {(rank + ranks - i) % ranks, 1}, {(before + ranks - i) % ranks, 1}, true});
  return out;
}

schedule ring_all_reduce(int rank, int ranks) {
  auto out = ring_reduce_scatter(rank, ranks);
  append(out, ring_all_gather(rank, ranks));
  return out;
}

schedule pairwise_reduce_scatter(int rank, int ranks) {
  schedule out{ranks, {}};
  for (int i = 1; i < ranks; ++i) {
    const int to = (rank + i) % ranks, from = (rank + ranks - i) % ranks;
    out.steps.push_back({to, from, {to, 1}, {rank, 1}, true});
  }
  return out;
}

schedule pairwise_all_reduce(int rank, int ranks) {
  auto out = pairwise_reduce_scatter(rank, ranks);
  append(out, direct_all_gather(rank, ranks));
  return out;
}

}  // namespace troupe::groups::schedules
