#pragma once

#include <memory>

#include "transport/store/store.hpp"

namespace troupe::transport {

/// A part of another store, whose keys all begin with "PREFIX/".
class prefix_store final : public store {
public:
  /// Throws invalid_argument without an `underlying` store.
  prefix_store(std::string prefix, std::shared_ptr<store> underlying);

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
  std::string full(const std::string& key) const;
  std::vector<std::string> full(std::span<const std::string> keys) const;

  std::string prefix_;
  std::shared_ptr<store> underlying_;
};

}  // namespace troupe::transport
