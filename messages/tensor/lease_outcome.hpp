#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace troupe {

/// What a transport hears from whoever used a leased payload (transport.hpp), when that is dropped.
struct lease_outcome {
  virtual ~lease_outcome() = default;

  std::atomic<bool> could_not_open{false};  ///< the memory that it is for
};

/// The deleter of such a payload's pointer, which is null.
struct lease_deleter {
  std::shared_ptr<lease_outcome> outcome;

  void operator()(std::byte*) noexcept { outcome.reset(); }
};

}  // namespace troupe
