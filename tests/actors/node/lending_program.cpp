// A rank of a job whose nodes lend their tensors, or only hand them over:
// lending_program RANK WORLD_SIZE FILE [HOW].

#include <cstdio>
#include <string>

#include "tests/actors/node/lending_functions.hpp"
#include "tests/actors/node/parameter_functions.hpp"
#include "tests/served.hpp"

int main(int, char** argv) {
  using namespace troupe::test;
  if (!served<&exchange, &wander, &give_back, &make, &ends_of, &copies_beside_an_object, &hold,
              &hold_at, &let_go, &offer_count, &copies_here, &add_one, &double_it, &add_one_to_each,
              &kept_counter, &adder_here, &length_of, &pull_sum, &train, &offer_ones,
              &loans_and_in_use, &loans_and_memory, &regions_mapped>())
    return 2;
  try {
    troupe::rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = std::string("file://") + argv[3];
    options.lend_tensors = argv[4] == nullptr || argv[4] == std::string("lends");
    const auto node = troupe::init_rpc(options);
    node.shutdown(true, std::chrono::minutes(2));
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], failure.what());
    return 1;
  }
}
