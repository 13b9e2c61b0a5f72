// One rank of a job, as a process: meets the others as its environment asks and prints who is
// there. AS_USER: as the user of that number, which takes to be root.
//
//   rendezvous_program MODE [TIMEOUT_MS]
//   meet     joins, prints, adds to a counter in the store, closes
//   quick    the same, but ends without closing
//   freeze   stops itself when it should give its address
//   die      kills itself when it should give its address
//   vanish   kills itself once it has joined
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/rendezvous.hpp"

int main(int argc, char** argv) {
  using namespace troupe::transport;
  const std::string mode = argc > 1 ? argv[1] : "meet";
  rendezvous_options options;
  if (argc > 2) options.timeout = std::chrono::milliseconds(std::atoi(argv[2]));
  if (const char* user = std::getenv("AS_USER"))
    if (setgid(static_cast<gid_t>(std::atoi(user))) != 0 ||
        setuid(static_cast<uid_t>(std::atoi(user))) != 0)
      return 3;
  if (const char* method = std::getenv("METHOD")) options.init_method = method;
  try {
    auto job = rendezvous(options, [&](const pre_roster& r) {
      if (mode == "freeze") kill(getpid(), SIGSTOP);
      if (mode == "die") kill(getpid(), SIGKILL);
      return to_bytes("address of " + std::to_string(r.rank));
    });
    std::printf("rank %u of %u, local %u of %u, job %s:", job.rank, job.world_size, job.local_rank,
                job.local_world_size, job.job.c_str());
    for (const auto& m : job.members)
      std::printf(" %s@%llu", m.name.c_str(), static_cast<unsigned long long>(m.process));
    std::printf("\n");
    std::fflush(stdout);
    if (mode == "vanish") kill(getpid(), SIGKILL);
    if (mode == "meet") {
      job.store->add("n", 1);
      job.close();
    }
  } catch (const troupe::error& e) {
    std::printf("%s: %s\n", troupe::to_string(e.code()), e.what());
    return 1;
  }
}
