#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/actors/groups/nccl/nccl_interface.hpp"

namespace troupe::test::nccl_double {

/// What all ranks of a communicator agree on before they touch a buffer.
struct call_header {
  std::uint32_t function = 0;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  std::int32_t reduction = 0;
  std::int32_t root = 0;

  friend bool operator==(const call_header&, const call_header&) = default;
};

/// A rank's wish in a split or shrink, and where what came of it is.
struct split_wish {
  std::atomic<std::uint32_t> made{0};  ///< 1: it is there, 2: so is `leader`
  std::int32_t color = 0;
  std::int32_t key = 0;
  groups::nccl::unique_id leader{};
};

/// Memory that the ranks of one communicator share, in several processes or one. Nothing of it has
/// a name: it is found by the process and the descriptor of who has made it.
class region {
public:
  static constexpr std::size_t chunk = 256 * 1024;      ///< of a collective, for each rank
  static constexpr std::size_t pair_chunk = 64 * 1024;  ///< of messages, for each pair
  static constexpr int most_ranks = 16;
  static constexpr int splits = 8;

  /// For others to open. Throws std::system_error.
  static groups::nccl::unique_id make();
  /// Null: it is gone.
  static std::shared_ptr<region> open(const groups::nccl::unique_id& id);
  ~region();
  region(const region&) = delete;
  region& operator=(const region&) = delete;

  struct rank_state {
    std::atomic<std::uint64_t> stage{0};  ///< barriers that it has come to
    std::atomic<std::uint32_t> joined{0};
    std::atomic<std::uint32_t> finalized{0};
    double scale = 1;  ///< of its premultiplied sum
    call_header call;
    split_wish wishes[splits];
  };

  /// Messages from one rank to another, a chunk at a time.
  struct pair_slot {
    std::atomic<std::uint32_t> full{0};
    std::uint64_t bytes = 0;
  };

  rank_state& of(int rank) noexcept;
  std::byte* data_of(int rank) noexcept;
  pair_slot& pair(int from, int to) noexcept;
  std::byte* data_of_pair(int from, int to) noexcept;

private:
  struct layout;
  explicit region(layout* at) : at_(at) {}

  layout* const at_;
};

}  // namespace troupe::test::nccl_double
