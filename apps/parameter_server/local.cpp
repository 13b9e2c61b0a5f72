#include "troupe/apps/parameter_server/local.hpp"

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/parameter_server/batches.hpp"

namespace parameter_server {

network train_locally(const digits& some, const hyperparameters& chosen,
                      const std::function<void(double)>& watch) {
  const auto generator = common::make_generator(chosen.seed);
  network model(generator);
  batches dealt(some, chosen.batch_size, generator);
  for (std::int64_t step = 0; step < chosen.epochs * dealt.count(); ++step) {
    watch(model.compute_gradients(dealt.next()));
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters())
      parameter.sub_(parameter.grad(), chosen.learning_rate);
  }
  return model;
}

}  // namespace parameter_server
