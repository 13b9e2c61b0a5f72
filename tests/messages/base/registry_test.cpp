// What a process registers by key: taken once, found as a copy, destroyed without the lock.

#include "troupe/messages/base/registry.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe {
namespace {

using function = std::function<int()>;

TEST(registry, keeps_the_first_value_of_a_key) {
  registry<std::string, function> all;
  EXPECT_TRUE(all.add("one", [] { return 1; }));
  EXPECT_FALSE(all.add("one", [] { return 2; }));
  EXPECT_EQ(all.find("one")(), 1);
  EXPECT_FALSE(all.find("two"));
}

TEST(registry, a_key_that_was_removed_is_free) {
  registry<std::string, function> all;
  all.add("b", [] { return 1; });
  all.add("a", [] { return 1; });
  EXPECT_THAT(all.keys(), ::testing::ElementsAre("a", "b"));
  EXPECT_TRUE(all.remove("b"));
  EXPECT_FALSE(all.remove("b"));
  EXPECT_THAT(all.keys(), ::testing::ElementsAre("a"));
  EXPECT_TRUE(all.add("b", [] { return 2; }));
  EXPECT_EQ(all.all().at("b")(), 2);
}

TEST(registry, a_value_may_ask_it_while_it_is_copied) {
  registry<std::string, function> all;
  struct asks {
    registry<std::string, function>* whom;
    int* found;
    explicit asks(registry<std::string, function>& r, int& n) : whom(&r), found(&n) {}
    asks(const asks& x) : whom(x.whom), found(x.found) { *found += whom->contains("one"); }
    int operator()() const { return 1; }
  };
  int found = 0;
  all.add("one", asks(all, found));
  found = 0;
  EXPECT_EQ(all.find("one")(), 1);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(all.all().size(), 1u);
  EXPECT_EQ(found, 2);
}

TEST(registry, a_value_may_ask_it_while_it_is_destroyed) {
  registry<std::string, function> all;
  bool found = true;
  auto asks = std::shared_ptr<int>(new int, [&](int* at) {
    delete at;
    found = static_cast<bool>(all.find("one"));
  });
  all.add("one", [held = std::move(asks)] { return 1; });
  EXPECT_TRUE(found);
  EXPECT_TRUE(all.remove("one"));
  EXPECT_FALSE(found);
}

}  // namespace
}  // namespace troupe
