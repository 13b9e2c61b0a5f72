#pragma once

#include <mutex>
#include <optional>

#include "troupe/messages/base/function_ref.hpp"
#include "troupe/optim/client/scheduler_proxy.hpp"
#include "troupe/optim/shard/shard_messages.hpp"
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

    /// None changed: the shards have them already.
    const learning_rates& rates() const noexcept { return rates_; }

    /// All shards have them.
    void arrived() noexcept { from_.reset(); }

  private:
    friend class learning_rate_sync;
    delivery(std::shared_ptr<learning_rate_sync> from, learning_rates rates)
        : from_(std::move(from)), rates_(std::move(rates)) {}

    std::shared_ptr<learning_rate_sync> from_;  // null: nothing to report
    learning_rates rates_;
  };

  /// Makes a number that is unique in the job, for learning_rates::from.
  using id_maker = function_ref<std::uint64_t()>;

  /// The proxy; made at the first use from the options of the groups.
  torch::optim::Optimizer& proxy(const optimizer_kind& kind,
                                 const std::vector<archive_values>& groups);

  /// The rates to send with the next request to all shards: those that have changed since the last
  /// one, or were lost.
  delivery next_delivery(id_maker make_id);

  /// Sets the rate of a group, or of all, and returns what to send, in any case that rate: another
  /// node may have set another one meanwhile. Throws invalid_argument for a group that does not
  /// exist. Pre: the proxy has been made.
  delivery set(std::optional<std::size_t> group, double rate, id_maker make_id);

  /// The rate of a group. Throws and requires the same.
  double rate_of(std::size_t group) const;

  /// The shards have these options now.
  void replace(const optimizer_kind& kind, const std::vector<archive_values>& groups);

private:
  void make(const optimizer_kind& kind, const std::vector<archive_values>& groups);
  void take_rates();
  delivery collect(id_maker make_id);
  torch::optim::OptimizerOptions& options_of(std::size_t group) const;
  void lost(const learning_rates& rates) noexcept;

  // By group.
  struct sent_rate {
    double rate = 0;
    std::uint64_t number = 0;  // of the last delivery that had it
    bool must_resend = false;
  };

  mutable std::mutex mutex_;
  std::unique_ptr<scheduler_proxy> proxy_;
  std::vector<sent_rate> sent_;
  std::uint64_t id_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace troupe::detail
