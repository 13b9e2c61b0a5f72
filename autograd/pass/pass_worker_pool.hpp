#pragma once

#include <mutex>
#include <vector>

#include "troupe/autograd/context/pass_worker.hpp"

namespace troupe {

class node_core;

}  // namespace troupe

namespace troupe::autograd::detail {

/// The actors that run a node's passes. Making and ending one costs more than a small pass does, so
/// an actor whose context is over works for a later one. Thread-safe.
class pass_worker_pool final : public pass_workers {
public:
  explicit pass_worker_pool(node_core& node) : node_(node) {}

  pass_worker take(std::shared_ptr<participant> part) override;
  void take_back(pass_worker&& one) noexcept override;
  std::size_t count_free() override;
  void close() override;

  static constexpr std::size_t most_idle = 64;

private:
  node_core& node_;
  std::mutex mutex_;
  bool closed_ = false;
  std::vector<pass_worker> idle_;
};

}  // namespace troupe::autograd::detail
