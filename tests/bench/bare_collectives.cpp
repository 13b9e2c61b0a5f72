#include "tests/bench/bare_collectives.hpp"

#include <emmintrin.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstring>

// Compiled for the vectors of this machine's processor, as the kernels of every library are.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TROUPE_BARE_KERNEL \
  __attribute__((target_clones("default", "avx2", "avx512f"), optimize("O3")))
#else
#define TROUPE_BARE_KERNEL
#endif

namespace troupe::bench {

namespace {

// Slices begin on borders of two cache lines.
struct bare_slice {
  bare_slice(std::size_t elements, int rank, int ranks)
      : begin(border(elements, rank, ranks)),
        end(rank + 1 == ranks ? elements : border(elements, rank + 1, ranks)) {}

  static std::size_t border(std::size_t elements, int rank, int ranks) {
    return elements * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks) / 32 * 32;
  }
  std::size_t size() const { return end - begin; }

  std::size_t begin, end;
};

// Both results may be where the values were.
TROUPE_BARE_KERNEL void bare_sum_of_two(const float* a, const float* b, float* x, float* y,
                                        std::size_t count) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) x[i] = y[i] = a[i] + b[i];
}

TROUPE_BARE_KERNEL void bare_sum(const float* a, const float* b, float* __restrict to,
                                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

TROUPE_BARE_KERNEL void bare_add(const float* a, float* __restrict to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += a[i];
}

constexpr std::size_t bare_block = 1024;  // floats, which stay in the first cache

// Of any number of tensors, into as many or one.
void bare_sum_of_many(const float* const* from, int ranks, float* const* to, int results,
                      std::size_t count) {
  if (ranks == 2) {
    if (results == 2)
      bare_sum_of_two(from[0], from[1], to[0], to[1], count);
    else
      bare_sum(from[0], from[1], to[0], count);
    return;
  }
  alignas(64) float block[bare_block];
  for (std::size_t at = 0; at < count; at += bare_block) {
    const auto here = std::min(bare_block, count - at);
    bare_sum(from[0] + at, from[1] + at, block, here);
    for (int p = 2; p < ranks; ++p) bare_add(from[p] + at, block, here);
    for (int p = 0; p < results; ++p) std::memcpy(to[p] + at, block, here * sizeof(float));
  }
}

// Past the caches: for what nobody reads soon, where all tensors are larger than the caches.
void bare_stream(float* to, const float* from, std::size_t count) {
  std::size_t i = 0;
  for (; i < count && reinterpret_cast<std::uintptr_t>(to + i) % 16 != 0; ++i) to[i] = from[i];
  for (; i + 16 <= count; i += 16)
    for (std::size_t k = 0; k < 16; k += 4) _mm_stream_ps(to + i + k, _mm_loadu_ps(from + i + k));
  for (; i < count; ++i) to[i] = from[i];
  _mm_sfence();
}

void bare_copy(float* to, const float* from, std::size_t count, bool past_caches) {
  if (past_caches)
    bare_stream(to, from, count);
  else
    std::memcpy(to, from, count * sizeof(float));
}

}  // namespace

void bare_collectives::show(float value) {
  ++step_;
  const auto word = std::uint64_t{std::bit_cast<std::uint32_t>(value)} << 32 | step_;
  shared_.lines[rank_][step_ % 2].word.store(word, std::memory_order_release);
}

void bare_collectives::wait_for(int other) const {
  const auto& line = shared_.lines[other][step_ % 2].word;
  for (;;) {
    const auto word = line.load(std::memory_order_acquire);
    // The root of a broadcast, which waits for nobody, may be a step ahead.
    if (static_cast<std::int32_t>(static_cast<std::uint32_t>(word) - step_) >= 0) return;
    if (crowded_)
      sched_yield();
    else
      _mm_pause();
  }
}

void bare_collectives::step(float value) {
  show(value);
  for (int p = 0; p < ranks_; ++p)
    if (p != rank_) wait_for(p);
}

float bare_collectives::shown(int other) const {
  const auto word = shared_.lines[other][step_ % 2].word.load(std::memory_order_relaxed);
  return std::bit_cast<float>(static_cast<std::uint32_t>(word >> 32));
}

void bare_collectives::box(const float* from, std::size_t elements) {
  // The area of the step that begins now.
  std::memcpy(shared_.areas[rank_][(step_ + 1) % 2], from, elements * sizeof(float));
  step(0);
}

