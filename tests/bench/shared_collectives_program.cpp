// shared-collectives: what collectives of one host cost, beside bare programs that do the same with
// no library around: a flag for each rank, and the same kernels. Forks the ranks, each on a core of
// its own while there are enough; every rank rewrites its tensor between operations. A row's time
// is the slowest rank's, the median over all operations; ours and the bare one take turns.
//   shared-collectives --ranks 2 [--min 4] [--max 67108864] [--rules all_reduce:direct>=8192]
//   [--outside]
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <vector>

#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/actors/groups/shared/slices.hpp"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace troupe::bench {
namespace {

using namespace groups;

constexpr int most_times = 4000;
constexpr std::size_t huge = 2 << 20;
constexpr std::size_t area = 2 << 20;

struct alignas(64) bare_flag {
  std::atomic<std::uint64_t> word;
};
struct bare_state {
  bare_flag flags[most_ranks][2];
  double times[most_ranks][most_times];
  std::atomic<int> iterations;
};

struct choices {
  int ranks = 2;
  std::size_t smallest = 4, largest = 64 << 20;
  std::string rules;
  bool outside = false;
};

std::size_t whole(std::size_t bytes) { return (bytes + huge - 1) / huge * huge; }

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// All that the ranks share, mapped by each of them.
class bench_rank {
public:
  bench_rank(const choices& how, int rank, int file) : how_(how), rank_(rank) {
    const auto cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(rank % cores, &one);
    sched_setaffinity(0, sizeof one, &one);
    auto* at = static_cast<std::byte*>(
        mmap(nullptr, total(how) + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    at = reinterpret_cast<std::byte*>(whole(reinterpret_cast<std::uintptr_t>(at)));
    if (mmap(at, total(how), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
      _exit(3);
    madvise(at, total(how), MADV_POPULATE_WRITE);
    state_ = reinterpret_cast<bare_state*>(at);
    shared_setup setup;
    setup.group = "bench";
    setup.rank = rank;
    setup.size = how.ranks;
    setup.control = {at + whole(sizeof(bare_state)), control_segment::size_for(how.ranks, area)};
    setup.area = area;
    for (int p = 0; p < how.ranks; ++p) {
      auto* memory = at + memory_of(how, p);
      memories_.push_back(memory);
      setup.memories.push_back(how.outside ? rank_memory{}
                                           : rank_memory{memory, memory_bytes(how)});
    }
    setup.cores = cores;
    setup.ways = collective_ways::measured(how.ranks, cores);
    setup.ways.apply(how.rules);
    yields_ = how.ranks > cores;
    group_ = std::make_unique<shared_group>(std::move(setup));
  }

  static std::size_t memory_bytes(const choices& how) {
    return whole(how.largest) * (static_cast<std::size_t>(how.ranks) + 1);
  }
  static std::size_t memory_of(const choices& how, int rank) {
    return whole(sizeof(bare_state)) + whole(control_segment::size_for(how.ranks, area)) +
           static_cast<std::size_t>(rank) * memory_bytes(how);
  }
  static std::size_t total(const choices& how) { return memory_of(how, how.ranks); }

  void run() {
    row(
        "barrier", 0, [&] { ours(operation_kind::barrier); }, [&] { bare_barrier(); });
    for (std::size_t bytes = 4; bytes <= how_.largest; bytes *= 4) {
      if (bytes < how_.smallest) continue;
      const tensor_view t{input(rank_), c10::kFloat, static_cast<std::int64_t>(bytes / 4)};
      const auto n = static_cast<std::size_t>(how_.ranks);
      const reduction sum("all_reduce", reduce_op::sum, c10::kFloat);
      row(
          "all_reduce", bytes,
          [&] { group_->all_reduce(asked(operation_kind::all_reduce, t), t, 1, limit()); },
          [&] { bare_all_reduce(sum, bytes); });
      row(
          "broadcast", bytes,
          [&] { group_->broadcast(asked(operation_kind::broadcast, t), t, limit()); },
          [&] { bare_broadcast(bytes); });
      if (bytes % (4 * n) != 0) continue;
      std::vector<tensor_view> outputs, in_parts, out_parts;
      for (std::size_t p = 0; p < n; ++p) {
        outputs.push_back({output(rank_) + p * bytes, c10::kFloat, t.count});
        in_parts.push_back({t.data + p * bytes / n, c10::kFloat, t.count / static_cast<int>(n)});
        out_parts.push_back(
            {output(rank_) + p * bytes / n, c10::kFloat, t.count / static_cast<int>(n)});
      }
      row(
          "all_gather", bytes,
          [&] {
            group_->move(asked(operation_kind::all_gather, {}), {&t, 1}, outputs, limit());
          },
          [&] { bare_all_gather(bytes); });
      row("reduce_scatter", bytes,
          [&] {
            group_->reduce_scatter(asked(operation_kind::reduce_scatter, {}), in_parts,
                                   out_parts[0], 1, limit());
          },
          {});
      row("all_to_all", bytes,
          [&] {
            group_->move(asked(operation_kind::all_to_all, {}), in_parts, out_parts, limit());
          },
          {});
    }
  }

private:
  std::byte* input(int rank) { return memories_[static_cast<std::size_t>(rank)]; }
  std::byte* output(int rank) { return input(rank) + whole(how_.largest); }

  operation_signature asked(operation_kind kind, const tensor_view& t) {
    operation_signature out;
    out.sequence = ++sequence_;
    out.kind = kind;
    out.dtype = static_cast<std::int8_t>(c10::kFloat);
    out.elements = static_cast<std::uint64_t>(t.count);
    return out;
  }
  static time_limit limit() { return time_limit(std::chrono::seconds(60)); }
  void ours(operation_kind kind) { group_->barrier(asked(kind, {}), limit()); }

  void bare_barrier() {
    const auto step = ++step_;
    state_->flags[rank_][step % 2].word.store(step, std::memory_order_release);
    for (int p = 0; p < how_.ranks; ++p) {
      if (p == rank_) continue;
      while (state_->flags[p][step % 2].word.load(std::memory_order_acquire) != step)
        if (yields_)
          sched_yield();
        else
          __builtin_ia32_pause();
    }
  }
  void bare_all_reduce(const reduction& sum, std::size_t bytes) {
    bare_barrier();
    const auto s = slice_of(bytes, rank_, how_.ranks);
    const std::byte* from[most_ranks];
    std::byte* to[most_ranks];
    for (int p = 0; p < how_.ranks; ++p) from[p] = to[p] = input(p) + s.begin;
    const auto n = static_cast<std::size_t>(how_.ranks);
    sum.run({from, n}, {to, n}, static_cast<std::int64_t>(s.size() / 4));
    bare_barrier();
  }
  void bare_broadcast(std::size_t bytes) {
    bare_barrier();
    const auto s = slice_of(bytes, rank_, how_.ranks);
    for (int p = 1; p < how_.ranks; ++p)
      copy_bytes(input(p) + s.begin, input(0) + s.begin, s.size());
    bare_barrier();
  }
  void bare_all_gather(std::size_t bytes) {
    bare_barrier();
    for (int q = 0; q < how_.ranks; ++q) {
      const auto p = (rank_ + q) % how_.ranks;
      copy_bytes(output(rank_) + static_cast<std::size_t>(p) * bytes, input(p), bytes);
    }
    bare_barrier();
  }

  // Median of the slowest rank's times, in us.
  double time_of(std::size_t bytes, const std::function<void()>& f, int times) {
    for (int i = -3; i < times; ++i) {
      auto* x = reinterpret_cast<float*>(input(rank_));
      for (std::size_t k = 0; k < bytes / 4; ++k) x[k] = 1;
      bare_barrier();
      const auto begun = seconds_now();
      f();
      if (i >= 0) state_->times[rank_][i] = (seconds_now() - begun) * 1e6;
    }
    bare_barrier();
    std::vector<double> slowest(static_cast<std::size_t>(times));
    for (int i = 0; i < times; ++i)
      for (int p = 0; p < how_.ranks; ++p)
        slowest[static_cast<std::size_t>(i)] =
            std::max(slowest[static_cast<std::size_t>(i)], state_->times[p][i]);
    std::ranges::sort(slowest);
    bare_barrier();
    return slowest[slowest.size() / 2];
  }

  void row(const char* name, std::size_t bytes, const std::function<void()>& ours,
           const std::function<void()>& bare) {
    const auto probe = time_of(bytes, ours, 5);
    if (rank_ == 0)
      state_->iterations =
          std::clamp(static_cast<int>(20'000 / std::max(probe, 0.01)), 5, most_times);
    bare_barrier();
    const int times = state_->iterations;
    std::vector<double> a, b;
    for (int turn = 0; turn < 3; ++turn) {
      a.push_back(time_of(bytes, ours, times));
      if (bare) b.push_back(time_of(bytes, bare, times));
    }
    std::ranges::sort(a);
    std::ranges::sort(b);
    if (rank_ == 0) {
      fmt::print("{:<15} {:>9} B  ours {:>10.2f} us", name, bytes, a[1]);
      if (bare) fmt::print("  bare {:>10.2f} us", b[1]);
      fmt::print("\n");
      std::fflush(stdout);
    }
    bare_barrier();
  }

  const choices how_;
  const int rank_;
  bool yields_ = false;
  bare_state* state_ = nullptr;
  std::uint64_t step_ = 0, sequence_ = 0;
  std::vector<std::byte*> memories_;
  std::unique_ptr<shared_group> group_;
};

int run(const choices& how) {
  const int file = memfd_create("troupe-bench", MFD_CLOEXEC);
  const auto total = bench_rank::total(how);
  if (file < 0 || ftruncate(file, static_cast<off_t>(total)) != 0) return 2;
  auto* at = static_cast<std::byte*>(
      mmap(nullptr, total + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  at = reinterpret_cast<std::byte*>(whole(reinterpret_cast<std::uintptr_t>(at)));
  mmap(at, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
  for (std::size_t i = 0; i < total; i += huge) at[i] = std::byte{0};
  madvise(at, total, MADV_COLLAPSE);  // else 4 KiB pages
  control_segment::create(
      {at + whole(sizeof(bare_state)), control_segment::size_for(how.ranks, area)}, how.ranks,
      area);
  munmap(at, total);
  std::vector<pid_t> ranks;
  for (int p = 0; p < how.ranks; ++p) {
    const auto child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      bench_rank(how, p, file).run();
      _exit(0);
    }
    ranks.push_back(child);
  }
  int bad = 0;
  for (const auto child : ranks) {
    int status = 0;
    waitpid(child, &status, 0);
    bad |= status;
  }
  return bad != 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  troupe::bench::choices how;
  CLI::App app("what collectives of one host cost");
  app.add_option("--ranks", how.ranks)->check(CLI::Range(2, 64));
  app.add_option("--min", how.smallest, "bytes of a tensor");
  app.add_option("--max", how.largest);
  app.add_option("--rules", how.rules, "as in TROUPE_COLLECTIVES");
  app.add_flag("--outside", how.outside, "tensors lie where the others cannot reach them");
  CLI11_PARSE(app, argc, argv);
  return troupe::bench::run(how);
}
