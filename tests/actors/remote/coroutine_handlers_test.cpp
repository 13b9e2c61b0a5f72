// Handlers that are coroutines.

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

struct answer_at_open {
  int x;
};
struct open_now {};
struct fail_at_open {
  std::string text;
};
struct note_at_open {};
struct count_notes {};
TROUPE_MESSAGE(answer_at_open, x)
TROUPE_MESSAGE(open_now)
TROUPE_MESSAGE(fail_at_open, text)
TROUPE_MESSAGE(note_at_open)
TROUPE_MESSAGE(count_notes)

using later_actor = actor<answers<answer_at_open, int>, answers<open_now>, answers<fail_at_open>,
                          accepts<note_at_open>, answers<count_notes, int>>;

struct opening {
  promise<void> is_open;
  future<void> opened = is_open.get_future();
  std::atomic<int> notes{0};
};

// They do not keep what fulfils the promise: their actor's end ends them.
task<int> answer_later_with(future<void> opened, int x) {
  co_await opened;
  co_return x + 1;
}

task<> fail_later_with(future<void> opened, std::string text) {
  co_await opened;
  throw std::domain_error(text);
}

task<> note_later(std::shared_ptr<opening> at) {
  co_await at->opened;
  ++at->notes;
}

later_actor::behavior_type answer_late(later_actor::pointer) {
  const auto at = std::make_shared<opening>();
  return {
      [=](answer_at_open asked) { return answer_later_with(at->opened, asked.x); },
      [=](const open_now&) { at->is_open.set_value(); },
      [=](fail_at_open asked) { return fail_later_with(at->opened, std::move(asked.text)); },
      [=](note_at_open) { return note_later(at); },
      [=](const count_notes&) { return at->notes.load(); },
  };
}

class coroutine_handlers : public on_networks {};
TROUPE_ON_NETWORKS(coroutine_handlers);

TEST_P(coroutine_handlers, answer_when_they_end) {
  auto nodes = start({"left", "right"});
  for (const char* where : {"left", "right"}) {
    const auto one = nodes[0].spawn_on<answer_late>(where);
    std::vector<future<int>> answers;
    for (int i = 0; i < 10; ++i) answers.push_back(request(one, answer_at_open{i}));
    send(one, note_at_open{});
    EXPECT_EQ(request(one, count_notes{}).get(), 0);  // it handles other messages meanwhile
    for (const auto& answer : answers) EXPECT_FALSE(answer.ready());
    request(one, open_now{}).get();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(answers[static_cast<std::size_t>(i)].get(), i + 1);
    EXPECT_TRUE(eventually([&] { return request(one, count_notes{}).get() == 1; }));
    EXPECT_EQ(request(one, answer_at_open{1}).get(), 2);  // at once
  }
  shut_down(nodes);
}

TEST_P(coroutine_handlers, end_their_actor_when_they_throw) {
  auto nodes = start({"left", "right"});
  for (const char* where : {"left", "right"}) {
    const auto one = nodes[0].spawn_on<answer_late>(where);
    auto end = request(one, fail_at_open{"too late"});
    request(one, open_now{}).get();
    const auto why = fault_of<remote_error>([&] { end.get(); });
    EXPECT_EQ(why.text, "too late");
    EXPECT_THAT(why.type, testing::HasSubstr("domain_error"));
    EXPECT_THAT(why.function, testing::HasSubstr("fail_at_open"));
    EXPECT_EQ(why.node, where);
    EXPECT_TRUE(eventually([&] {
      try {
        request(one, count_notes{}).get();
        return false;
      } catch (const error&) {
        return true;
      }
    }));
  }
  shut_down(nodes);
}

TEST_P(coroutine_handlers, fail_with_their_node) {
  auto nodes = start({"left", "right"});
  const auto one = nodes[0].spawn_on<answer_late>("right");
  auto answer = request(one, answer_at_open{1});
  request(one, count_notes{}).get();
  for (auto& node : nodes) node.shutdown(false);
  EXPECT_THROW(answer.get(), error);
}

}  // namespace
}  // namespace troupe::test
