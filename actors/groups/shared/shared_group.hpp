#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/backend/signature.hpp"
#include "troupe/actors/groups/backend/time_limit.hpp"
#include "troupe/actors/groups/reduction/reduction.hpp"
#include "troupe/actors/groups/shared/control_segment.hpp"
#include "troupe/actors/groups/shared/tensor_view.hpp"
#include "troupe/actors/groups/shared/waiting.hpp"
#include "troupe/actors/groups/shared/ways.hpp"

namespace troupe::groups {

/// The memory in which the tensors of a rank may lie, as this process has it mapped, writable.
/// Empty if one of the ranks does not have it: then all say so.
struct rank_memory {
  std::byte* base = nullptr;
  std::size_t size = 0;
};

/// What a rank needs to take part. All ranks have the same, but for `rank` and addresses.
struct shared_setup {
  std::string group;  ///< its name, for errors
  int rank = 0;
  int first_rank = 0;  ///< errors count ranks from it on
  int size = 1;
  std::span<std::byte> control;  ///< of a control_segment; outlives the group
  std::size_t area = 0;          ///< bytes, of its areas
  std::vector<rank_memory> memories;
  /// Their processes, by rank, if each can read the memory of all others by process_vm_readv; empty
  /// otherwise, on all ranks.
  std::vector<int> readable_processes{};
  int cores = 1;  ///< that the ranks run on, all together
  collective_ways ways;
};

/// Memory of another rank that this one has until it gives it back.
struct borrowed_part {
  std::byte* data = nullptr;
  loan_cell<process_memory>* loan = nullptr;
};

/// One rank's end of a group whose ranks share a host: the collectives, on contiguous arrays.
///
/// Each operation begins with one step (`exchange`), at which every rank shows what it was asked
/// for and where its tensors lie. So all ranks know the same and decide alike: whether they agree,
/// and if not, that this is an error of all; and which way the data goes. Rules 1 to 6 of
/// docs/collectives_shared.md say when a rank may read and write tensors of others.
///
/// One operation at a time, on any thread. Operations throw collective_mismatch, after which the
/// group can go on; collective_timeout, and group_failed when any rank has aborted, after which it
/// cannot: then tensors that the others may write are undefined, and stay so until all ranks have
/// left (`all_left`). They neither allocate, lock nor call the system, except to wait for long.
/// Whoever calls them says when an operation of the group is done (`complete`): one on several
/// tensors is one for each here.
class shared_group {
public:
  /// Throws invalid_argument.
  explicit shared_group(shared_setup setup);

  int rank() const noexcept { return setup_.rank; }
  /// What errors call a rank.
  int shown(int of_rank) const noexcept { return setup_.first_rank + of_rank; }
  int size() const noexcept { return setup_.size; }
  const collective_ways& ways() const noexcept { return setup_.ways; }

  void barrier(const operation_signature& what, const time_limit& limit);

  /// Before the operations on several tensors, or instead of those on none: have all ranks the same
  /// `sizes`, in elements? As many as `what.tensors`. Throws collective_mismatch on all ranks.
  void compare_sizes(const operation_signature& what, std::span<const std::uint64_t> sizes,
                     const time_limit& limit);

  /// This rank has carried out all of `what`.
  void complete(const operation_signature& what) noexcept;

  /// The root's `tensor` into all others'.
  void broadcast(const operation_signature& what, tensor_view tensor, const time_limit& limit);

  /// In place. `factor` is that of premul_sum, for this rank.
  void all_reduce(const operation_signature& what, tensor_view tensor, double factor,
                  const time_limit& limit);

  /// The root has an `output`, which may be its `input`.
  void reduce(const operation_signature& what, tensor_view input, tensor_view output, double factor,
              const time_limit& limit);

  /// `inputs` has one for each rank; `output` may be this rank's.
  void reduce_scatter(const operation_signature& what, std::span<const tensor_view> inputs,
                      tensor_view output, double factor, const time_limit& limit);

  /// all_gather, gather, scatter and all_to_all, by what.kind: `inputs` and `outputs` are those of
  /// `operation` with those of one tensor cut into one for each rank.
  void move(const operation_signature& what, std::span<const tensor_view> inputs,
            std::span<const tensor_view> outputs, const time_limit& limit);

