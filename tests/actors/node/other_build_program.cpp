// Rank 1 of a job whose rank 0 is a test that was built from other definitions:
// other_build_program FILE. Serves until the job ends.

#define TROUPE_TEST_OTHER_BUILD

#include <cstdio>

#include "tests/actors/node/two_builds.hpp"
#include "tests/served.hpp"

TROUPE_FUNCTION_AS("take retyped", troupe::test::builds::take_retyped)
TROUPE_FUNCTION_AS("learn", troupe::test::builds::learnt)

int main(int, char** argv) {
  using namespace troupe::test;
  using namespace troupe::test::builds;
  using troupe::test::builds::take;
  if (!served<&take_retyped, &take_longer, &take_swapped, &take_painted, &take_outer, &take_tree,
              &give_retyped, &trained, &troupe::detail::remote_spawn<&take, std::tuple<>>::here>())
    return 2;
  try {
    troupe::rpc_options options;
    options.rank = 1;
    options.world_size = 2;
    options.init_method = std::string("file://") + argv[1];
    const auto node = troupe::init_rpc(options);
    // So that there is something to fetch.
    (void)node.remote<&give_retyped>(1, 1).to_here();
    node.shutdown(true, std::chrono::minutes(2));
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "other_build_program: %s\n", failure.what());
    return 1;
  }
}
