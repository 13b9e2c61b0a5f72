#pragma once

#include "troupe/apps/batch/parameter_server.hpp"

namespace batch {

/// What a trainer is to do.
struct training {
  troupe::rref<parameter_server> server;
  std::uint32_t trainer;  ///< its number, from 0
  network_shape shape;
  std::uint64_t seed;  ///< of the job: of the task to be learnt, and with the number of the samples
  std::int32_t rounds;
  std::int32_t samples;  ///< in each round
  bool together;         ///< with the other trainers, or a step for each gradient
};
TROUPE_MESSAGE(training, server, trainer, shape, seed, rounds, samples, together)

/// Its result.
struct training_result {
  double first_loss;  ///< mean of the first tenth of the rounds
  double last_loss;   ///< mean of the last tenth
};
TROUPE_MESSAGE(training_result, first_loss, last_loss)

/// Trains on this node, with the model of a server: in each round it computes the gradients of a
/// few samples and gets the model that has taken them in. The samples are made up: normal inputs,
/// which a linear function that follows from the seed sorts into classes.
training_result train(const training& task);

}  // namespace batch
