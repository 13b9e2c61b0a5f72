// A backend of collectives that a program loads from a shared object.

#include <gtest/gtest.h>

#include "tests/actors/node/job.hpp"
#include "tests/rank_process.hpp"

namespace troupe::test {
namespace {

TEST(own_backend, is_loaded_from_a_shared_object) {
  const std::string folder = TROUPE_TEST_PROGRAM_DIR;
  rank_process program({folder + "/own_backend_program", folder + "/own_backend_module.so"});
  EXPECT_TRUE(eventually([&] { return program.ended(); }));
  EXPECT_TRUE(program.ended_well());
}

}  // namespace
}  // namespace troupe::test
