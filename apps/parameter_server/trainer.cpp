#include "troupe/apps/parameter_server/trainer.hpp"

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/apps/parameter_server/batches.hpp"
#include "troupe/apps/parameter_server/network.hpp"

namespace parameter_server {

double train(const training& task) {
  const auto generator = common::make_generator(task.seed);
  network model(generator);
  batches dealt(task.share, task.batch_size, generator);
  common::adopt(model, task.server.rpc_sync<&hogwild_server::fetch>());
  double loss = 0;
  for (std::int64_t step = 0; step < task.epochs * dealt.count(); ++step) {
    loss = model.compute_gradients(dealt.next());
    common::adopt(model, task.server.rpc_sync<&hogwild_server::update_and_fetch>(
                             common::gradients_of(model)));
  }
  return loss;
}

}  // namespace parameter_server
