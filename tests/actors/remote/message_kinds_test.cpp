// Messages whose code is compiled elsewhere, and those that never leave their node.
#include <gtest/gtest.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/extern_message.hpp"

namespace troupe::test {

/// Nothing that could be sent.
struct look_at {
  std::shared_ptr<std::atomic<int>> what;
};
TROUPE_LOCAL_MESSAGE(look_at)
struct seen {
  const void* what = nullptr;
};
TROUPE_LOCAL_MESSAGE(seen)

namespace {

using looker = actor<answers<look_at, seen>, answers<parcel_of_texts, std::size_t>,
                     answers<labelled_parcel, std::string>>;

looker::behavior_type look() {
  return {
      [](const look_at& x) {
        ++*x.what;
        return seen{x.what.get()};
      },
      [](const parcel_of_texts& x) { return x.texts.size(); },
      [](const labelled_parcel& x) { return x.label + ": " + x.texts.at(0); },
  };
}

TEST(local_message, is_sent_to_actors_of_the_same_node_only) {
  auto nodes = local_nodes({"a", "b"});
  const auto here = nodes[0].spawn(&look);
  const auto what = std::make_shared<std::atomic<int>>(0);
  EXPECT_EQ(request(here, look_at{what}).get().what, what.get());
  send(here, look_at{what});
  EXPECT_TRUE(eventually([&] { return what->load() == 2; }));

  const auto there = nodes[0].spawn_on<look>(1);
  const auto asked = fault_of<invalid_argument>([&] { (void)request(there, look_at{what}); });
  EXPECT_NE(asked.text.find("troupe::test::look_at never leaves its node"), std::string::npos)
      << asked.text;
  EXPECT_NE(asked.text.find("on b"), std::string::npos) << asked.text;
  EXPECT_THROW(send(there, look_at{what}), invalid_argument);
  EXPECT_EQ(find_type(type_hash<look_at>()), nullptr) << "it might arrive";
  EXPECT_EQ(what->load(), 2);
  shut_down(nodes);
}

TEST(extern_message, travels_like_any_other) {
  auto nodes = local_nodes({"a", "b"});
  const auto there = nodes[0].spawn_on<look>(1);
  EXPECT_EQ(request(there, parcel_of_texts{{"x", "y"}}).get(), 2u);
  EXPECT_EQ(request(nodes[0].spawn(&look), parcel_of_texts{{"x"}}).get(), 1u);
  labelled_parcel labelled;
  labelled.texts = {"x"};
  labelled.label = "fragile";
  EXPECT_EQ(request(there, labelled).get(), "fragile: x");
  EXPECT_EQ(nodes[0].rpc_sync<&unpack>(1, parcel_of_texts{{"x", "y", "z"}}).texts.back(), "z!");
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
