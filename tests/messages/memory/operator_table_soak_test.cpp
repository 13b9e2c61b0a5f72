// What libtorch's operators do with lent tensors on several threads.
#include <gtest/gtest.h>

#include <map>

#include "tests/messages/memory/operator_walk.hpp"

namespace troupe::test {

// 32,768 elements are what libtorch gives to one thread.
TEST(operator_table, holds_on_four_threads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP()
      << "libtorch is not compiled for sanitizers, and their memory exceeds the children's";
#endif
  std::map<with_borrowed, int> count;
  for (const auto& [name, does] : walk_operators(16'384, 4)) {
    ++count[does];
    EXPECT_TRUE(does == with_borrowed::reads || does == with_borrowed::copies ||
                does == with_borrowed::writes || does == with_borrowed::not_called)
        << name << ": " << static_cast<int>(does);
  }
  // As many as with one thread, but for those that take too long.
  EXPECT_GT(count[with_borrowed::reads], 900);
  EXPECT_GT(count[with_borrowed::writes], 800);
}

}  // namespace troupe::test
