#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/accelerator/accelerator.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test {

/// Devices of one type in a test that runs for several: "sim", or "cuda" where there are GPUs.
class device_kind {
public:
  explicit device_kind(std::string type) : type_(std::move(type)) {
    if (type_ == "sim") accelerator::install();
    count_ = detail::device_count(
        detail::place_of(c10::Device(type_ == "sim" ? "sim:0" : "cuda:0")).where);
  }

  int count() const { return count_; }
  bool simulated() const { return type_ == "sim"; }

  /// "sim:1". A machine with fewer devices has the same one several times.
  std::string operator()(int index) const {
    return type_ + ":" + std::to_string(index % (count_ > 0 ? count_ : 1));
  }

private:
  std::string type_;
  int count_ = 0;
};

}  // namespace troupe::test
