#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/parameter_server/digits.hpp"
#include "troupe/apps/parameter_server/server.hpp"

namespace hogwild {

TROUPE_MESSAGE(digits, images, labels)

/// What a trainer is to do.
struct training {
  troupe::rref<parameter_server> server;
  digits share;        ///< what it learns from
  std::uint64_t seed;  ///< of the order of the digits
  std::int32_t epochs;
  std::int64_t batch_size;
};
TROUPE_MESSAGE(training, server, share, seed, epochs, batch_size)

/// Trains on this node: for each batch it computes gradients with the parameters that it has, sends
/// them to the server, and goes on with the parameters that come back. The loss of the last batch.
double train(const training& task);

}  // namespace hogwild
