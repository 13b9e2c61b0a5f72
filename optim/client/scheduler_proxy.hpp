#pragma once

#include <mutex>

#include "troupe/optim/state/archive_values.hpp"

namespace troupe::detail {

/// An optimizer without parameters, whose groups have the options of a distributed one: schedulers
/// of libtorch change its learning rates.
class stand_in final : public torch::optim::Optimizer {
public:
  using torch::optim::Optimizer::Optimizer;
  /// Throws invalid_argument.
  at::Tensor step(LossClosure = nullptr) override {
    throw invalid_argument("a stand-in has no parameters: step the distributed optimizer");
  }
};

/// The stand-in of an optimizer, and what its shards have been told of it. Copies of the optimizer
/// share it. Thread-safe, but for what is done with the stand-in itself.
class rate_desk {
public:
  /// Made at the first use from the groups' options.
  torch::optim::Optimizer& local(const optimizer_kind& kind,
                                 const std::vector<archive_values>& groups);

  /// The rates of all groups, if they are not those that the shards know; else none.
  std::vector<double> news();

  /// From now on these groups; the shards know them.
  void replace(const optimizer_kind& kind, const std::vector<archive_values>& groups);

private:
  void make(const optimizer_kind& kind, const std::vector<archive_values>& groups);
  std::vector<double> rates_now() const;

  mutable std::mutex mutex_;
  std::unique_ptr<stand_in> local_;
  std::vector<double> told_;
};

}  // namespace troupe::detail
