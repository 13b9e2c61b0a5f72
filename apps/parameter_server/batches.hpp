#pragma once

#include <ATen/core/Generator.h>

#include "troupe/apps/parameter_server/digits.hpp"

namespace parameter_server {

/// Deals digits out in batches, in a new random order each time that all have been dealt.
class batches {
public:
  /// Throws troupe::invalid_argument for a size below 1.
  batches(digits all, std::int64_t size, at::Generator generator);

  /// The next batch; the last one of an order may be smaller.
  digits next();

  /// How many batches an order is.
  std::int64_t count() const { return (all_.size() + size_ - 1) / size_; }

private:
  digits all_;
  std::int64_t size_;
  at::Generator generator_;
  at::Tensor order_;
  std::int64_t dealt_ = 0;
};

}  // namespace parameter_server
