#pragma once

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/actors/groups/schedules/costs.hpp"

namespace troupe::groups::schedules {

/// What came of the schedules of all ranks under Hockney's model.
struct simulated_run {
  double seconds = 0;     ///< of the slowest rank
  long messages = 0;      ///< of all ranks
  double bytes = 0;       ///< of all ranks
  bool complete = false;  ///< all have done all of their steps, and every message was taken
};

/// Runs the schedules of all ranks, each by a clock of its own; a block has `block_bytes`. A
/// message is there alpha + beta n after both ranks have begun their steps, and takes gamma n more
/// if it is combined. `data.pack(rank, step)` returns what a message has, as its step begins, and
/// `data.unpack(rank, step, message)` takes it.
template <class Data>
class simulation {
public:
  simulation(std::vector<schedule> all, double block_bytes, const link& over, Data& data)
      : all_(std::move(all)),
        block_bytes_(block_bytes),
        over_(over),
        data_(data),
        ranks_(all_.size()) {}

  simulated_run run() {
    for (std::size_t rank = 0; rank < all_.size(); ++rank) ready_.push_back(static_cast<int>(rank));
    while (!ready_.empty()) {
      const int rank = ready_.front();
      ready_.pop_front();
      while (advance(rank)) {
      }
    }
    out_.complete = true;
    for (std::size_t rank = 0; rank < all_.size(); ++rank) {
      out_.complete = out_.complete && ranks_[rank].at == all_[rank].steps.size();
      out_.seconds = std::max(out_.seconds, ranks_[rank].now);
    }
    for (const auto& [who, sent] : under_way_) out_.complete = out_.complete && sent.empty();
    return out_;
  }

private:
  struct message {
    double begun;
    int blocks;
    typename Data::message content;
  };
  struct progress {
    std::size_t at = 0;
    double now = 0;
    bool begun = false;  // this step has sent
    int waits_for = nobody;
  };

  static long pair(int from, int to) { return (static_cast<long>(from) << 32) | to; }

  // Does as much of its next step as can be done. False: it waits, or is over.
  bool advance(int rank) {
    auto& mine = ranks_[static_cast<std::size_t>(rank)];
    const auto& plan = all_[static_cast<std::size_t>(rank)];
    if (mine.at == plan.steps.size()) return false;
    const auto& what = plan.steps[mine.at];
    const int sent = what.to == nobody ? 0 : size_of(what.sent, plan.blocks);
    if (!mine.begun && what.to != nobody) {
      out_.messages += 1;
      out_.bytes += sent * block_bytes_;
      under_way_[pair(rank, what.to)].push_back({mine.now, sent, data_.pack(rank, what)});
      auto& other = ranks_[static_cast<std::size_t>(what.to)];
      if (other.waits_for == rank) {
        other.waits_for = nobody;
        ready_.push_back(what.to);
      }
    }
    mine.begun = true;
    const auto taking = [&](int blocks) {
      return over_.alpha + over_.beta * blocks * block_bytes_;
    };
    double end = what.to == nobody ? mine.now : mine.now + taking(sent);
    if (what.from != nobody) {
      auto& arriving = under_way_[pair(what.from, rank)];
      if (arriving.empty()) {
        mine.waits_for = what.from;
        return false;
      }
      auto got = std::move(arriving.front());
      arriving.pop_front();
      double there = std::max(got.begun, mine.now) + taking(got.blocks);
      if (what.combines) there += over_.gamma * got.blocks * block_bytes_;
      end = std::max(end, there);
      data_.unpack(rank, what, std::move(got.content));
    }
    mine.now = end;
    mine.at += 1;
    mine.begun = false;
    return true;
  }

  const std::vector<schedule> all_;
  const double block_bytes_;
  const link over_;
  Data& data_;
  std::vector<progress> ranks_;
  std::deque<int> ready_;
  std::unordered_map<long, std::deque<message>> under_way_;
  simulated_run out_;
};

/// Messages without contents.
struct no_data {
  struct message {};
  message pack(int, const step&) { return {}; }
  void unpack(int, const step&, message&&) {}
};

}  // namespace troupe::groups::schedules
