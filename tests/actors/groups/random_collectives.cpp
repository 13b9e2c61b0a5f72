#include "tests/actors/groups/random_collectives.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tests/actors/groups/collective_matrix.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "tests/bad_network.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::test {

namespace {

using groups::operation_kind;

enum class step_kind : std::uint8_t { operation, works, make_group, split };

// What all ranks do next, on a group that has a number.
struct step {
  step_kind what = step_kind::operation;
  std::size_t group = 0;
  matrix_case operation{};
  int works = 0;              // that are outstanding together
  std::vector<int> ranks{};   // make_group
  std::vector<int> colors{};  // split: of each rank of the parent
  std::size_t makes = 0;      // the number of the first group that is made
  std::size_t made = 0;       // and how many are
};

// The members of a group, by their ranks in the job; the program's own record.
struct planned_group {
  std::vector<int> members;
};

}  // namespace

// One run: the program, which all nodes share, and what they have seen.
class random_collectives_run {
public:
  explicit random_collectives_run(random_collectives& of) : of_(of), choose_(of.seed_) {
    simulation_options how;
    how.seed = of.seed_;
    draw_bad_links(how, choose_, 0.6);
    how.network.limit = 5s;
    how.node.hang_limit = 10s;
    how.node.on_leader_loss = leader_loss::elect;
    draw_window(how, choose_);
    cluster_ = std::make_unique<simulation>(how);
  }

