// Messages for groups that the receiving node has not opened.

#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/groups/network/endpoint.hpp"
#include "troupe/actors/groups/process_group/group_service.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::test {
namespace {

using groups::network::endpoint;
using groups::network::group_id;
using groups::network::group_message;
using groups::network::packet;
using groups::network::part;
using testing::AllOf;
using testing::HasSubstr;

class early_messages : public testing::Test {
protected:
  static constexpr std::size_t most = 1000;

  // Rank 0 of group `name`, on w0, has sent `bytes` bytes to rank 1, which is on w1.
  void deliver(const std::string& name, std::size_t bytes, std::uint64_t sequence) {
    const std::vector<std::byte> content(bytes);
    encoder out(nullptr, nullptr);
    write_message(out, group_message{group_id(name), 0, 1, part{sequence, 0, packet(content)}});
    decoder in(out.bytes(), nullptr, nullptr);
    small.deliver(in, member(0));
  }
  peer& member(std::uint32_t rank) { return *here.peers().find(rank); }
  std::vector<peer*> both() { return {&member(0), &member(1)}; }

  std::vector<node> nodes = local_nodes(rank_names(2));
  node_core& here = nodes[1].core();
  endpoint small{here.actors().shared_from_this(), here.driver(), most};
};

std::string text_of_failure(groups::network::group_channel& channel) {
  return thrown_text<group_failed>([&] {
    if (channel.failure()) std::rethrow_exception(channel.failure());
  });
}

TEST_F(early_messages, wait_until_their_group_is_opened) {
  deliver("patient", most / 2, 1);
  const auto channel = small.open("patient", both(), 1);
  EXPECT_FALSE(channel->failure());
  EXPECT_EQ(channel->parts().take({1, 0, 0}, clock::now())->size(), most / 2);
}

// What ranks have said of themselves while they waited for others of a collective that is over.
TEST_F(early_messages, of_collectives_that_are_over_are_dropped) {
  constexpr std::uint32_t presence = 7;
  groups::network::mailbox parts(here.driver(), 3);
  const auto is_here = [&](std::uint64_t sequence, std::uint32_t stage) {
    return parts.missing(sequence, stage, 0, 1).size() < 2;
  };
  for (const std::uint64_t sequence : {4, 5, 6}) parts.put({sequence, presence, 1}, packet());
  parts.put({5, presence + 1, 1}, packet());
  parts.forget(5, presence);
  parts.put({5, presence, 2}, packet());
  EXPECT_FALSE(is_here(4, presence));
  EXPECT_FALSE(is_here(5, presence));
  EXPECT_TRUE(is_here(6, presence));
  EXPECT_TRUE(is_here(5, presence + 1));
}

TEST_F(early_messages, beyond_the_limit_fail_their_group_on_both_sides) {
  // The sender has opened it, and waits.
  groups::group_description about;
  about.name = "impatient";
  about.members = {{0, "w0"}, {1, "w1"}};
  about.timeout = 60s;
  const auto sender = groups::group_service::of(nodes[0].core()).make(about);
  for (std::uint64_t i = 1; i < 5; ++i) deliver("impatient", most / 4, i);
  const auto limit = HasSubstr("than can wait until this node opens it: 1000 bytes");
  EXPECT_TRUE(eventually([&] { return sender->channel().failure() != nullptr; }));
  EXPECT_THAT(text_of_failure(sender->channel()),
              AllOf(HasSubstr("rank 1 has reported: w0 has sent more to this group"), limit));
  // What the group had is free for others.
  deliver("other", most / 2, 1);
  EXPECT_FALSE(small.open("other", both(), 1)->failure());
  const auto channel = small.open("impatient", both(), 1);
  EXPECT_THAT(text_of_failure(*channel),
              AllOf(HasSubstr("w0 has sent more to group 'impatient'"), limit));
}

}  // namespace
}  // namespace troupe::test
