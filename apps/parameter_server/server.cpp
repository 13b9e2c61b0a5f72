#include "troupe/apps/parameter_server/server.hpp"

namespace parameter_server {

hogwild_server::hogwild_server(tensors start, double learning_rate)
    : parameters_(std::move(start)), learning_rate_(learning_rate) {}

tensors hogwild_server::update_and_fetch(const tensors& gradients) {
  common::require_like(parameters_, gradients);
  // No lock, and that is the point; see the class.
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].sub_(gradients[i], learning_rate_);
  ++updates_;
  return parameters_;
}

}  // namespace parameter_server
