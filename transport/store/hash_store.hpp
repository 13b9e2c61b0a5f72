#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/store_state.hpp"

namespace troupe::transport {

/// A store in this process's memory, for nodes and threads of one process. It lives as long as the
/// last of its clones.
class hash_store final : public store {
public:
  hash_store() : hash_store(std::make_shared<shared>()) {}

  using store::append;
  using store::get;
  using store::multi_get;
  using store::queue_push;
  using store::queue_try_pop;
  using store::set;
  using store::wait;
  void set(const std::string& key, std::span<const std::byte> value) override;
  bytes get(const std::string& key, milliseconds timeout) override;
  void wait(std::span<const std::string> keys, milliseconds timeout) override;
  bool check(std::span<const std::string> keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  bytes compare_set(const std::string& key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override;
  void append(const std::string& key, std::span<const std::byte> value) override;
  bool delete_key(const std::string& key) override;
  std::uint64_t num_keys() override;
  std::vector<bytes> multi_get(std::span<const std::string> keys, milliseconds timeout) override;
  void multi_set(std::span<const std::string> keys, std::span<const bytes> values) override;
  void queue_push(const std::string& key, std::span<const std::byte> value) override;
  std::optional<bytes> queue_try_pop(const std::string& key, milliseconds timeout) override;
  std::uint64_t queue_len(const std::string& key) override;

private:
  std::vector<std::string> keys_with(const std::string& prefix) override;
  std::shared_ptr<store> make_clone() override;

  // State that all clones share.
  struct shared {
    std::mutex mutex;
    std::condition_variable changed;
    store_state state;
  };

  explicit hash_store(std::shared_ptr<shared> with) : shared_(std::move(with)) {}

  // Waits until `there` returns true; returns whether it did within the time.
  template <class There>
  bool wait_locked(std::unique_lock<std::mutex>& lock, milliseconds timeout, There&& there);

  bool wait_for_keys(std::unique_lock<std::mutex>& lock, milliseconds timeout,
                     std::span<const std::string> keys, bool queues);

  const std::shared_ptr<shared> shared_;
};

}  // namespace troupe::transport
