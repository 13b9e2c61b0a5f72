#include "tests/bench/callees.hpp"

#include <ATen/ATen.h>
#include <sys/resource.h>

#include <deque>
#include <thread>

#include "tests/bench/timing.hpp"

namespace troupe::bench {

void nothing() {}

void take(const at::Tensor&) {}

at::Tensor echo(const at::Tensor& x) { return x; }

at::Tensor add_200_times(const at::Tensor& x) {
  for (int i = 0; i < 200; ++i) x.add_(1);
  return x;
}

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

void compute_for(double seconds) {
  auto matrix = at::rand({256, 256});
  const auto start = clock::now();
  while (seconds_since(start) < seconds) matrix = at::mm(matrix, matrix).clamp_(0, 1);
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto in_seconds = [](const timeval& t) { return t.tv_sec + t.tv_usec * 1e-6; };
  return in_seconds(used.ru_utime) + in_seconds(used.ru_stime);
}

std::uint64_t keep_calling(double seconds, std::uint32_t outstanding) {
  const auto here = this_node();
  const destination next((here.rank() + 1) % here.world_size());
  std::deque<future<void>> waiting;
  for (std::uint32_t i = 0; i < outstanding; ++i) waiting.push_back(here.rpc_async<&nothing>(next));
  std::uint64_t answered = 0;
  for (const auto start = clock::now(); seconds_since(start) < seconds; ++answered) {
    waiting.front().get();
    waiting.pop_front();
    waiting.push_back(here.rpc_async<&nothing>(next));
  }
  for (auto& call : waiting) call.get();
  return answered;
}

counter::behavior_type count(counter::pointer) {
  return {[n = std::uint64_t{0}](next_number) mutable { return ++n; }};
}

swallower::behavior_type swallow(swallower::pointer, double seconds) {
  auto pieces = std::make_shared<std::uint64_t>(0);
  return {[pieces, seconds](const piece&) {
            if (++*pieces == 1) sleep_for(seconds);
          },
          [pieces](how_many) { return *pieces; }};
}

}  // namespace troupe::bench
