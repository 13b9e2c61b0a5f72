// What a handler may give back, and that every request is answered, whatever the handler does.
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct value {
  int x = 0;
};
TROUPE_MESSAGE(value, x)
struct silent {};
TROUPE_MESSAGE(silent)
struct silences {};
TROUPE_MESSAGE(silences)
struct several {};
TROUPE_MESSAGE(several)
struct either {
  bool good = true;
};
TROUPE_MESSAGE(either, good)
struct wrong {};
TROUPE_MESSAGE(wrong)
struct later {
  int x = 0;
};
TROUPE_MESSAGE(later, x)
struct now {};
TROUPE_MESSAGE(now)
struct pass_on {
  int x = 0;
};
TROUPE_MESSAGE(pass_on, x)
struct forget_it {};
TROUPE_MESSAGE(forget_it)
struct blow_up {
  std::string text;
};
TROUPE_MESSAGE(blow_up, text)
struct skipped {};
TROUPE_MESSAGE(skipped)
struct unskip {};
TROUPE_MESSAGE(unskip)

using answerer =
    actor<answers<value, int>, answers<silent>, answers<silences, int>,
          caf::replies_to<several>::with<int, std::string>, answers<either, int>, answers<wrong>,
          answers<later, int>, answers<now, int>, answers<pass_on, int>, answers<forget_it, int>,
          answers<blow_up, int>, answers<skipped, int>, accepts<unskip>>;

answerer::behavior_type answer(answerer::pointer self, counter other) {
  struct memory {
    std::vector<std::pair<caf::typed_response_promise<int>, int>> promised;
    bool skipping = true;
    int silent = 0;
  };
  auto state = std::make_shared<memory>();
  return {
      [](const value& q) { return q.x + 1; },
      [state](const silent&) { ++state->silent; },
      [state](const silences&) { return state->silent; },
      [](const several&) { return std::make_tuple(1, std::string("one")); },
      [](const either& q) -> caf::result<int> {
        if (q.good) return 3;
        return caf::sec::bad_function_call;
      },
      [](const wrong&) -> caf::result<void> {
        fault f;
        f.code = errc::invalid_argument;
        f.text = "wrong on purpose";
        return to_caf(f);
      },
      [self, state](const later& q) {
        auto promise = self->make_response_promise<int>();
        state->promised.emplace_back(promise, q.x);
        return promise;
      },
      [state](const now&) {
        auto promised = std::exchange(state->promised, {});
        for (auto& [promise, x] : promised) promise.deliver(x);
        return static_cast<int>(promised.size());
      },
      [self, other](const pass_on& q) { return self->delegate(other, add{q.x}); },
      [self](const forget_it&) { return self->make_response_promise<int>(); },
      [](const blow_up& q) -> int { throw std::length_error(q.text); },
      [state](const skipped&) -> caf::result<int> {
        if (state->skipping) return caf::skip;
        return 9;
      },
      [state](const unskip&) { state->skipping = false; },
  };
}

namespace {

// On every network, with the actor on the asker's node, on another one, and asked from a third.
class results : public testing::TestWithParam<std::tuple<network, int>> {
protected:
  void SetUp() override {
    nodes_ = make_nodes(std::get<0>(GetParam()), {"a", "b"});
    other_ = nodes_[0].spawn_on<count_from>("b", 100);
    to_ = nodes_[0].spawn_on<answer>(std::get<1>(GetParam()), other_);
  }

