#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/actors/groups/schedules/costs.hpp"

namespace troupe::groups {

/// How ranks on several hosts carry out an operation: by which algorithm, for how many bytes. All
/// ranks of a group have the same. The least time by the formulas of the schedules counts, with the
/// link's figures, unless a rule says otherwise.
class network_ways {
public:
  /// Figures of a link between hosts of one room; a group measures its own.
  explicit network_ways(int ranks) noexcept : ranks_(ranks) {}

  /// Takes the rules that begin with "network.": "network.all_reduce:ring>=65536" holds from so
  /// many bytes on, up to a later rule of the text; "network.alpha=25000",
  /// "network.rate=1250000000" and others set the members of these names, see `text`. Rules of
  /// others are left alone. Throws invalid_argument that says what is wrong.
  void apply(const std::string& rules);

  /// By which algorithm: `bytes` are those of one rank, of an all_gather those of all. Where
  /// `in_order`, elements are combined in the order of the ranks, which `direct` alone does.
  schedules::algorithm choose(schedules::task what, std::size_t bytes,
                              bool in_order) const noexcept;

  /// The same by the rules alone: nothing where none holds, or where it is not possible.
  std::optional<schedules::algorithm> ruled(schedules::task what, std::size_t bytes,
                                            bool in_order) const noexcept;

  /// By the formulas, in seconds. Messages of `direct` leave together: all but the first take only
  /// an eighth of alpha, which is what a processor has to do for one.
  double seconds(schedules::task what, schedules::algorithm by, std::size_t bytes) const noexcept;

  /// Do entries go from every rank to every other, rather than by Bruck's algorithm?
  bool enters_directly() const noexcept;

  int ranks() const noexcept { return ranks_; }
  /// Are the link's figures those of a rule?
  bool link_is_given() const noexcept { return alpha_given_ && rate_given_; }
  /// As measured; figures of rules stay. Pieces follow from the rate.
  void set_link(const schedules::link& measured) noexcept;

  /// Rules and numbers, in the form that `apply` takes.
  std::string text() const;
  /// For people, in lines.
  std::string explanation() const;

  schedules::link over{30e-6, 1e-9, 0.1e-9};
  /// Bytes of a message, at most, where there are more: one is received while another one is
  /// combined and a third one sent. Without a rule what the link carries in 1.5 ms, at least 256
  /// KiB and at most 1 MiB: few large ones cost less, and many small ones leave less of a slow link
  /// idle.
  std::size_t piece = 1 << 20;
  /// Bytes that a rank of a pairwise exchange sends before as many have come: so few ranks send to
  /// one at the same time, and more than a link holds is under way. Without a rule four pieces, at
  /// most 2 MiB.
  std::size_t window = 2 << 20;
  /// May elements be combined in any order? Results then depend on the algorithm and the ranks'
  /// places. Integers are combined in any order anyway.
  bool any_order = false;
  /// Not 0: as if the ranks lay on so many hosts, as many on each.
  int hosts = 0;

private:
  struct rule {
    std::size_t from;
    schedules::algorithm by;
  };

  bool allows(schedules::task what, schedules::algorithm by, bool in_order) const noexcept;
  void set_number(std::string_view rule, std::string_view name, std::size_t value);

  void follow_rate() noexcept;

  int ranks_;
  bool piece_given_ = false, window_given_ = false;
  bool alpha_given_ = false, rate_given_ = false;
  int entry_ = 0;  // 1: directly, 2: by Bruck's, 0: by cost
  std::array<std::vector<rule>, schedules::tasks> rules_;
};

}  // namespace troupe::groups