  std::vector<std::string> play() {
    const auto count = 3 + below(4);
    const auto nodes = cluster_->start(count);
    for (std::size_t i = 0; i < count; ++i) alive_.push_back(static_cast<int>(i));
    const auto phases = 1 + below(2);
    for (std::size_t i = 0; i < phases && alive_.size() > 1; ++i) play_phase(nodes);
    of_.steps_ = cluster_->steps();
    worlds_.clear();
    return wrong_;
  }

private:
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(choose_.next() % limit); }

  void wrong(std::string what) { wrong_.push_back(std::move(what)); }

  // Operations on groups of the survivors, with at most one death, which all know of at the end.
  void play_phase(const std::vector<node>& nodes) {
    plan();
    dead_.reset();
    std::vector<future<void>> running;
    for (const auto rank : alive_) {
      const auto& here = nodes[static_cast<std::size_t>(rank)];
      running.push_back(cluster_->spawn([this, here, rank] { play_rank(here, rank); }));
    }
    auto faults = cluster_->spawn([this] { break_things(); });
    faults.get();
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (!running[i].wait_for(20min)) return wrong(fmt::format("rank {} does not end", alive_[i]));
      try {
        running[i].get();
      } catch (const std::exception& e) {
        if (dead_ != alive_[i]) wrong(fmt::format("rank {} ended with {}", alive_[i], e.what()));
      }
    }
    if (!dead_) return;
    std::erase(alive_, *dead_);
    running.clear();
    shrunk_.clear();
    for (const auto rank : alive_) {
      const auto& here = nodes[static_cast<std::size_t>(rank)];
      running.push_back(cluster_->spawn([this, here, rank] { shrink_rank(here, rank); }));
    }
    for (std::size_t i = 0; i < running.size(); ++i) {
      try {
        if (running[i].wait_for(20min))
          running[i].get();
        else
          wrong(fmt::format("shrinking does not end on rank {}", alive_[i]));
      } catch (const std::exception& e) {
        wrong(fmt::format("rank {} shrinks, and gets {}", alive_[i], e.what()));
      }
    }
    asked_of_world_ = 2;  // those of `shrink` and `shrink_rank`
    for (const auto& one : shrunk_)
      if (one != shrunk_[0]) wrong("survivors disagree on what was completed before");
  }

  // The program of a phase: group 0 is the world of those that are alive.
  void plan() {
    steps_.clear();
    planned_.assign(1, {alive_});
    unsure_.clear();
    for (auto left = 5 + below(20); left > 0; --left) {
      step next;
      next.group = below(planned_.size());
      const auto members = planned_[next.group].members;
      const auto kind = below(10);
      next.makes = planned_.size();
      if (kind < 6 || members.size() < 2) {
        next.operation = drawn_operation();
      } else if (kind < 8) {
        next.what = step_kind::works;
        next.works = 1 + static_cast<int>(below(8));
      } else if (kind == 8) {
        next.what = step_kind::make_group;
        planned_group made;
        for (std::size_t i = 0; i < members.size(); ++i)
          if (below(3) > 0) next.ranks.push_back(static_cast<int>(i));
        if (next.ranks.empty()) next.ranks.push_back(0);
        if (below(2) == 0) std::ranges::reverse(next.ranks);
        for (const auto rank : next.ranks)
          made.members.push_back(members[static_cast<std::size_t>(rank)]);
        planned_.push_back(std::move(made));
      } else {
        next.what = step_kind::split;
        const auto colors = 1 + below(2);
        for (std::size_t i = 0; i < members.size(); ++i)
          next.colors.push_back(static_cast<int>(below(colors + 1)));
        for (int color = 0; color <= static_cast<int>(colors); ++color) {
          planned_group made;
          for (std::size_t i = 0; i < members.size(); ++i)
            if (next.colors[i] == color) made.members.push_back(members[i]);
          planned_.push_back(std::move(made));
        }
      }
      next.made = planned_.size() - next.makes;
      if (members.empty()) continue;
      if (next.group == 0)
        asked_of_world_ +=
            next.what == step_kind::works ? 1 + static_cast<std::size_t>(next.works) : 1;
      steps_.push_back(std::move(next));
    }
  }

  matrix_case drawn_operation() {
    static constexpr at::ScalarType dtypes[] = {at::kFloat, at::kDouble, at::kLong, at::kBFloat16,
                                                at::kByte};
    static constexpr shape_class shapes[] = {shape_class::few,   shape_class::few,
                                             shape_class::page,  shape_class::strided,
                                             shape_class::empty, shape_class::scalar};
    matrix_case out{};
    out.kind = moving_kinds[below(std::size(moving_kinds))];
    out.dtype = dtypes[below(std::size(dtypes))];
    out.shape = shapes[below(std::size(shapes))];
    do out.reduction = reduce_op(below(reduce_ops));
    while (groups::reduces(out.kind) &&
           !groups::unsupported_reduction("", out.reduction, out.dtype).empty());
    return out;
  }

  // Some of these may go on for longer than the program.
  void break_things() {
    // Two nodes of which one is lost cannot agree on that.
    const bool kills = below(3) > 0 && alive_.size() > 2;
    const auto faults = below(3);
    for (std::size_t i = 0; i < faults; ++i) {
      cluster_->sleep(std::chrono::microseconds(below(30'000)));
      const auto victim = static_cast<std::uint32_t>(alive_[below(alive_.size())]);
      if (below(2) == 0)
        cluster_->hang(victim, std::chrono::milliseconds(below(300)));
      else
        cluster_->slow(victim, 1 + static_cast<double>(below(20)));
    }
    if (!kills) return;
    cluster_->sleep(std::chrono::microseconds(below(40'000)));
    dead_ = alive_[below(alive_.size())];
    cluster_->crash(static_cast<std::uint32_t>(*dead_));
  }

  // A member is lost; or, after a death, some have a group that others have not: they wait for
  // those, and are late elsewhere.
  bool may_fail(const step& of) const {
    return dead_ && (is_member(of.group, *dead_) || !unsure_.empty());
  }

  bool is_member(std::size_t group, int rank) const {
    return std::ranges::find(planned_[group].members, rank) != planned_[group].members.end();
  }

  // Calls `body`, which is the step. False: it has failed.
  bool ends_well(const step& of, int rank, const std::string& what,
                 const std::function<void()>& body) {
    std::string text;
    try {
      body();
      ++of_.right_;
      return true;
    } catch (const peer_lost& e) {
      text = e.what();
    } catch (const group_failed& e) {
      text = e.what();
    } catch (const collective_timeout& e) {
      text = e.what();
      if (unsure_.empty()) wrong(fmt::format("rank {}, {}: {}", rank, what, text));
    }
    ++of_.failed_;
    if (dead_ == rank) return false;
    if (!may_fail(of)) wrong(fmt::format("rank {}, {} fails: {}", rank, what, text));
    // What fails while a group is made has no operation to name.
    const bool named = of.made > 0 || text.find("group '") != std::string::npos;
    if (!named || text.find("rank ") == std::string::npos)
      wrong(fmt::format("rank {}, {}: the error names too little: {}", rank, what, text));
    return false;
  }

  void play_rank(const node& here, int rank) {
    std::map<std::size_t, process_group> mine;
    std::map<std::size_t, bool> failed;
    auto known = worlds_.find(rank);
    if (known == worlds_.end()) known = worlds_.emplace(rank, here.world()).first;
    mine[0] = known->second;
    mine[0].set_timeout(1min);
    try {
      for (const auto& next : steps_) {
        const auto at = mine.find(next.group);
        if (at == mine.end() || !at->second.is_member()) {
          if (is_member(next.group, rank)) give_up(next, rank);
          continue;
        }
        if (failed[next.group]) {
          expect_failed(at->second, rank);
          give_up(next, rank);
          continue;
        }
        if (play_step(next, at->second, rank, mine)) continue;
        // A group that is not made leaves the one that it would have been made of as it is.
        failed[next.group] = next.made == 0;
        give_up(next, rank);
      }
    } catch (const not_initialized&) {
      if (dead_ != rank) throw;
    }
  }

  // This rank does not get the groups that the step makes. Others may.
  void give_up(const step& of, int rank) {
    if (dead_ == rank) return;
    for (std::size_t i = 0; i < of.made; ++i) unsure_.insert(of.makes + i);
  }

  void expect_failed(const process_group& group, int rank) {
    try {
      barrier(group);
      if (dead_ != rank) wrong(fmt::format("rank {}: '{}' goes on", rank, group.name()));
    } catch (const group_failed&) {
    }
  }

  bool play_step(const step& next, const process_group& group, int rank,
                 std::map<std::size_t, process_group>& mine) {
    switch (next.what) {
      case step_kind::operation:
        return ends_well(next, rank, next.operation.text(),
                         [&] { check_matrix_case(group, next.operation); });
      case step_kind::works: return play_works(next, group, rank);
      case step_kind::make_group:
        return ends_well(next, rank, "new_group",
                         [&] { mine[next.makes] = group.new_group(next.ranks); });
      default:
        return ends_well(next, rank, "split", [&] {
          const auto color = next.colors[static_cast<std::size_t>(group.rank())];
          mine[next.makes + static_cast<std::size_t>(color)] = group.split(color);
        });
    }
  }

  bool play_works(const step& next, const process_group& group, int rank) {
    const auto size = group.size();
    std::vector<at::Tensor> sums;
    std::vector<work> works;
    return ends_well(next, rank, "works", [&] {
      for (int i = 0; i < next.works; ++i) {
        sums.push_back(at::full({1 + 700 * (i % 2)}, group.rank() + i, at::kInt));
        works.push_back(all_reduce(group, sums.back(), async));
      }
      works.push_back(barrier(group, async));
      // The last first: the others have ended then.
      works.back().wait();
      for (int i = 0; i < next.works; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (!works[at].is_success()) wrong(fmt::format("rank {}: a work was passed", rank));
        if (sums[at][0].item<int>() != size * (size - 1) / 2 + size * i)
          wrong(fmt::format("rank {}: a wrong sum", rank));
      }
    });
  }

  void shrink_rank(const node& here, int rank) {
    auto& world = worlds_.at(rank);
    const auto left = world.shrink({world.group_rank(static_cast<std::uint32_t>(*dead_))});
    if (left.size() != static_cast<int>(alive_.size())) wrong("the group has not shrunk");
    if (here.world() != left) wrong("the shrunken group is not the world");
    if (left.completed_before() > asked_of_world_) wrong("more was completed than was asked for");
    shrunk_.push_back(left.completed_before());
    check_matrix_case(left,
                      {operation_kind::all_reduce, at::kFloat, reduce_op::sum, shape_class::page});
    ++of_.right_;
    world = left;
  }

  random_collectives& of_;
  random_source choose_;
  std::unique_ptr<simulation> cluster_;
  std::vector<int> alive_;               // ranks in the job
  std::map<int, process_group> worlds_;  // by those
  std::vector<step> steps_;
  std::vector<planned_group> planned_;
  std::set<std::size_t> unsure_;      // groups that some member has failed to make
  std::optional<int> dead_;           // of this phase
  std::uint64_t asked_of_world_ = 0;  // collectives, at most
  std::vector<std::uint64_t> shrunk_;
  std::vector<std::string> wrong_;
};

std::vector<std::string> random_collectives::run() { return random_collectives_run(*this).play(); }

}  // namespace troupe::test
