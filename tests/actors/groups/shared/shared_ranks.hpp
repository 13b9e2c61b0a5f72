#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::groups::test {

using namespace std::chrono_literals;

/// Memory that the ranks of a group share: a control segment, and for each rank some in which its
/// tensors lie. Each rank maps all of it anew, so that no two have it at the same address.
class shared_ranks {
public:
  static constexpr std::size_t memory_of_rank = 1 << 20;

  explicit shared_ranks(int ranks, std::size_t area = 8192, std::string rules = {})
      : ranks_(ranks),
        area_(area),
        rules_(std::move(rules)),
        control_(control_segment::size_for(ranks, area)),
        file_(memfd_create("troupe-test", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes())) != 0)
      throw std::system_error(errno, std::generic_category(), "memfd");
    control_segment::create(map().first(control_), ranks, area);
  }
  ~shared_ranks() {
    for (const auto& one : mappings_) munmap(one.data(), one.size());
    close(file_);
  }
  shared_ranks(const shared_ranks&) = delete;
  shared_ranks& operator=(const shared_ranks&) = delete;

  int size() const { return ranks_; }

  /// All of it, at a new address; at one address under the thread sanitizer, which sees races by
  /// addresses.
  std::span<std::byte> map() {
#if defined(__SANITIZE_THREAD__)
    if (!mappings_.empty()) return mappings_.front();
#endif
    auto* at = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    return mappings_.emplace_back(static_cast<std::byte*>(at), bytes());
  }

  /// Not thread-safe, as `map` is not.
  shared_setup setup_of(int rank) {
    const auto all = map();
    shared_setup out;
    out.group = "test";
    out.rank = rank;
    out.size = ranks_;
    out.control = all.first(control_);
    out.area = area_;
    for (int p = 0; p < ranks_; ++p)
      out.memories.push_back(
          {all.data() + control_ + static_cast<std::size_t>(p) * memory_of_rank, memory_of_rank});
    const core_set cores[] = {usable_cores()};
    out.cores = count_cores(cores);
    out.ways = collective_ways::measured(ranks_, out.cores);
    out.ways.apply(rules_);
    if (rules_.find("cma=") != rules_.npos)
      out.readable_processes.assign(static_cast<std::size_t>(ranks_), getpid());
    if (area_ >= 16384) out.ways.piece = area_ / 4;  // several places for pieces
    return out;
  }

  /// Runs `f` as every rank, each on a thread of its own; returns what they threw, "" where
  /// nothing.
  std::vector<std::string> run(const std::function<void(shared_group&)>& f) {
    std::vector<shared_setup> setups;
    for (int p = 0; p < ranks_; ++p) setups.push_back(setup_of(p));
    std::vector<std::string> errors(static_cast<std::size_t>(ranks_));
    std::vector<std::thread> threads;
    for (std::size_t p = 0; p < setups.size(); ++p)
      threads.emplace_back([&, p] {
        try {
          shared_group group(std::move(setups[p]));
          f(group);
        } catch (const std::exception& e) {
          errors[p] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    return errors;
  }

  /// The memory of `rank`, by the mapping that the group of that rank has.
  static std::byte* memory_of(const shared_setup& setup, int rank) {
    return setup.memories[static_cast<std::size_t>(rank)].base;
  }

private:
  std::size_t bytes() const { return control_ + static_cast<std::size_t>(ranks_) * memory_of_rank; }

  const int ranks_;
  const std::size_t area_;
  const std::string rules_;
  const std::size_t control_;
  const int file_;
  std::vector<std::span<std::byte>> mappings_;
};

/// A tensor of floats at the beginning of a rank's own memory, filled with its rank.
inline tensor_view filled_tensor(const shared_setup& setup, int rank, std::int64_t count) {
  tensor_view out{shared_ranks::memory_of(setup, rank), c10::kFloat, count};
  std::fill_n(reinterpret_cast<float*>(out.data), count, static_cast<float>(rank));
  return out;
}

/// A signature as `signature_of` makes it.
inline operation_signature asked_for(operation_kind kind, std::uint64_t sequence,
                                     c10::ScalarType dtype = c10::kFloat, std::int64_t elements = 0,
                                     int root = 0, reduce_op reduction = reduce_op::sum) {
  operation_signature out;
  out.sequence = sequence;
  out.kind = kind;
  out.dtype = static_cast<std::int8_t>(dtype);
  out.elements = static_cast<std::uint64_t>(elements);
  if (has_root(kind)) out.root = root;
  if (reduces(kind)) out.reduction = reduction;
  return out;
}

}  // namespace troupe::groups::test
