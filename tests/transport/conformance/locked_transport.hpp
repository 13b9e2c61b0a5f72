#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "troupe/transport/transport.hpp"

namespace troupe::transport::test {

/// Lets threads use transports that share what has no locks, one call at a time.
class locked_transport : public transport {
public:
  locked_transport(std::shared_ptr<std::mutex> mutex, std::unique_ptr<transport> inner)
      : mutex_(std::move(mutex)), inner_(std::move(inner)) {}

  ~locked_transport() override {
    const std::lock_guard lock(*mutex_);
    inner_.reset();
  }

  std::vector<std::byte> address() const override {
    const std::lock_guard lock(*mutex_);
    return inner_->address();
  }
  void add_peer(rank_t peer, std::span<const std::byte> address) override {
    const std::lock_guard lock(*mutex_);
    inner_->add_peer(peer, address);
  }
  bool send(rank_t peer, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override {
    const std::lock_guard lock(*mutex_);
    return inner_->send(peer, order, std::move(envelope), std::move(payloads));
  }
  unsigned progress() override {
    const std::lock_guard lock(*mutex_);
    return inner_->progress();
  }
  int event_fd() const override {
    const std::lock_guard lock(*mutex_);
    return inner_->event_fd();
  }
  bool arm() override {
    const std::lock_guard lock(*mutex_);
    return inner_->arm();
  }
  void wake() override {
    const std::lock_guard lock(*mutex_);
    inner_->wake();
  }
  bool idle() const override {
    const std::lock_guard lock(*mutex_);
    return inner_->idle();
  }
  void close_peer(rank_t peer, bool force) override {
    const std::lock_guard lock(*mutex_);
    inner_->close_peer(peer, force);
  }
  std::vector<route> routes() const override {
    const std::lock_guard lock(*mutex_);
    return inner_->routes();
  }
  counters count() const override {
    const std::lock_guard lock(*mutex_);
    return inner_->count();
  }

private:
  const std::shared_ptr<std::mutex> mutex_;
  std::unique_ptr<transport> inner_;
};

/// `make` is called under the lock as well.
template <class Make>
std::unique_ptr<transport> make_locked_transport(const std::shared_ptr<std::mutex>& mutex,
                                                 Make make) {
  const std::lock_guard lock(*mutex);
  return std::make_unique<locked_transport>(mutex, make());
}

}  // namespace troupe::transport::test
