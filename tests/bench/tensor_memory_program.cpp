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
#include <fstream>
#include <functional>
#include <thread>

#include "tests/bench/memory_traces.hpp"
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

// Of this process, counted page by page: the kernel's own sums may be off by a megabyte.
std::size_t resident_now() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  while (file >> word)
    if (std::size_t kib = 0; word == "Rss:" && file >> kib) return kib * 1024;
  throw internal_error("/proc/self/smaps_rollup cannot be read");
}

// The most memory that the process has, above what it has before, while a program's blocks are
// taken, written and freed again.
measurement peak_of(const memory_trace& trace) {
  std::size_t in_use = 0, most_in_use = 0, at_most = 0;
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto [block, bytes] = trace[i];
    if (bytes > 0) {
      sizes.push_back(bytes);
      in_use += bytes;
    } else {
      in_use -= sizes[block];
    }
    if (in_use > most_in_use) most_in_use = in_use, at_most = i;
  }
  auto* const allocator = c10::GetCPUAllocator();
  std::vector<void*> blocks(sizes.size());
  std::fill(blocks.begin(), blocks.end(), nullptr);
  const auto every = trace.size() / 500 + 1;
  const auto before = resident_now();
  auto peak = before;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const auto [block, bytes] = trace[i];
    if (bytes > 0) {
      blocks[block] = allocator->raw_allocate(bytes);
      std::memset(blocks[block], 1, bytes);
    } else {
      allocator->raw_deallocate(blocks[block]);
    }
    if (i == at_most || i % every == 0 || i + 1 == trace.size())
      peak = std::max(peak, resident_now());
  }
  return {"bytes", static_cast<double>(peak - before), most_in_use};
}

const std::map<std::string, std::function<std::vector<measurement>(unsigned)>> rows = {
    {"allocator", allocator}, {"temporaries", temporaries}};

constexpr std::string_view of_a_trace = "arena_memory_";

std::vector<std::string> row_names() {
  std::vector<std::string> out;
  for (const auto& [name, measure] : rows) out.push_back(name);
  for (const auto& [name, program] : traced_programs())
    out.push_back(std::string(of_a_trace) + name);
  return out;
}

void run(const std::string& row, const std::string& which, unsigned threads,
         const std::string& file) {
  at::set_num_threads(1);
  memory_trace trace;
  if (row.starts_with(of_a_trace))
    trace = trace_of(traced_programs().at(row.substr(of_a_trace.size())));
  std::string why_not;
  if (which == "arena" && !transport::install_arena({}, why_not))
    throw internal_error("there is no arena: " + why_not);
  write(file, row, threads, trace.empty() ? rows.at(row)(threads) : std::vector{peak_of(trace)});
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  CLI::App program("Measures what memory for tensors costs.");
  std::string row, which = "arena", file;
  unsigned threads = 1;
  program.add_option("--row", row, "which")
      ->required()
      ->check(CLI::IsMember(troupe::bench::row_names()));
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