  /// The same as `move`, and as `broadcast`, without moving anything, if all ranks are `able` to
  /// take what is lent to them: then true. `sends` and `receives` are those of this rank for each
  /// rank, by bytes, and the places of what it lends. False: nobody takes anything.
  bool lend(const operation_signature& what, std::span<const shown_part> sends,
            std::span<const shown_part> receives, bool able, const time_limit& limit);
  /// After `lend`: what `from` has lent to this rank, which gives it back.
  borrowed_part borrow(const operation_signature& what, int from, std::size_t bytes);

  /// The rank in whose memory all ranks have a shared result.
  static constexpr int result_owner = 0;
  /// One result for all, in memory that its owner shows as `result`, lent to all others; others
  /// show shared_place::elsewhere. Returns what this rank borrows, the owner nothing in it. Nothing
  /// if not all are `able`: then nothing was written.
  std::optional<borrowed_part> all_reduce_shared(const operation_signature& what, tensor_view input,
                                                 std::uint64_t result, bool able, double factor,
                                                 const time_limit& limit);
  std::optional<borrowed_part> all_gather_shared(const operation_signature& what, tensor_view input,
                                                 std::uint64_t result, bool able,
                                                 const time_limit& limit);

  /// Copies what `from` has lent to this rank in a message to `into`, and gives it back. Throws
  /// internal_error, and group_failed once this rank has left. Any thread, also while an operation
  /// runs.
  void take_letter(int from, std::uint64_t word, const tensor_view& into) const;

  /// Where the others find `tensor`, of any rank's memory; shared_place::elsewhere if they do not.
  std::uint64_t place_of(const tensor_view& tensor, int loan = 0) const noexcept;
  loan_cell<process_memory>& loan(int of_rank, int number) const noexcept {
    return control_.loan(of_rank, number);
  }

  /// All operations of all ranks fail from now on, those under way soon. Any thread.
  void abort(const std::string& reason) noexcept { control_.abort(rank(), reason); }
  std::optional<std::string> aborted_because() const;
  bool aborted() const noexcept { return exchange_.abort_cause() != 0; }

  /// This rank runs no operation, and none that runs later will write: it has been aborted, or
  /// there is none. Any thread.
  void leave() noexcept { control_.left(rank()).store(1, std::memory_order_seq_cst); }

  /// Has every rank but those in `dead` left, so that none writes into this rank's
  /// tensors any more? Any thread.
  bool all_left(std::uint64_t dead = 0) const noexcept;
  /// Those that have, as bits.
  std::uint64_t left() const noexcept;
  /// Did the operation that failed let others write into this rank's tensors?
  bool exposed() const noexcept { return exposed_; }
  /// The last operation that every rank has completed, by its sequence number.
  std::uint64_t last_completed_by_all() const noexcept;

private:
  using source_pointers = std::array<const std::byte*, most_ranks>;
  using destination_pointers = std::array<std::byte*, most_ranks>;

  // What a rank shows the others when an operation begins.
  struct entry {
    std::uint32_t note = 0;
    std::uint64_t place = shared_place::elsewhere;  // of what others read, and write if it is all
    std::uint64_t output_place = shared_place::elsewhere;
    double factor = 1;
    std::uint64_t payload = 0;
    bool exposes = false;  // others may write into this rank's tensor; not shown
  };
  // Notes of an entry.
  static constexpr std::uint32_t carried = 1;    // the data is in the entry or in the rank's area
  static constexpr std::uint32_t reachable = 2;  // the tensors are where the others can use them
  static constexpr std::uint32_t aliases = 4;    // the outputs can become aliases of others' memory
  static constexpr std::uint32_t readable = 8;   // places are addresses in the rank's process

  // What this rank has for each rank, and what it expects of each.
  struct parts {
    std::array<tensor_view, most_ranks> sends{};
    std::array<tensor_view, most_ranks> receives{};
    bool same_for_all = false;  // one tensor is sent to all that get any
  };

