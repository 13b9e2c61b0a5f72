#include "troupe/apps/pipeline/learner.hpp"

namespace pipeline {

std::vector<float> learn(learner& who, batches& dealt, std::int64_t steps, std::size_t in_flight,
                         const std::function<void(double loss, std::int64_t images)>& watch) {
  std::vector<float> losses;
  std::deque<std::int64_t> under_way;  // sizes
  const auto finish = [&] {
    const double loss = who.finish();
    losses.push_back(static_cast<float>(loss));
    watch(loss, under_way.front());
    under_way.pop_front();
  };
  for (std::int64_t i = 0; i < steps; ++i) {
    if (under_way.size() == in_flight) finish();
    const auto next = dealt.next();
    who.begin(next);
    under_way.push_back(next.size());
  }
  while (!under_way.empty()) finish();
  return losses;
}

double accuracy(learner& who, const digits& some) {
  const auto right = who.scores(some.images).argmax(1).eq(some.labels);
  return right.to(at::kDouble).mean().item<double>();
}

}  // namespace pipeline
