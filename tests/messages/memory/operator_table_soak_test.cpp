// What libtorch's operators do with lent tensors on several threads.
#include <gtest/gtest.h>

#include "tests/messages/memory/operator_walk.hpp"

namespace troupe::test {

// 32,768 elements are what libtorch gives to one thread.
TEST(operator_table, holds_on_four_threads) {
  for (const auto& [name, does] : walk_operators(16'384, 4))
    EXPECT_TRUE(does == with_borrowed::reads || does == with_borrowed::copies ||
                does == with_borrowed::writes || does == with_borrowed::not_called)
        << name << ": " << static_cast<int>(does);
}

}  // namespace troupe::test
