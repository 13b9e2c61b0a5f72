// How long until a caller gets the error that its callee is gone.

#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/bench/bench_rows.hpp"
#include "tests/bench/callees.hpp"
#include "tests/bench/own_ranks.hpp"

namespace troupe::bench {

namespace {

constexpr double for_long = 600;  // a call that is still under way when its callee goes

// Until this call fails with peer_lost, in seconds.
double until_lost(future<void>& call, clock::time_point start) {
  try {
    call.get();
  } catch (const peer_lost&) {
    return seconds_since(start);
  }
  throw internal_error("a lost node has answered");
}

// The caller is rank 1 of a job of its own; rank 0 leads, the others are killed one after another.
std::vector<measurement> kill_to_error(const node&) {
  constexpr std::uint32_t victims = 5;
  constexpr std::uint32_t world = 2 + victims;
  const meeting_folder meeting;
  std::vector<std::unique_ptr<test::rank_process>> others;
  for (std::uint32_t rank = 0; rank < world; ++rank)
    if (rank != 1)
      others.push_back(start_rank({std::to_string(rank), std::to_string(world), meeting.file()}));
  const auto here = init_rpc(own_rank_options(1, world, meeting.file()));
  std::vector<double> taken;
  for (std::uint32_t rank = 2; rank < world; ++rank) {
    here.rpc_sync<&nothing>(rank);
    auto call = here.rpc_async<&sleep_for>(rank, for_long);
    here.rpc_sync<&nothing>(rank);
    const auto start = clock::now();
    others[rank - 1]->kill();
    taken.push_back(until_lost(call, start));
  }
  here.shutdown();
  return {times_of(taken)};
}

// Two network namespaces and a cable.
class cable {
public:
  cable() {
    const auto fail = [](const std::string& what) {
      throw not_here("no network namespaces can be made here (" + what + ")");
    };
    if (geteuid() != 0) fail("not root");
    const std::string subnet = "10.214." + std::to_string(getpid() % 250 + 1) + ".";
    for (const auto& command :
         {"ip netns add " + space,
          "ip link add " + here + " type veth peer name " + there + " netns " + space,
          "ip addr add " + subnet + "1/24 dev " + here,
          "ip -n " + space + " addr add " + subnet + "2/24 dev " + there,
          "ip -n " + space + " link set lo up", "ip link set " + here + " up",
          "ip -n " + space + " link set " + there + " up"})
      if (!run(command)) {
        remove();
        fail(command);
      }
  }
  ~cable() { remove(); }
  cable(const cable&) = delete;
  cable& operator=(const cable&) = delete;

  void cut() const {
    if (!run("ip link set " + here + " down")) throw internal_error("the link stays up");
  }

  const std::string id = std::to_string(getpid() % 100'000);
  const std::string space = "tbn" + id, here = "tba" + id, there = "tbb" + id;

private:
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  void remove() const {
    run("ip link del " + here);
    run("ip netns del " + space);
  }
};

// Keep-alive is left at its default, a second.
std::vector<measurement> cut_link_to_error(const node&) {
  const cable link;
  const meeting_folder meeting;
  const auto other =
      start_rank({"1", "2", meeting.file(), link.there}, {"ip", "netns", "exec", link.space});
  auto options = own_rank_options(0, 2, meeting.file());
  options.net_devices = link.here;
  const auto here = init_rpc(options);
  here.rpc_sync<&nothing>(1);
  auto call = here.rpc_async<&sleep_for>(1, for_long);
  here.rpc_sync<&nothing>(1);
  const auto start = clock::now();
  link.cut();
  const auto taken = until_lost(call, start);
  here.shutdown(false);
  return {times_of({taken})};
}

}  // namespace

const std::map<std::string, row>& loss_rows() {
  static const std::map<std::string, row> all = {
      {"kill_to_error", kill_to_error},
      {"cut_link_to_error", cut_link_to_error},
  };
  return all;
}

}  // namespace troupe::bench
