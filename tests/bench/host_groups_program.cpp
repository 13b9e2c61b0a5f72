// host-groups: what operations of a group on one host cost through the library, and what the next
// rewriting of the tensors costs, which is where aliases are paid for. Forks the ranks. A row's
// times are the slowest rank's: the call, and the writes of all that the rank has sent or got; the
// median over all. That of send is half of the way there and back.
//   host-groups --op broadcast [--ranks 2] [--min 4] [--max 67108864] [--rules broadcast:lend>=0]
//   [--backend cpu:network]
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>
#include <vector>

namespace troupe::bench {
namespace {

constexpr int most_times = 4000;
constexpr int most_ranks = 16;

struct choices {
  std::string op = "all_reduce";
  int ranks = 2;
  std::size_t smallest = 4, largest = 64 << 20;
  std::string rules;
  std::string backend = "cpu:troupe";
  bool pinned = false;
};

struct shared_times {
  double call[most_ranks][most_times];
  double rewrite[most_ranks][most_times];
};

double microseconds_now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class bench_rank {
public:
  bench_rank(const choices& how, process_group group, shared_times& times)
      : how_(how), group_(std::move(group)), times_(times) {}

  void row(std::size_t bytes) {
    const auto count = static_cast<std::int64_t>(bytes / 4);
    const auto n = static_cast<std::int64_t>(how_.ranks);
    const auto mine = at::ones({count});
    std::vector<at::Tensor> written = {mine}, list;
    at::Tensor all;
    if (how_.op == "all_gather")
      for (int p = 0; p < how_.ranks; ++p) list.push_back(at::ones({count}));
    if (how_.op == "all_gather_into_tensor") all = at::ones({n * count});
    written.insert(written.end(), list.begin(), list.end());
    if (all.defined()) written.push_back(all);
    const int times = bytes < (64 << 10) ? most_times : bytes < (8 << 20) ? 300 : 20;
    for (int i = -5; i < times; ++i) {
      barrier(group_);
      const auto begun = microseconds_now();
      if (how_.op == "broadcast") broadcast(group_, mine, 0);
      if (how_.op == "all_reduce") all_reduce(group_, mine);
      if (how_.op == "all_gather") all_gather(group_, list, mine);
      if (all.defined()) all_gather_into_tensor(group_, all, mine);
      if (how_.op == "send") ping(mine);
      const auto ended = microseconds_now();
      barrier(group_);
      const auto rewrites = microseconds_now();
      for (const auto& one : written) one.fill_(1);
      const auto now = microseconds_now();
      if (i < 0) continue;
      times_.call[group_.rank()][i] = (ended - begun) / (how_.op == "send" ? 2 : 1);
      times_.rewrite[group_.rank()][i] = now - rewrites;
    }
    barrier(group_);
    if (group_.rank() == 0) {
      fmt::print("{} {:>9} B  call {:>10.2f} us  rewrite {:>10.2f} us\n", how_.op, bytes,
                 slowest(times_.call, times), slowest(times_.rewrite, times));
      std::fflush(stdout);
    }
    barrier(group_);
  }

private:
  void ping(const at::Tensor& tensor) const {
    if (group_.rank() == 0) {
      send(group_, tensor, 1);
      recv(group_, tensor, 1);
    } else if (group_.rank() == 1) {
      recv(group_, tensor, 0);
      send(group_, tensor, 0);
    }
  }

  double slowest(const double (&of)[most_ranks][most_times], int times) const {
    std::vector<double> all(static_cast<std::size_t>(times));
    for (int i = 0; i < times; ++i)
      for (int p = 0; p < how_.ranks; ++p)
        all[static_cast<std::size_t>(i)] = std::max(all[static_cast<std::size_t>(i)], of[p][i]);
    std::ranges::sort(all);
    return all[all.size() / 2];
  }

  const choices& how_;
  const process_group group_;
  shared_times& times_;
};

void run_rank(const choices& how, int rank, const std::string& file, shared_times& times) {
  if (how.pinned) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(static_cast<std::size_t>(rank % std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L)), &core);
    sched_setaffinity(0, sizeof core, &core);
  }
  if (!how.rules.empty()) setenv("TROUPE_COLLECTIVES", how.rules.c_str(), 1);
  at::set_num_threads(1);  // threads that wait for more of a fill_ disturb
  rpc_options options;
  options.rank = rank;
  options.world_size = how.ranks;
  options.init_method = "file://" + file;
  const auto node = init_rpc(options);
  {
    std::vector<int> all;
    for (int p = 0; p < how.ranks; ++p) all.push_back(p);
    bench_rank one(how, node.world().new_group(all, {.backend = how.backend}), times);
    for (auto bytes = how.smallest; bytes <= how.largest; bytes *= 4) one.row(bytes);
  }
  node.shutdown();
}

int run(const choices& how) {
  const auto file = fmt::format("/tmp/troupe-host-groups-{}", getpid());
  auto* const times = static_cast<shared_times*>(mmap(
      nullptr, sizeof(shared_times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (times == MAP_FAILED) return 2;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < how.ranks; ++rank) {
    const auto child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        run_rank(how, rank, file, *times);
        std::exit(0);
      } catch (const std::exception& e) {
        fmt::print(stderr, "rank {}: {}\n", rank, e.what());
        std::exit(1);
      }
    }
    ranks.push_back(child);
  }
  int bad = 0;
  for (const auto child : ranks) {
    int status = 0;
    waitpid(child, &status, 0);
    bad |= status;
  }
  std::remove(file.c_str());
  return bad != 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  troupe::bench::choices how;
  CLI::App app("what operations of a group on one host cost, and rewriting the tensors after them");
  app.add_option("--op", how.op)
      ->check(CLI::IsMember(
          {"broadcast", "all_reduce", "all_gather", "all_gather_into_tensor", "send"}));
  app.add_option("--ranks", how.ranks)->check(CLI::Range(2, troupe::bench::most_ranks));
  app.add_option("--min", how.smallest, "bytes of one rank's tensor");
  app.add_option("--max", how.largest);
  app.add_option("--rules", how.rules, "as in TROUPE_COLLECTIVES");
  app.add_option("--backend", how.backend, "cpu:network: by messages");
  app.add_flag("--pinned", how.pinned, "each rank on one core");
  CLI11_PARSE(app, argc, argv);
  return troupe::bench::run(how);
}
