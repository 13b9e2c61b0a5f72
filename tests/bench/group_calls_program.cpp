// group-calls: what a call of a process group costs where the data is next to nothing: 4 bytes, by
// a blocking call and through a work. Forks the ranks, each on a core of its own while there are
// enough. A row is the median over blocks of operations, of the slowest rank, in us for one
// operation.
//   group-calls [--ranks 2] [--backend cpu:troupe] [--blocks 300]
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>
#include <vector>

namespace troupe::bench {
namespace {

struct choices {
  int ranks = 2;
  int blocks = 300;
  std::string backend = "cpu:troupe";
};

constexpr int calls_in_block = 50;

double us_now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class calling_rank {
public:
  calling_rank(const choices& how, int rank, const std::string& meet) : how_(how) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(rank % sysconf(_SC_NPROCESSORS_ONLN)), &one);
    if (how.ranks <= sysconf(_SC_NPROCESSORS_ONLN)) sched_setaffinity(0, sizeof one, &one);
    at::set_num_threads(1);
    rpc_options where;
    where.rank = rank;
    where.world_size = how.ranks;
    where.init_method = "file://" + meet;
    world_ = init_process_group(how.backend, where);
  }

  void run() {
    const auto x = at::ones({1});
    row("barrier", [&] { barrier(world_); });
    row("all_reduce", [&] { all_reduce(world_, x, reduce_op::max); });
    row("broadcast", [&] { broadcast(world_, x, 0); });
    row("all_reduce, work", [&] { all_reduce(world_, x, reduce_op::max, async).wait(); });
    row("all_reduce, future",
        [&] { all_reduce(world_, x, reduce_op::max, async).get_future().get(); });
    row("all_reduce, 10 works", [&] {
      std::vector<work> all;
      for (int i = 0; i < 10; ++i) all.push_back(all_reduce(world_, x, reduce_op::max, async));
      for (const auto& one : all) one.wait();
    });
    barrier(world_);
    destroy_process_group(world_);
  }

private:
  void row(const char* name, const std::function<void()>& call) {
    std::vector<double> times;
    for (int block = -10; block < how_.blocks; ++block) {
      barrier(world_);
      const auto begun = us_now();
      for (int i = 0; i < calls_in_block; ++i) call();
      if (block >= 0) times.push_back((us_now() - begun) / calls_in_block);
    }
    std::ranges::sort(times);
    const auto slowest = at::ones({2}, at::kDouble);
    slowest.mutable_data_ptr<double>()[0] = times[times.size() / 2];
    slowest.mutable_data_ptr<double>()[1] = times[times.size() / 10];
    all_reduce(world_, slowest, reduce_op::max);
    if (world_.rank() != 0) return;
    fmt::print("{:<22} {:>8.2f} us   best tenth {:>8.2f} us\n", name,
               slowest.const_data_ptr<double>()[0], slowest.const_data_ptr<double>()[1]);
    std::fflush(stdout);
  }

  const choices how_;
  process_group world_;
};

int run(const choices& how) {
  const auto folder = std::filesystem::temp_directory_path() /
                      fmt::format("troupe-group-calls-{}", static_cast<int>(getpid()));
  std::filesystem::create_directory(folder);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < how.ranks; ++rank) {
    const auto child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      calling_rank(how, rank, (folder / "meet").string()).run();
      std::_Exit(0);
    }
    ranks.push_back(child);
  }
  int bad = 0;
  for (const auto child : ranks) {
    int status = 0;
    waitpid(child, &status, 0);
    bad |= status;
  }
  std::filesystem::remove_all(folder);
  return bad != 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  troupe::bench::choices how;
  CLI::App app("what a call of a process group costs");
  app.add_option("--ranks", how.ranks)->check(CLI::Range(2, 64));
  app.add_option("--backend", how.backend);
  app.add_option("--blocks", how.blocks);
  CLI11_PARSE(app, argc, argv);
  return troupe::bench::run(how);
}