void bare_collectives::all_reduce(std::size_t elements) {
  auto* const mine = inputs_[rank_];
  const float* from[most_bare_ranks] = {};
  if (elements == 1) {
    step(*mine);
    float sum = shown(0);
    for (int p = 1; p < ranks_; ++p) sum += shown(p);
    *mine = sum;
    return;
  }
  const auto bytes = elements * sizeof(float);
  if (bytes <= bare_exchange::area_bytes / 2) {
    box(mine, elements);
    for (int p = 0; p < ranks_; ++p) from[p] = reinterpret_cast<const float*>(area(p));
    bare_sum_of_many(from, ranks_, &mine, 1, elements);
    return;
  }
  step(0);
  const bare_slice slice(elements, rank_, ranks_);
  float* to[most_bare_ranks] = {};
  for (int p = 0; p < ranks_; ++p) from[p] = to[p] = inputs_[p] + slice.begin;
  bare_sum_of_many(from, ranks_, to, ranks_, slice.size());
  step(0);
}

void bare_collectives::broadcast(std::size_t elements) {
  auto* const mine = inputs_[rank_];
  const auto bytes = elements * sizeof(float);
  if (bytes <= bare_exchange::area_bytes) {
    // The root waits for nobody: whoever calls this has a barrier before the next operation.
    if (rank_ == 0 && elements > 1) std::memcpy(shared_.areas[0][(step_ + 1) % 2], mine, bytes);
    show(*mine);
    if (rank_ == 0) return;
    wait_for(0);
    if (elements > 1)
      std::memcpy(mine, area(0), bytes);
    else
      *mine = shown(0);
    return;
  }
  step(0);
  const bare_slice slice(elements, rank_, ranks_);
  const bool past_caches = streams(elements * static_cast<std::size_t>(ranks_));
  for (int p = 1; p < ranks_; ++p)
    bare_copy(inputs_[p] + slice.begin, inputs_[0] + slice.begin, slice.size(), past_caches);
  step(0);
}

void bare_collectives::all_gather(std::size_t elements) {
  auto* const to = outputs_[rank_];
  const auto bytes = elements * sizeof(float);
  if (bytes <= bare_exchange::area_bytes) {
    box(inputs_[rank_], elements);
    for (int p = 0; p < ranks_; ++p)
      std::memcpy(to + static_cast<std::size_t>(p) * elements, area(p), bytes);
    return;
  }
  step(0);
  const auto n = static_cast<std::size_t>(ranks_);
  for (int q = 0; q < ranks_; ++q) {
    const auto p = (rank_ + q) % ranks_;
    bare_copy(to + static_cast<std::size_t>(p) * elements, inputs_[p], elements,
              streams(elements * n * (n + 1)));
  }
  step(0);
}

void bare_collectives::reduce_scatter(std::size_t elements) {
  const auto n = static_cast<std::size_t>(ranks_);
  const auto offset = static_cast<std::size_t>(rank_) * elements;
  const float* from[most_bare_ranks] = {};
  auto* to = outputs_[rank_];
  const bool small = elements * n * sizeof(float) <= bare_exchange::area_bytes / 2;
  if (small)
    box(inputs_[rank_], elements * n);
  else
    step(0);
  for (int p = 0; p < ranks_; ++p)
    from[p] = (small ? reinterpret_cast<const float*>(area(p)) : inputs_[p]) + offset;
  bare_sum_of_many(from, ranks_, &to, 1, elements);
  if (!small) step(0);
}

void bare_collectives::all_to_all(std::size_t elements) {
  const auto n = static_cast<std::size_t>(ranks_);
  const auto offset = static_cast<std::size_t>(rank_) * elements;
  auto* const to = outputs_[rank_];
  const bool small = elements * n * sizeof(float) <= bare_exchange::area_bytes;
  if (small)
    box(inputs_[rank_], elements * n);
  else
    step(0);
  for (int q = 0; q < ranks_; ++q) {
    const auto p = (rank_ + q) % ranks_;
    const auto* from = small ? reinterpret_cast<const float*>(area(p)) : inputs_[p];
    bare_copy(to + static_cast<std::size_t>(p) * elements, from + offset, elements,
              streams(elements * n * n * 2));
  }
  if (!small) step(0);
}

}  // namespace troupe::bench
