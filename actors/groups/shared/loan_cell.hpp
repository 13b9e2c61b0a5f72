#pragma once

#include <cstdint>

namespace troupe::groups {

/// Memory of one rank that others use until they give it back, each for itself: who still has it,
/// as bits by rank. The lender writes it while nobody has it; then the borrowers clear their bits.
/// It lies in shared memory, and outlives the group.
template <class Memory>
struct loan_cell {
  typename Memory::template cell<std::uint64_t> holders;
  typename Memory::template cell<std::uint64_t> taken;

  /// The lender, before the step at which it shows the loan: that step orders it.
  void lend(std::uint64_t to) noexcept {
    taken.store(0, std::memory_order_relaxed);
    holders.store(to, std::memory_order_relaxed);
  }

  /// A borrower has seen the loan, and will give it back: at once, without having read, if its rank
  /// has left by then. Sequentially consistent, as the flags of ranks that leave are: either the
  /// borrower sees that flag, or the lender that sees it sees this.
  void take(int rank) noexcept { taken.fetch_or(bit_of(rank), std::memory_order_seq_cst); }

  /// Release: what the borrower has read comes before the lender's next write.
  void give_back(int rank) noexcept { holders.fetch_and(~bit_of(rank), std::memory_order_release); }

  /// May the lender write the memory again? `left`: ranks that take no loan any more, and `dead`:
  /// those whose processes have ended. Acquire: see `give_back`.
  bool is_over(std::uint64_t left = 0, std::uint64_t dead = 0) const noexcept {
    const auto still = holders.load(std::memory_order_acquire) & ~dead;
    return (still & ~(left & ~taken.load(std::memory_order_seq_cst))) == 0;
  }

  static constexpr std::uint64_t bit_of(int rank) noexcept { return std::uint64_t{1} << rank; }
};

}  // namespace troupe::groups
