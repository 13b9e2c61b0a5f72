#pragma once

#include <condition_variable>
#include <mutex>

#include "transport/store/store.hpp"
#include "transport/store/store_state.hpp"

namespace troupe::transport {

/// A store in this process's memory, for nodes that live in one process.
class hash_store final : public store {
public:
  using store::set;
  void set(const std::string& key, std::span<const std::byte> value) override;
  bytes get(const std::string& key, milliseconds timeout = default_store_timeout) override;
  void wait(std::span<const std::string> keys,
            milliseconds timeout = default_store_timeout) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override;
  bool delete_key(const std::string& key) override;
  std::uint64_t num_keys() override;
  bool check(std::span<const std::string> keys) override;

private:
  void wait_locked(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys,
                   milliseconds timeout);

  std::mutex mutex_;
  std::condition_variable changed_;
  store_state state_;
};

}  // namespace troupe::transport
