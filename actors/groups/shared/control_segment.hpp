#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "troupe/actors/groups/shared/exchange.hpp"
#include "troupe/actors/groups/shared/loan_cell.hpp"

namespace troupe::groups {

/// Most ranks of a group on one host.
inline constexpr int most_ranks = 64;

/// Loans that one rank may have out at a time.
inline constexpr int most_loans = 255;

/// Where a tensor of a rank lies, or a part of one, as one word that ranks show each other.
struct shared_place {
  std::uint64_t offset = 0;  ///< in the memory of `rank` that the others have mapped
  int rank = 0;
  int loan = 0;  ///< of the rank that shows it, from 1 on; 0: it is not lent

  static constexpr std::uint64_t elsewhere = ~std::uint64_t{0};

  constexpr std::uint64_t word() const noexcept {
    return offset | static_cast<std::uint64_t>(loan) << 48 | static_cast<std::uint64_t>(rank) << 56;
  }
  static constexpr shared_place of(std::uint64_t word) noexcept {
    return {word & 0xffff'ffff'ffff, static_cast<int>(word >> 56),
            static_cast<int>(word >> 48 & 0xff)};
  }
};

/// A part of a tensor of one rank that another one gets.
struct shown_part {
  std::uint64_t place = shared_place::elsewhere;
  std::uint64_t bytes = 0;
};

/// The memory that the ranks of a group on one host share, all of them writing:
///
///     header; cause of an abort, and its text
///     for each rank   a line by which it is woken
///     for each rank   the last operation that it has completed
///     for each rank   two lines with its entries, of even and odd steps
///     for each rank   its loans
///     for each rank   two tables of parts, of even and odd steps: what it has for each rank, and
///                     what it expects of each
///     for each rank   two areas for data, of even and odd steps
///
/// What a rank writes before a step lies still until all have begun the next one: see `exchange`.
class control_segment {
public:
  using exchange_type = exchange<process_memory>;
  using line = exchange_type::line;
  using sleeper = exchange_type::sleeper;

  /// Of a segment for `ranks` ranks with areas of `area` bytes, a multiple of 64.
  static std::size_t size_for(int ranks, std::size_t area) noexcept;

  /// Writes the header: `memory` is zeros. 64-aligned.
  static void create(std::span<std::byte> memory, int ranks, std::size_t area) noexcept;

  control_segment() = default;
  /// Over what `create` has prepared, here or in another process. Throws invalid_argument when it
  /// is a segment of another version, or for other numbers.
  control_segment(std::span<std::byte> memory, int ranks, std::size_t area);

  int ranks() const noexcept { return ranks_; }
  std::size_t area_bytes() const noexcept { return area_; }

  std::span<line> lines() const noexcept;
  std::span<sleeper> sleepers() const noexcept;
  /// What `rank` has for each rank.
  std::span<shown_part> sends(int rank, unsigned parity) const noexcept;
  /// What `rank` expects of each rank.
  std::span<shown_part> receives(int rank, unsigned parity) const noexcept;
  /// Of `rank`, by number: from 1 to most_loans.
  loan_cell<process_memory>& loan(int rank, int number) const noexcept;
  std::span<std::byte> area(int rank, unsigned parity) const noexcept;
  abort_line<process_memory>& abort_cause() const noexcept;
  /// The sequence number of the last operation that a rank has completed.
  std::atomic<std::uint64_t>& completed(int rank) const noexcept;
  /// Not 0: the group is aborted, and the rank writes into no memory of others any more.
  std::atomic<std::uint64_t>& left(int rank) const noexcept;

  /// Aborts in the name of `rank`; `reason` is cut to what there is room for. Only the first
  /// counts.
  void abort(int rank, const std::string& reason) const noexcept;
  /// Who has aborted, and why: "rank 2: its deadline has passed". Empty: nobody.
  struct abort_reason {
    int rank = -1;  ///< -1: nobody
    std::string text;
  };
  abort_reason aborted_by() const;

private:
  struct header;
  struct rank_state;

  shown_part* places(int rank, unsigned parity) const noexcept;
  header& head() const noexcept;
  std::byte* at(std::size_t offset) const noexcept { return base_ + offset; }

  std::byte* base_ = nullptr;
  int ranks_ = 0;
  std::size_t area_ = 0;
};

}  // namespace troupe::groups
