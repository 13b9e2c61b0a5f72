#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/actors/groups/schedules/schedule.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe::groups::network {

/// Where the blocks of a schedule lie: `bounds` has the begin of each, and the end, in bytes of
/// `memory`. `element`: bytes that are not divided.
struct block_memory {
  std::byte* memory = nullptr;
  std::vector<std::size_t> bounds{};
  std::size_t element = 1;

  /// `bytes` in as many blocks, as equal as can be.
  static block_memory divided(std::byte* memory, std::size_t bytes, int blocks,
                              std::size_t element);
};

/// Carries a schedule out, after the entry. Every block is cut into `stripes` by the same shares,
/// each of which runs through the schedule by itself: while one is received, another one is
/// combined and a third one sent. `combine` adds bytes to what is there.
void run_schedule(collective_run& run, const schedules::schedule& plan, const block_memory& data,
                  std::size_t stripes,
                  function_ref<void(std::byte* here, std::span<const std::byte> more)> combine);

/// Into how many: of messages of `bytes`, the largest of the schedule.
std::size_t stripes_of(std::size_t bytes, std::size_t piece) noexcept;

}  // namespace troupe::groups::network