  // How an operation begins and ends, shared_group.cpp.
  void enter(const entry& mine, const operation_signature& what, const time_limit& limit);
  void step(const operation_signature& what, const time_limit& limit);
  // The same after others' tensors were read: one that has given up before may have written to its
  // own, and then this rank fails as well.
  void step_after_reading(const operation_signature& what, const time_limit& limit);
  void leave_if_aborted(const operation_signature& what);
  // A rank has died: the group hears of it, and this operation ends then.
  [[noreturn]] void wait_for_abort(const operation_signature& what, const time_limit& limit);
  void take_loan(loan_cell<process_memory>& cell) const;
  [[noreturn]] void fail(wait_result why, const operation_signature& what, const time_limit& limit);
  [[noreturn]] void disagree(const operation_signature& what, const std::string& text);
  [[noreturn]] void fail_by_damage(const operation_signature& what, int by_rank, const char* shows);
  operation_place where(const operation_signature& what) const;

  // What this rank has to show: a tensor of which all ranks have as many bytes.
  entry entry_for(const operation_signature& what, tensor_view tensor) noexcept;
  // The half of double memory that was shown at the step that has ended.
  unsigned shown_parity() const noexcept { return exchange_.parity() ^ 1; }
  bool all_have(std::uint32_t note) const noexcept;
  std::uint64_t* sizes_of(int rank, unsigned parity) const noexcept;
  // Where it is here; null if there are no such bytes.
  std::byte* address_of(const shared_place& place, std::size_t bytes) const noexcept;
  // What `rank` shows as the place of `bytes` bytes, here. They are as many as this rank uses: what
  // the others show may change after it was compared.
  std::byte* mapped(int by_rank, std::uint64_t word, std::size_t bytes,
                    const operation_signature& what);
  store_mode stores_for(std::size_t all_bytes) const noexcept {
    return all_bytes > setup_.ways.streaming_from ? store_mode::streaming : store_mode::cached;
  }

  // shared_group_reduce.cpp
  void combine(const operation_signature& what, tensor_view input, tensor_view output, bool to_all,
               double factor, const time_limit& limit);
  const double* shown_factors(const operation_signature& what) noexcept;
  void combine_boxes(const reduction& how, tensor_view output, const double* factors);
  void combine_direct(const reduction& how, const operation_signature& what, tensor_view input,
                      bool to_all, const double* factors, const time_limit& limit);
  void combine_staged(const reduction& how, const operation_signature& what, tensor_view input,
                      tensor_view output, bool to_all, const double* factors,
                      const time_limit& limit);
  void scatter_staged(const reduction& how, const operation_signature& what, const parts& mine,
                      tensor_view output, const double* factors, const time_limit& limit);

  // shared_group_move.cpp
  void enter_parts(const operation_signature& what, const parts& mine, double factor,
                   const time_limit& limit);
  void check_parts(const operation_signature& what);
  std::size_t largest_part() const noexcept;
  // What this rank gets from the area of `from`: `bytes`, by its own count.
  const std::byte* boxed_part(int from, std::size_t bytes, bool same_for_all,
                              const operation_signature& what);
  // Can all others get what `rank` shows: is it mapped, or can the kernel read it?
  bool can_be_read(int of_rank) const noexcept {
    return exchange_.note_of(of_rank) & (reachable | readable);
  }
  bool all_can_be_read() const noexcept;
  // Copies what such a rank shows as the place of `to.bytes()` bytes.
  void read_part(const operation_signature& what, int from, std::uint64_t place,
                 const tensor_view& to, store_mode stores, const time_limit& limit);
  // Looks for an abort as it goes.
  void copy_part(const operation_signature& what, const tensor_view& to, const std::byte* from,
                 store_mode stores);
  void move_staged(const operation_signature& what, const parts& mine, const time_limit& limit);

  // shared_group_lend.cpp
  borrowed_part borrowed(const operation_signature& what, int from, std::uint64_t word,
                         std::size_t bytes);

  const shared_setup setup_;
  const control_segment control_;
  control_segment::exchange_type exchange_;
  bool exposed_ = false;
  std::array<double, most_ranks> factors_{};
};

}  // namespace troupe::groups
