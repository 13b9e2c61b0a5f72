#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/parameter_server/digits.hpp"
#include "troupe/apps/parameter_server/server.hpp"

namespace parameter_server {

TROUPE_MESSAGE(digits, images, labels)

/// What a trainer is to do.
struct training {
  troupe::rref<hogwild_server> server;
  digits share;        ///< what it learns from
  std::uint64_t seed;  ///< of the order of the digits
  std::int32_t epochs;
  std::int64_t batch_size;
};
TROUPE_MESSAGE(training, server, share, seed, epochs, batch_size)

/// Trains on this node: for each batch it computes gradients with the parameters that it has, sends
/// them to the server, and continues with the parameters that come back. Returns the loss of the
/// last batch.
double train(const training& task);

}  // namespace parameter_server
