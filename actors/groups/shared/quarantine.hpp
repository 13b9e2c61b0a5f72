#pragma once

#include <c10/core/Storage.h>

#include <functional>
#include <span>
#include <vector>

namespace at {
class Tensor;
}

namespace troupe::groups {

/// Memory of tensors that other ranks may still write after an operation has failed. It is not used
/// again while they may: the tensors, and all that share their storage, get fresh memory with what
/// the old one had. (What an operation that failed was to write is undefined.)
class quarantine {
public:
  /// Does no rank write any more?
  explicit quarantine(std::function<bool()> is_over) : is_over_(std::move(is_over)) {}
  /// Memory that may be written still is never given back.
  ~quarantine();
  quarantine(const quarantine&) = delete;
  quarantine& operator=(const quarantine&) = delete;

  void add(std::span<const at::Tensor> written);

  /// Gives back what it holds if nobody writes any more. True when it holds nothing.
  bool release();

private:
  const std::function<bool()> is_over_;
  std::vector<c10::DataPtr> held_;
};

}  // namespace troupe::groups
