// The end of nodes among what else a program does: CAF's own means, forks, an exit in a hurry.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caf/scoped_actor.hpp>

#include "tests/actors/counter.hpp"
#include "tests/actors/job.hpp"

namespace troupe::test {
namespace {

class node_end : public on_networks {};
TROUPE_ON_NETWORKS(node_end);

// CAF's logger stays with such a thread, and CAF's system would wait for it.
TEST_P(node_end, does_not_wait_for_threads_that_have_used_the_system) {
  auto nodes = start({"a", "b"});
  door used, over;
  std::thread user([&] {
    { caf::scoped_actor self(nodes[0].system()); }
    used.open();
    over.pass();
  });
  used.pass();
  auto ending = std::async(std::launch::async, [&] { shut_down(nodes); });
  EXPECT_EQ(ending.wait_for(patience), std::future_status::ready);
  over.open();
  user.join();
}

// A forked process has the node, but none of its threads.
TEST_P(node_end, leaves_a_forked_process_alone) {
  auto nodes = start({"a", "b"});
  const pid_t child = fork();
  if (child == 0) {
    nodes.clear();
    _exit(7);
  }
  int status = 0;
  const bool ended = eventually([&] { return waitpid(child, &status, WNOHANG) == child; });
  if (!ended) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  EXPECT_TRUE(ended && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  shut_down(nodes);
}

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&here), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size), 0);
  close(fd);
  return ntohs(here.sin_port);
}

// Rank 0 keeps the store, and waits for the others' goodbye only when all end together.
TEST(node_end, at_once_is_at_once_also_on_rank_0) {
  rpc_options options;
  options.init_method = "tcp://127.0.0.1:" + std::to_string(free_port());
  options.world_size = 2;
  std::vector<std::future<node>> joining;
  for (const std::uint32_t rank : {0, 1}) {
    options.rank = rank;
    options.name = "w" + std::to_string(rank);
    joining.push_back(std::async(std::launch::async, [options] { return init_rpc(options); }));
  }
  auto first = joining[0].get(), second = joining[1].get();
  const auto start = clock::now();
  first.shutdown(false);
  EXPECT_LT(clock::now() - start, 3s);
  second.shutdown(false);
}

TEST(node_end, local_nodes_need_names_of_their_own) {
  EXPECT_THROW(local_nodes({"a", "a"}), invalid_argument);
  EXPECT_THROW(local_nodes({"a", ""}), invalid_argument);
  EXPECT_THROW(local_nodes({"a b"}), invalid_argument);
}

}  // namespace
}  // namespace troupe::test
