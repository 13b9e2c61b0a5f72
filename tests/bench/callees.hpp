#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <troupe/troupe.hpp>

namespace troupe::bench {

// What rank 1 serves.

void nothing();
void take(const at::Tensor& x);
at::Tensor echo(const at::Tensor& x);

/// Adds 1, in place, and returns `x`.
at::Tensor add_once(const at::Tensor& x);
double sum_of(const at::Tensor& x);

/// Adds 1 two hundred times, in place, and returns `x`.
at::Tensor add_200_times(const at::Tensor& x);

void sleep_for(double seconds);
void compute_for(double seconds);

/// Of this process, since its start.
double processor_seconds();

/// Calls the next rank for so many seconds with so many calls under way; returns how many were
/// answered.
std::uint64_t keep_calling(double seconds, std::uint32_t outstanding);

/// Of this process.
std::size_t resident_bytes();

/// Values of this node that rrefs refer to.
std::size_t values_here();

/// Distributed autograd contexts in which this node takes part.
std::size_t contexts_here();

/// Waits, without a thread, for `release_all`.
troupe::task<std::int64_t> wait_for_release(std::int64_t x);
/// How many do.
std::int64_t waiting_here();
void release_all();

/// All-reduces 4 MiB again and again, until that fails.
void reduce_until_error(const troupe::process_group& group);
/// When it has failed here, in nanoseconds of the host's steady clock. Waits, for a minute at most.
std::int64_t collective_failed_at();

struct next_number {};
TROUPE_MESSAGE(next_number)

using counter = troupe::actor<troupe::answers<next_number, std::uint64_t>>;

/// An actor that counts its messages.
counter::behavior_type count(counter::pointer self);

struct piece {
  at::Tensor data;
};
TROUPE_MESSAGE(piece, data)
struct how_many {};
TROUPE_MESSAGE(how_many)

using swallower = troupe::actor<troupe::accepts<piece>, troupe::answers<how_many, std::uint64_t>>;

/// An actor that drops what it gets, and sleeps for so many seconds over the first piece.
swallower::behavior_type swallow(swallower::pointer self, double seconds);

}  // namespace troupe::bench
