#pragma once

#include <mutex>

#include "troupe/optim/client/scheduler_proxy.hpp"
#include "troupe/optim/state/archive_values.hpp"

namespace troupe::detail {

/// The learning rates that this node has set for a distributed optimizer, and whether its shards
/// have them. Copies of the optimizer share it. Thread-safe, except for what is done with the
/// proxy.
class learning_rate_sync : public std::enable_shared_from_this<learning_rate_sync> {
public:
  /// Rates on their way to the shards. They count as lost, and are sent again, unless `arrived` is
  /// called before this is destroyed.
  class delivery {
  public:
    delivery() = default;
    delivery(delivery&&) noexcept = default;
    delivery& operator=(delivery&&) = delete;
    ~delivery();

    /// Of all groups; empty: the shards have them already.
    const std::vector<double>& rates() const noexcept { return rates_; }

    /// All shards have them.
    void arrived() noexcept { from_.reset(); }

  private:
    friend class learning_rate_sync;
    delivery(std::shared_ptr<learning_rate_sync> from, std::vector<double> rates)
        : from_(std::move(from)), rates_(std::move(rates)) {}

    std::shared_ptr<learning_rate_sync> from_;  // null: nothing to report
    std::vector<double> rates_;
  };

  /// The proxy; made at the first use from the options of the groups.
  torch::optim::Optimizer& proxy(const optimizer_kind& kind,
                                 const std::vector<archive_values>& groups);

  /// The rates to send with the next request to all shards, if they have changed since the last
  /// one, or that one was lost.
  delivery next_delivery();

  /// The shards have these options now.
  void replace(const optimizer_kind& kind, const std::vector<archive_values>& groups);

private:
  void make(const optimizer_kind& kind, const std::vector<archive_values>& groups);
  std::vector<double> rates_now() const;
  void lost() noexcept;

  std::mutex mutex_;
  std::unique_ptr<scheduler_proxy> proxy_;
  std::vector<double> sent_;
  bool must_resend_ = false;
};

}  // namespace troupe::detail
