#pragma once

#include <memory>

#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// A part of another store, whose keys and queues all begin with "PREFIX/". Its `num_keys` counts
/// the other's. Its timeout is initially the other's.
class prefix_store final : public store {
public:
  /// Throws invalid_argument without an `underlying` store.
  prefix_store(std::string prefix, std::shared_ptr<store> underlying);

  const std::shared_ptr<store>& underlying() const noexcept { return underlying_; }

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
  std::string full(const std::string& key) const;
  std::vector<std::string> full(std::span<const std::string> keys) const;

  std::string prefix_;
  std::shared_ptr<store> underlying_;
};

}  // namespace troupe::transport
