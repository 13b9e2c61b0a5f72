#pragma once

#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups::test {

/// How ranks that are forked from one process exchange bytes while a group is made.
class forked_exchange final : public member_exchange {
public:
  explicit forked_exchange(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {
    auto* at = mmap(nullptr, sizeof(board) * (ranks_ + 1), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("mmap");
    boards_ = static_cast<board*>(at);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&boards_[ranks_].all, &shared, static_cast<unsigned>(ranks));
  }
  ~forked_exchange() { munmap(boards_, sizeof(board) * (ranks_ + 1)); }
  forked_exchange(const forked_exchange&) = delete;
  forked_exchange& operator=(const forked_exchange&) = delete;

  void become(int rank) { rank_ = static_cast<std::size_t>(rank); }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    auto& own = boards_[rank_];
    if (mine.size() > sizeof own.bytes) throw std::runtime_error("too large a card");
    std::memcpy(own.bytes, mine.data(), mine.size());
    own.size = mine.size();
    wait_for_all();
    std::vector<std::vector<std::byte>> out;
    for (std::size_t p = 0; p < ranks_; ++p)
      out.emplace_back(boards_[p].bytes, boards_[p].bytes + boards_[p].size);
    wait_for_all();
    return out;
  }

  void wait_for_all() { pthread_barrier_wait(&boards_[ranks_].all); }

private:
  struct board {
    pthread_barrier_t all;
    std::size_t size;
    std::byte bytes[4096];
  };

  const std::size_t ranks_;
  std::size_t rank_ = 0;
  board* boards_ = nullptr;
};

}  // namespace troupe::groups::test