  std::vector<node> nodes_;
  counter other_;
  answerer to_;
};

std::string result_name(const testing::TestParamInfo<std::tuple<network, int>>& info) {
  return name_of(std::get<0>(info.param)) + (std::get<1>(info.param) == 0 ? "_here" : "_there");
}
INSTANTIATE_TEST_SUITE_P(networks, results, testing::Combine(all_networks(), testing::Values(0, 1)),
                         result_name);

TEST_P(results, may_be_values) { EXPECT_EQ(request(to_, value{4}).get(), 5); }

TEST_P(results, may_be_nothing) {
  EXPECT_EQ(request(to_, silences{}).get(), 0);
  for (int i = 1; i <= 3; ++i) {
    auto f = request(to_, silent{});
    static_assert(std::is_same_v<decltype(f), future<void>>);
    f.get();
    EXPECT_EQ(request(to_, silences{}).get(), i) << "answered once it is done";
  }
}

TEST_P(results, may_be_several_values) {
  caf::scoped_actor asker(nodes_[0].system());
  std::string received;
  asker->request(to_, caf::infinite, several{})
      .receive([&](int x, const std::string& text) { received = std::to_string(x) + text; },
               [&](const caf::error& e) { received = to_string(e); });
  EXPECT_EQ(received, "1one");
}

TEST_P(results, may_be_a_result_or_an_error) {
  EXPECT_EQ(request(to_, either{true}).get(), 3);
  auto why = fault_of<remote_error>([&] { request(to_, either{false}).get(); });
  EXPECT_THAT(why.text, testing::HasSubstr("bad_function_call"));
  why = fault_of<invalid_argument>([&] { request(to_, wrong{}).get(); });
  EXPECT_EQ(why.text, "wrong on purpose");
  EXPECT_EQ(request(to_, value{1}).get(), 2);
}

TEST_P(results, may_be_promised_and_come_in_any_order) {
  std::vector<future<int>> promised;
  for (int i = 0; i < 10; ++i) promised.push_back(request(to_, later{i}));
  auto quick = request(to_, value{1});
  EXPECT_EQ(quick.get(), 2);
  for (auto& f : promised) EXPECT_FALSE(f.ready());
  EXPECT_EQ(request(to_, now{}).get(), 10);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(promised[i].get_for(time_limit), i);
}

TEST_P(results, may_be_left_to_another_actor) {
  EXPECT_EQ(request(to_, pass_on{5}).get_for(time_limit), 105);
  EXPECT_EQ(request(other_, total{}).get(), 105);
  // To one that has ended.
  caf::anon_send(other_, leave{});
  ASSERT_TRUE(eventually([&] {
    try {
      request(other_, total{}).get_for(time_limit);
    } catch (const rpc_timeout&) {
    } catch (const error&) {
      return true;
    }
    return false;
  }));
  auto f = request(to_, pass_on{5});
  ASSERT_TRUE(f.wait_for(time_limit));
  EXPECT_THROW(f.get(), error);
}

TEST_P(results, that_are_promised_and_forgotten_are_errors) {
  auto f = request(to_, forget_it{});
  ASSERT_TRUE(f.wait_for(time_limit));
  EXPECT_THROW(f.get(), error);
}

TEST_P(results, that_are_promised_by_one_that_ends_are_errors) {
  auto f = request(to_, later{1});
  EXPECT_EQ(request(to_, value{1}).get(), 2);
  EXPECT_FALSE(f.ready());
  caf::anon_send_exit(to_, caf::exit_reason::user_shutdown);
  to_ = answerer();
  ASSERT_TRUE(f.wait_for(time_limit));
  EXPECT_THROW(f.get(), error);
}

TEST_P(results, of_skipped_messages_come_when_they_are_taken) {
  auto f = request(to_, skipped{});
  EXPECT_EQ(request(to_, value{1}).get(), 2);
  EXPECT_FALSE(f.ready());
  caf::anon_send(to_, unskip{});
  EXPECT_EQ(f.get_for(time_limit), 9);
}

TEST_P(results, of_messages_that_it_does_not_know_are_errors) {
  auto dynamic = caf::actor_cast<caf::actor>(to_);
  caf::scoped_actor asker(nodes_[0].system());
  caf::error received;
  asker->request(dynamic, caf::infinite, add{1})
      .receive([](int) {}, [&](const caf::error& e) { received = e; });
  EXPECT_EQ(received, caf::sec::unexpected_message);
  EXPECT_EQ(request(to_, value{1}).get(), 2);
}

TEST_P(results, of_exceptions_name_type_and_text) {
  auto next = request(to_, blow_up{"too long"});
  auto why = fault_of<remote_error>([&] { next.get_for(time_limit); });
  EXPECT_EQ(why.type, "std::length_error");
  EXPECT_EQ(why.text, "too long");
  EXPECT_EQ(why.function, "troupe::test::blow_up");
  EXPECT_EQ(why.node, nodes_[std::get<1>(GetParam())].name());
  // The actor has ended with it; the others have not.
  auto f = request(to_, value{1});
  ASSERT_TRUE(f.wait_for(time_limit));
  EXPECT_THROW(f.get(), error);
  EXPECT_EQ(request(other_, add{1}).get(), 101);
}

TEST_P(results, of_requests_behind_an_exception_are_errors) {
  std::vector<future<int>> all;
  all.push_back(request(to_, blow_up{"first"}));
  for (int i = 0; i < 20; ++i) all.push_back(request(to_, value{i}));
  for (auto& f : all) {
    ASSERT_TRUE(f.wait_for(time_limit));
    EXPECT_THROW(f.get(), error);
  }
}

}  // namespace
}  // namespace troupe::test
