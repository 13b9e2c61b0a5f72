// tensor-memory: what memory for tensors costs, from the arena or from libtorch's own allocator
// (over the malloc that is loaded). One process; measures and writes FILE:
//   tensor-memory --row allocator --allocator arena --threads 4 --json FILE
#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "tests/bench/timing.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::bench {
namespace {

constexpr std::size_t mib = 1 << 20;

// A block is taken, all of it is written, and it is freed.
void use_once(std::size_t size) {
  const auto block = c10::GetCPUAllocator()->allocate(size);
  std::memset(block.get(), 1, size);
}

// So many at a time that a clock does not count, on each of the threads at once: of one, the median
// over all threads.
measurement blocks_of(std::size_t size, unsigned threads) {
  const auto together = std::max<std::size_t>(1, 64 * 1024 / size);
  std::vector<std::vector<double>> taken(threads);
  std::barrier start(threads);
  const auto work = [&](unsigned which) {
    start.arrive_and_wait();
    taken[which] = call_times(
        [&] {
          for (std::size_t i = 0; i < together; ++i) use_once(size);
        },
        {.seconds = 1, .warm_up = 100});
  };
  std::vector<std::thread> running;
  for (unsigned i = 1; i < threads; ++i) running.emplace_back(work, i);
  work(0);
  for (auto& thread : running) thread.join();
  std::vector<double> all;
  for (const auto& one : taken)
    for (const auto seconds : one) all.push_back(seconds / static_cast<double>(together));
  return times_of(all, size);
}

std::vector<measurement> allocator(unsigned threads) {
  std::vector<measurement> measured;
  for (const std::size_t size : {std::size_t{64}, std::size_t{4} << 10, std::size_t{64} << 10, mib,
                                 4 * mib, 32 * mib, 64 * mib, std::size_t{400'000'000}})
    measured.push_back(blocks_of(size, threads));
  return measured;
}

std::vector<measurement> temporaries(unsigned) {
  std::vector<measurement> measured;
  for (const std::int64_t count : {4'000'000, 16'000'000}) {
    const auto a = at::ones({count}), b = at::ones({count}), c = at::ones({count});
    const auto taken = call_times([&] { at::mul(at::add(a, b), c); }, {.warm_up = 5});
    measured.push_back(times_of(taken, static_cast<std::size_t>(count) * sizeof(float)));
  }
  return measured;
}

const std::map<std::string, std::function<std::vector<measurement>(unsigned)>> rows = {
    {"allocator", allocator}, {"temporaries", temporaries}};

void run(const std::string& row, const std::string& which, unsigned threads,
         const std::string& file) {
  at::set_num_threads(1);
  std::string why_not;
  if (which == "arena" && !transport::install_arena({}, why_not))
    throw internal_error("there is no arena: " + why_not);
  write(file, row, threads, rows.at(row)(threads));
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  CLI::App program("Measures what memory for tensors costs.");
  std::string row, which = "arena", file;
  unsigned threads = 1;
  program.add_option("--row", row, "which")
      ->required()
      ->check(CLI::IsMember({"allocator", "temporaries"}));
  program.add_option("--allocator", which, "whose memory")
      ->check(CLI::IsMember({"arena", "default"}))
      ->capture_default_str();
  program.add_option("--threads", threads, "that take memory at once")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  program.add_option("--json", file, "where the measurements are written")->required();
  CLI11_PARSE(program, argc, argv);
  try {
    troupe::bench::run(row, which, threads, file);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "tensor-memory: {}\n", failure.what());
    return 1;
  }
}
