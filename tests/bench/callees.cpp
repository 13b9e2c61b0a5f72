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

at::Tensor add_once(const at::Tensor& x) {
  x.add_(1);
  return x;
}

double sum_of(const at::Tensor& x) { return x.sum().item<double>(); }

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

std::size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      std::size_t kib = 0;
      status >> kib;
      return kib << 10;
    }
  throw internal_error("/proc/self/status has no VmRSS");
}

std::size_t values_here() { return this_node().debug_info().owner_rrefs; }

std::size_t contexts_here() { return this_node().debug_info().autograd_contexts; }

namespace {

// Of those that wait; replaced when they are released.
struct gate_of_many {
  troupe::promise<void> open;
  troupe::future<void> opened = open.get_future();
};
std::mutex gate_mutex;
std::shared_ptr<gate_of_many> gate_here = std::make_shared<gate_of_many>();
std::atomic<std::int64_t> waiting{0};

std::shared_ptr<gate_of_many> current_gate() {
  const std::lock_guard lock(gate_mutex);
  return gate_here;
}

}  // namespace

troupe::task<std::int64_t> wait_for_release(std::int64_t x) {
  ++waiting;
  co_await current_gate()->opened;
  --waiting;
  co_return x;
}

std::int64_t waiting_here() { return waiting; }

void release_all() {
  auto old = std::make_shared<gate_of_many>();
  {
    const std::lock_guard lock(gate_mutex);
    old.swap(gate_here);
  }
  old->open.set_value();
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
