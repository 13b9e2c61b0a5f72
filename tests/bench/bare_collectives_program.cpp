// bare-collectives: what collectives of one host cost with no library around them, the limit of the
// rows of collectives. Forks the ranks, which share one mapping, each on a core of its own while
// there are enough of them:
//   bare-collectives --row all_reduce,barrier --ranks 2 --json FILE
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <functional>
#include <map>
#include <stdexcept>

#include "tests/bench/bare_collectives.hpp"
#include "tests/bench/collective_plan.hpp"
#include "troupe/actors/groups/shared/ways.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace troupe::bench {
namespace {

constexpr int most_times = 3000;
constexpr std::size_t huge_page = 2 << 20;
constexpr std::size_t largest = 64 << 20;

struct shared_state {
  bare_exchange exchange;
  double taken[most_bare_ranks][most_times];
};

struct bare_case {
  std::function<void()> write, run;
  std::function<bool()> right;
};

std::size_t in_pages(std::size_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

/// What all ranks map, in one file of memory: before they are forked.
class bare_memory {
public:
  explicit bare_memory(int ranks) {
    const auto output = in_pages(largest * static_cast<std::size_t>(ranks));
    const auto state = in_pages(sizeof(shared_state));
    const auto bytes = state + static_cast<std::size_t>(ranks) * (largest + output);
    const int file = memfd_create("troupe-bare", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("no memory for the tensors");
    auto* at = static_cast<std::byte*>(
        mmap(nullptr, bytes + huge_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    at += in_pages(reinterpret_cast<std::uintptr_t>(at)) - reinterpret_cast<std::uintptr_t>(at);
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
      throw std::runtime_error("the memory cannot be mapped");
    for (std::size_t i = 0; i < bytes; i += huge_page) at[i] = std::byte{0};
    madvise(at, bytes, MADV_COLLAPSE);
    this->state = reinterpret_cast<shared_state*>(at);
    for (int p = 0; p < ranks; ++p) {
      inputs[p] = reinterpret_cast<float*>(at + state + static_cast<std::size_t>(p) * largest);
      outputs[p] = reinterpret_cast<float*>(at + state + static_cast<std::size_t>(ranks) * largest +
                                            static_cast<std::size_t>(p) * output);
    }
  }

  shared_state* state;
  float* inputs[most_bare_ranks];
  float* outputs[most_bare_ranks];
};

class bare_rank {
public:
  bare_rank(const bare_memory& memory, int rank, int ranks, int cores)
      : memory_(memory),
        rank_(rank),
        ranks_(ranks),
        does_(memory.state->exchange, rank, ranks, memory.inputs, memory.outputs, ranks > cores,
              groups::last_cache_bytes()) {}

  /// The same on all ranks.
  std::vector<measurement> row(const std::string& name) {
    const auto what = timed_operation(name);
    if (what == "barrier") return {once(what, 0)};
    std::vector<measurement> out;
    for (const auto bytes : collective_sizes)
      if (is_timed(name, bytes)) out.push_back(once(what, bytes));
    return out;
  }

private:
  float* input() const { return memory_.inputs[rank_]; }
  float* output() const { return memory_.outputs[rank_]; }

  void fill(float value, std::int64_t elements) const { std::fill_n(input(), elements, value); }

  bare_case one(const std::string& name, std::size_t bytes) {
    const collective_shape shape(bytes, ranks_);
    const auto k = static_cast<std::size_t>(shape.elements);
    const auto part = static_cast<std::size_t>(shape.part);
    const auto last = static_cast<float>(ranks_ - 1);
    if (name == "barrier") return {[] {}, [this] { does_.barrier(); }, [] { return true; }};
    if (name == "all_reduce")
      return {[=, this] { fill(1, shape.elements); }, [=, this] { does_.all_reduce(k); },
              [=, this] { return input()[k - 1] == last + 1; }};
    if (name == "broadcast")
      return {[=, this] { fill(static_cast<float>(rank_), shape.elements); },
              [=, this] { does_.broadcast(k); }, [=, this] { return input()[k - 1] == 0; }};
    if (name == "broadcast_rewrite")
      return {[=, this] { fill(static_cast<float>(rank_), shape.elements); },
              [=, this] {
                does_.broadcast(k);
                fill(2, shape.elements);
              },
              [=, this] { return input()[k - 1] == 2; }};
    if (name == "all_gather" || name == "all_gather_list")
      return {[=, this] {
                fill(static_cast<float>(rank_), shape.elements);
                read(k * static_cast<std::size_t>(ranks_));
              },
              [=, this] { does_.all_gather(k); },
              [=, this] { return output()[k * static_cast<std::size_t>(ranks_) - 1] == last; }};
    const auto all_parts = static_cast<std::int64_t>(part) * ranks_;
    if (name == "reduce_scatter")
      return {[=, this] {
                fill(1, all_parts);
                read(part);
              },
              [=, this] { does_.reduce_scatter(part); },
              [=, this] { return output()[part - 1] == last + 1; }};
    if (name == "all_to_all")
      return {[=, this] {
                fill(static_cast<float>(rank_), all_parts);
                read(static_cast<std::size_t>(all_parts));
              },
              [=, this] { does_.all_to_all(part); },
              [=, this] { return output()[all_parts - 1] == last; }};
    throw std::runtime_error("no such row: " + name);
  }

  // A line at a time, as whoever uses an output does.
  void read(std::size_t elements) const {
    float sum = 0;
    for (std::size_t i = 0; i < elements; i += 16) sum += output()[i];
    volatile float sink = sum;
    static_cast<void>(sink);
  }

  // Rows may share it.
  measurement once(const std::string& what, std::size_t bytes) {
    const auto [at, is_new] = done_.try_emplace({what, bytes});
    if (is_new) at->second = measured(one(what, bytes), bytes);
    return at->second;
  }

  void time(const bare_case& what, const collective_effort& how) {
    for (int i = -how.warm_up; i < how.times; ++i) {
      what.write();
      does_.barrier();
      const auto before = clock::now();
      what.run();
      if (i >= 0) memory_.state->taken[rank_][i] = seconds_since(before);
    }
    if (!what.right()) throw std::runtime_error("a result is wrong");
    does_.barrier();
  }

  measurement measured(const bare_case& what, std::size_t bytes) {
    constexpr auto probe = collective_effort::probe();
    time(what, probe);
    const auto how = collective_effort::of(percentile(slowest(probe.times), 0));
    does_.barrier();
    time(what, how);
    auto out = times_of(slowest(how.times), bytes);
    does_.barrier();
    return out;
  }

  std::vector<double> slowest(int times) const {
    std::vector<double> out(static_cast<std::size_t>(times));
    for (std::size_t i = 0; i < out.size(); ++i)
      for (int p = 0; p < ranks_; ++p) out[i] = std::max(out[i], memory_.state->taken[p][i]);
    return out;
  }

  const bare_memory& memory_;
  const int rank_, ranks_;
  bare_collectives does_;
  std::map<std::pair<std::string, std::size_t>, measurement> done_;
};

void bind_to(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

void run_rank(const bare_memory& memory, int rank, int ranks, const std::vector<std::string>& rows,
              const std::string& file) {
  const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  bind_to(rank % cores);
  bare_rank here(memory, rank, ranks, cores);
  std::map<std::string, std::vector<measurement>> measured;
  for (const auto& one : rows) measured[one] = here.row(one);
  if (rank == 0) write_rows(file, static_cast<std::uint32_t>(ranks), measured);
}

int run(int ranks, const std::vector<std::string>& rows, const std::string& file) {
  const bare_memory memory(ranks);
  std::vector<pid_t> children;
  for (int p = 0; p < ranks; ++p) {
    const auto child = fork();
    if (child == 0) try {
        run_rank(memory, p, ranks, rows, file);
        _exit(0);
      } catch (const std::exception& failure) {
        fmt::print(stderr, "bare-collectives {}: {}\n", p, failure.what());
        _exit(1);
      }
    children.push_back(child);
  }
  // The others wait for ever for one that has failed.
  int bad = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    wait(&status);
    if (status == 0 || bad != 0) continue;
    bad = 1;
    for (const auto child : children) kill(child, SIGKILL);
  }
  return bad;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  int ranks = 2;
  std::vector<std::string> rows;
  std::string file;
  CLI::App app("what collectives of one host cost with no library around them");
  app.add_option("--row", rows, "which, separated by commas")->delimiter(',')->required();
  app.add_option("--ranks", ranks)->check(CLI::Range(2, troupe::bench::most_bare_ranks));
  app.add_option("--json", file, "where the measurements go")->required();
  CLI11_PARSE(app, argc, argv);
  try {
    return troupe::bench::run(ranks, rows, file);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "bare-collectives: {}\n", failure.what());
    return 1;
  }
}
