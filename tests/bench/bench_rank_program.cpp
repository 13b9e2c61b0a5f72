// A rank that a row of troupe-bench starts itself, because it is killed, cut off or run with other
// options than troupe-run's: bench-rank RANK WORLD_SIZE FILE [DEVICE | --collectives | --plain
// FILE]. DEVICE is the network interface to use. With --collectives it calls them until one fails.
// With
// --plain it is in a second job as well, without flow control and without a limit for hung nodes.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/prctl.h>

#include <csignal>
#include <optional>
#include <thread>
#include <troupe/collectives.hpp>

#include "tests/bench/callees.hpp"
#include "tests/bench/own_ranks.hpp"
#include "tests/served.hpp"

int main(int argc, char** argv) {
  using namespace troupe;
  if (!test::served<&bench::nothing, &bench::sleep_for, &bench::echo,
                    &bench::collective_failed_at>())
    return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    at::set_num_threads(1);
    const auto rank = static_cast<std::uint32_t>(std::stoul(argv[1]));
    const auto world = static_cast<std::uint32_t>(std::stoul(argv[2]));
    const auto ballast = at::ones({25'000'000});  // 100 MB, as an ordinary process has them
    auto options = bench::own_rank_options(rank, world, argv[3]);
    const bool plain = argc == 6 && std::string(argv[4]) == "--plain";
    const bool collectives = argc == 5 && std::string(argv[4]) == "--collectives";
    if (argc == 5 && !collectives) options.net_devices = argv[4];
    const auto first = init_rpc(options);
    std::optional<node> second;
    if (plain) second = init_rpc(bench::plain(bench::own_rank_options(rank, world, argv[5])));
    if (collectives) bench::reduce_until_error(first.world());
    // Each has a thread that waits in it: neither is served in another way than the other.
    std::thread also([&] {
      if (second) second->shutdown();
    });
    first.shutdown();
    also.join();
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "bench-rank {}: {}\n", argv[1], failure.what());
    return 1;
  }
}
