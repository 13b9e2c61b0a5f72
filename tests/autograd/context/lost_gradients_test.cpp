// Tensors that require gradients and cross without being recorded, while a context is open.

#include "troupe/actors/contexts/lost_gradients.hpp"

#include <torch/types.h>

#include <optional>
#include <utility>

#include "tests/actors/node/job.hpp"
#include "tests/autograd/context/asked_actors.hpp"
#include "tests/log_lines.hpp"

namespace troupe::test {
namespace {

using autograd::context;

using keeper = actor<accepts<keep>, answers<forward, at::Tensor>>;
keeper::behavior_type keeps() {
  const auto kept = std::make_shared<at::Tensor>();
  return {[=](const keep& what) { *kept = what.x; },
          [=](const forward& what) { return 2 * what.x; }};
}

at::Tensor leaf() { return torch::ones({2}, torch::requires_grad().dtype(torch::kDouble)); }
at::Tensor weight_here(int) { return leaf(); }

class losses : public on_networks {
protected:
  std::vector<node> two_nodes(lost_gradient what = lost_gradient::warn) {
    rpc_options how;
    how.on_lost_gradient = what;
    return start({"a", "b"}, how);
  }
};
TROUPE_ON_NETWORKS(losses);

// In a thread of its own, which is in no context.
template <class F>
void elsewhere(const F& f) {
  std::thread(f).join();
}

TEST_P(losses, are_reported_once_for_each_message) {
  auto nodes = two_nodes();
  const auto remote = nodes[0].spawn_on<keeps>(1);
  const auto local = nodes[0].spawn(keeps);
  const log_lines lines;
  for (int i = 0; i < 3; ++i) {
    const context c(nodes[0]);
    troupe::send(local, keep{leaf()});  // stays here, with its graph
    troupe::send(remote, keep{torch::ones({2})});
    troupe::request(remote, forward{leaf()}).get();
    EXPECT_EQ(lines.text(), "") << i;
    if (i < 2) continue;
    for (int j = 0; j < 3; ++j) troupe::send(remote, keep{leaf()});
  }
  EXPECT_EQ(lines.with("with the message troupe::test::keep, and a backward pass ends there"), 1)
      << lines.text();
  EXPECT_EQ(lines.with("goes from a to b"), 1);
  EXPECT_EQ(lines.with("Use troupe::request, or detach the tensor"), 1);
  EXPECT_EQ(lines.with("warn"), 1) << lines.text();
  troupe::send(remote, keep{leaf()});  // no context is open
  shut_down(nodes);
}

// The sender works in no context; on the receiver one is open.
void send_from_here(const keeper& whom, bool meant) {
  std::optional<autograd::within> none;
  if (meant) none.emplace(std::uint64_t{0});
  troupe::send(whom, keep{leaf()});
}

TEST_P(losses, are_reported_where_a_message_arrives) {
  for (const auto how : {lost_gradient::warn, lost_gradient::fail}) {
    auto nodes = two_nodes(how);
    const auto mine = nodes[0].spawn(keeps);
    const log_lines lines;
    const auto from_b = [&](bool meant) {
      const autograd::within none(0);
      nodes[0].rpc_sync<&send_from_here>("b", mine, meant);  // its answer comes after the message
    };
    from_b(false);  // none is open
    {
      const context c(nodes[0]);
      from_b(true);
      EXPECT_EQ(lines.text(), "");
      for (int i = 0; i < 2; ++i) from_b(false);
    }
    EXPECT_EQ(lines.with("comes from b to a with the message troupe::test::keep, and a backward"),
              1)
        << lines.text();
    EXPECT_EQ(lines.with("warn"), 1) << lines.text();
    shut_down(nodes);
  }
}

TEST_P(losses, of_a_thread_that_is_not_in_the_context) {
  auto nodes = two_nodes();
  const auto remote = nodes[0].spawn_on<keeps>(1);
  const log_lines lines;
  {
    const context c(nodes[0]);
    elsewhere([&] {
      {
        const autograd::within same(c);
        nodes[0].rpc_sync<&twice>("b", leaf());
        troupe::request(remote, forward{leaf()}).get();
      }
      {
        const autograd::within none(0);
        nodes[0].rpc_sync<&twice>("b", leaf());
        troupe::request(remote, forward{leaf()}).get();
        nodes[0].rpc_sync<&weight_here>("b", 1);
      }
      {
        const at::NoGradGuard off;
        nodes[0].rpc_sync<&twice>("b", leaf());
      }
      nodes[0].rpc_sync<&twice>("b", torch::ones({2}));
      EXPECT_EQ(lines.text(), "");
      for (int i = 0; i < 2; ++i) {
        nodes[0].rpc_sync<&twice>("b", leaf());
        troupe::request(remote, forward{leaf()}).get();
        nodes[0].rpc_sync<&weight_here>("b", 1);  // only its answer
      }
    });
  }
  EXPECT_EQ(lines.with("goes from a to b with troupe::test::twice"), 1) << lines.text();
  EXPECT_EQ(lines.with("goes from a to b with troupe::test::forward"), 1) << lines.text();
  EXPECT_EQ(lines.with("comes from b to a in the answer to troupe::test::"), 3) << lines.text();
  EXPECT_EQ(lines.with("troupe::autograd::within(context)"), 5);
  elsewhere([&] { nodes[0].rpc_sync<&twice>("b", leaf()); });  // none is open
  shut_down(nodes);
}

TEST_P(losses, are_errors_if_asked) {
  auto nodes = two_nodes(lost_gradient::fail);
  const auto remote = nodes[0].spawn_on<keeps>(1);
  const auto error_of = [](const auto& what) -> std::string {
    try {
      what();
      return "";
    } catch (const invalid_argument& e) {
      return e.what();
    }
  };
  {
    const context c(nodes[0]);
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(error_of([&] { troupe::send(remote, keep{leaf()}); }),
                  testing::HasSubstr("Use troupe::request"));
      EXPECT_THAT(error_of([&] { troupe::send(remote, keep{leaf()}, no_wait); }),
                  testing::HasSubstr("Use troupe::request"));
      troupe::request(remote, forward{leaf()}).get();
      elsewhere([&] {
        const auto there = testing::HasSubstr("troupe::autograd::within(context)");
        EXPECT_THAT(error_of([&] { nodes[0].rpc_sync<&twice>("b", leaf()); }), there);
        EXPECT_THAT(error_of([&] { troupe::request(remote, forward{leaf()}).get(); }), there);
        EXPECT_THAT(error_of([&] { nodes[0].rpc_sync<&weight_here>("b", 1); }), there);
      });
    }
  }
  elsewhere([&] { nodes[0].rpc_sync<&twice>("b", leaf()); });
  shut_down(nodes);
}

std::pair<at::Tensor, rref<int>> weight_and_reference(int x) {
  return {leaf(), this_node().make_rref(x)};
}

// Its references are given back all the same.
TEST_P(losses, of_an_answer_that_is_refused_leave_nothing) {
  auto nodes = two_nodes(lost_gradient::fail);
  {
    const context c(nodes[0]);
    elsewhere(
        [&] { EXPECT_THROW(nodes[0].rpc_sync<&weight_and_reference>("b", 1), invalid_argument); });
  }
  EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 0; }));
  shut_down(nodes);
}

// Passes whose gradients can be differentiated send such tensors themselves: no warning.
TEST_P(losses, are_none_of_what_passes_send) {
  auto nodes = two_nodes(lost_gradient::fail);
  const auto remote = nodes[0].spawn_on<keeps>(1);
  for (const bool create_graph : {false, true}) {
    const auto x = leaf();
    const context c(nodes[0]);
    const auto y = troupe::request(remote, forward{nodes[0].rpc_sync<&twice>("b", x)}).get();
    c.backward({(y * y).sum()}, {.create_graph = create_graph});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], 2 * 4 * 4 * torch::ones({2}, torch::kDouble)));
    c.backward_async({(2 * nodes[0].rpc_sync<&twice>("b", x)).sum()}).get();
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
