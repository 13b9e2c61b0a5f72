// A protocol of control messages that stands above node/, as process groups will.
#include "troupe/actors/node/node_protocol.hpp"

#include <atomic>
#include <string>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

constexpr auto channel = static_cast<control_channel>(max_control_channels - 1);

/// Answers each number with the next one, up to ten.
class counting final : public detail::node_protocol {
public:
  explicit counting(node_core& node) : node_(node) {}

  void begin(const std::string& with) { send_number(node_.find(with), 1); }

  void deliver(decoder& body, peer& from) override {
    const auto number = body.get<std::uint64_t>();
    if (number == 0) throw invalid_argument("nobody counts from 0");
    last_ = number;
    if (number < 10)
      send_number(from, number + 1);
    else
      ++times_;
  }
  void evict(const peer& whom) noexcept override { evicted_ += whom.info.id + 1; }
  void close() noexcept override { ++closed(); }

  void send_number(peer& to, std::uint64_t number) {
    node_.actors().out().try_send_control(to, channel, number);
  }

  std::uint64_t last() const { return last_; }
  int times() const { return times_; }  ///< it has counted to ten
  std::uint64_t evicted() const { return evicted_; }
  static std::atomic<int>& closed() {
    static std::atomic<int> nodes{0};
    return nodes;
  }

private:
  node_core& node_;
  std::atomic<std::uint64_t> last_{0}, evicted_{0};
  std::atomic<int> times_{0};
};

counting& counting_of(const node& one) {
  auto* found = one.core().protocols().find(channel);
  EXPECT_NE(found, nullptr);
  return dynamic_cast<counting&>(*found);
}

class node_protocol : public on_networks {
protected:
  node_protocol() {
    detail::register_protocol(channel,
                              [](node_core& node) { return std::make_unique<counting>(node); });
    counting::closed() = 0;
  }
  ~node_protocol() override { detail::unregister_protocol(channel); }
};
TROUPE_ON_NETWORKS(node_protocol);

TEST_P(node_protocol, gets_its_messages_the_loss_of_members_and_the_end) {
  auto nodes = start({"a", "b", "c"});
  counting_of(nodes[0]).begin("b");
  EXPECT_TRUE(eventually([&] { return counting_of(nodes[0]).times() == 1; }));
  EXPECT_EQ(counting_of(nodes[1]).last(), 9u);
  EXPECT_EQ(counting_of(nodes[2]).last(), 0u);
  // What it throws is dropped, and nothing else is.
  counting_of(nodes[0]).send_number(nodes[0].core().find("b"), 0);
  counting_of(nodes[0]).begin("b");
  EXPECT_TRUE(eventually([&] { return counting_of(nodes[0]).times() == 2; }));
  nodes[2].leave();
  EXPECT_TRUE(eventually([&] { return counting_of(nodes[0]).evicted() == 3; }));
  EXPECT_TRUE(eventually([&] { return counting_of(nodes[1]).evicted() == 3; }));
  EXPECT_EQ(counting::closed(), 1);
  nodes.pop_back();
  shut_down(nodes);
  EXPECT_EQ(counting::closed(), 3);
}

template <class F>
std::string refusal_of(F&& f) {
  return fault_of<invalid_argument>(std::forward<F>(f)).text;
}

TEST(protocol_registry, refuses_channels_that_are_not_free) {
  const auto make = [](node_core& node) { return std::make_unique<counting>(node); };
  EXPECT_THAT(refusal_of([&] { detail::register_protocol(rref_channel, make); }),
              HasSubstr("control channel 3 cannot be registered: those from 6 to 31 can"));
  EXPECT_THAT(refusal_of([&] {
                detail::register_protocol(static_cast<control_channel>(max_control_channels), make);
              }),
              HasSubstr("control channel 32 cannot be registered"));
  EXPECT_THAT(refusal_of([&] { detail::register_protocol(channel, nullptr); }),
              HasSubstr("the protocol of control channel 31 is an empty function"));
  detail::register_protocol(channel, make);
  EXPECT_THAT(refusal_of([&] { detail::register_protocol(channel, make); }),
              HasSubstr("control channel 31 has a protocol already"));
  detail::unregister_protocol(channel);
}

}  // namespace
}  // namespace troupe::test
