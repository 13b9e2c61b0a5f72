// A rank of a job that a test leads: rank_program RANK WORLD_SIZE FILE
// [HANG_LIMIT_MS|dynamic|joins|comes|tcp|ucx|ucx_tcp]. "dynamic": a founder of a job that admits
// joiners, "joins": one that comes back, "comes": a new one, whatever RANK is, "tcp", "ucx",
// "ucx_tcp": over these. Serves until the job ends; exits with 3 when the job has shut it out.

#include <cstdio>
#include <string>

#include "tests/actors/node/rank_functions.hpp"
#include "tests/served.hpp"

int main(int argc, char** argv) {
  using namespace troupe::test;
  if (!served<&process_id, &plus_one, &same, &add_to, &make_counter, &never_answer,
              &wait_for_the_loss_of>())
    return 2;
  try {
    troupe::rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = std::string("file://") + argv[3];
    const std::string how = argc > 4 ? argv[4] : "";
    options.admits_joiners = how == "dynamic";
    options.joins_running = how == "joins" || how == "comes";
    if (how == "comes") options.rank.reset();
    if (how == "tcp") options.transport = troupe::backend::tcp;
    if (how == "ucx" || how == "ucx_tcp") {
      options.transport = how == "ucx" ? troupe::backend::ucx : troupe::backend::ucx_tcp;
      options.trusted_network = how == "ucx_tcp";  // no more than a test
    }
    if (!how.empty() && how.find_first_not_of("0123456789") == std::string::npos)
      options.hang_limit = std::chrono::milliseconds(std::stoi(how));
    const auto node = troupe::init_rpc(options);
    node.shutdown(true, std::chrono::minutes(2));
    return 0;
  } catch (const troupe::fenced_error& failure) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], failure.what());
    return 3;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], failure.what());
    return 1;
  }
}
