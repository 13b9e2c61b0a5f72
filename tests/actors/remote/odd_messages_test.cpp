// Messages that no node of this program sends: they do no harm, and hold nothing up.
#include <random>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "troupe/actors/node/bootstrap.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rref/drop_queue.hpp"

namespace troupe::test {
namespace {

int sum(int a, int b) { return a + b; }

// Two nodes, and the first one's parts.
class odd_messages : public testing::Test {
protected:
  odd_messages() {
    for (auto& core : cores_) nodes_.emplace_back(core);
  }

  node_core& a() { return *cores_[0]; }
  peer& b() { return a().find("b"); }  // as a knows it

  void send(const envelope_header& header) { a().actors().out().send(b(), 0, header, nullptr); }

  std::vector<std::shared_ptr<node_core>> cores_ = join_loopback({"a", "b"}, {});
  std::vector<node> nodes_;
};

TEST_F(odd_messages, of_unknown_kind_do_not_hold_up_the_shutdown) {
  envelope_header header;
  header.kind = static_cast<envelope_kind>(9);
  for (int i = 0; i < 3; ++i) send(header);
  EXPECT_EQ(nodes_[0].rpc_sync<&sum>("b", 1, 2), 3);
  shut_down(nodes_);
}

TEST_F(odd_messages, without_a_body_do_not_hold_up_the_shutdown) {
  for (auto kind : {envelope_kind::actor_message, envelope_kind::response, envelope_kind::failure,
                    envelope_kind::call, envelope_kind::control}) {
    envelope_header header;
    header.kind = kind;
    header.target = 1;
    send(header);
  }
  EXPECT_EQ(nodes_[0].rpc_sync<&sum>("b", 1, 2), 3);
  shut_down(nodes_);
}

TEST_F(odd_messages, that_call_an_unknown_function_get_an_error) {
  const char* name = "a_function_that_only_the_caller_has";
  auto state =
      std::make_shared<troupe::detail::call_state<int>>(a().agent(), b(), name, call_options());
  a().agent().call(b(), hash_name(name), name, state, {},
                   [](encoder& out, handle_scope&) { out.put(1); });
  auto why = fault_of<unknown_function>([&] { future<int>(state).get_for(time_limit); });
  EXPECT_EQ(why.node, "b");
  EXPECT_EQ(why.function, name);
  EXPECT_THAT(why.text, testing::HasSubstr("b has no function"));
  EXPECT_EQ(nodes_[0].rpc_sync<&sum>("b", 1, 2), 3);
  shut_down(nodes_);
}

// What the arguments of a call hold that is never read goes back to who has given it.
TEST_F(odd_messages, that_are_not_read_keep_no_reference) {
  const char* name = "a_function_that_only_the_caller_has";
  {
    const auto mine = nodes_[0].make_rref(1);
    const auto yours = nodes_[0].remote<&sum>("b", 1, 2);
    EXPECT_EQ(yours.to_here(), 3);
    for (const auto& r : {mine, yours}) {
      auto state =
          std::make_shared<troupe::detail::call_state<int>>(a().agent(), b(), name, call_options());
      a().agent().call(b(), hash_name(name), name, state, {},
                       [&](encoder& out, handle_scope&) { out.put(r); });
      EXPECT_THROW(future<int>(state).get_for(time_limit), unknown_function);
    }
    EXPECT_EQ(a().info().rref_forks, 0u);
  }
  for (const auto& n : nodes_)
    EXPECT_TRUE(eventually([&] {
      const auto left = n.debug_info();
      return left.owner_rrefs + left.user_rrefs + left.rref_forks == 0;
    })) << n.name();
  shut_down(nodes_);
}

// Notes about references of nobody, by somebody who makes them up.
TEST_F(odd_messages, about_references_do_no_harm) {
  {
    const auto r = nodes_[0].remote<&sum>("b", 1, 2);
    EXPECT_EQ(r.to_here(), 3);
    std::mt19937_64 random(1);
    for (int i = 0; i < 3'000; ++i) {
      message_builder text(nullptr);
      text.body().put(static_cast<std::uint8_t>(random() % 7));
      auto id = r.id();
      id.number = random() % 4 + (i % 2);
      if (random() % 3 == 0) id.creator = static_cast<std::uint32_t>(random() % 5);
      if (random() % 9 == 0) id.owner_incarnation = random();
      // Any number of bytes of what might be a note; never this reference's own use.
      encoder rest(nullptr, nullptr);
      rest.put(id);
      rest.put(random() % 8 + 1);
      text.body().raw(rest.bytes().data(), random() % (rest.bytes().size() + 1));
      envelope_header header;
      header.target = rref_channel;
      a().actors().out().send(b(), 0, header, &text);
    }
    // Uses that were never there, and more than there can be.
    for (int i = 0; i < 1'000; ++i) {
      message_builder text(nullptr);
      text.body().put(std::uint8_t{4});
      text.body().put(random() % 9 == 0 ? random() : r.id().owner_incarnation);
      troupe::detail::drop_queue::message all(random() % 4);
      for (auto& some : all) {
        some = {0, static_cast<std::uint32_t>(random() % 9'000), r.id().creator_incarnation,
                random() % 4, random() % 8 + 1};
        if (random() % 5 == 0) some.count = ~std::uint32_t{0};
        if (random() % 5 == 0) some.first = ~std::uint64_t{0} - random() % 4;
      }
      text.body().put(all);
      envelope_header header;
      header.target = rref_channel;
      a().actors().out().send(b(), 0, header, &text);
    }
    EXPECT_EQ(r.to_here(), 3);
  }
  shut_down(nodes_);
}

}  // namespace
}  // namespace troupe::test
