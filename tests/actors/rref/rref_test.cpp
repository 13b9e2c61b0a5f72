// Remote references: made, used and passed on.

#include <caf/actor_registry.hpp>
#include <sstream>
#include <unordered_set>

#include "tests/actors/rref/rref_testing.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe::test {
namespace {

class rrefs : public on_networks {};
TROUPE_ON_NETWORKS(rrefs);

TEST_P(rrefs, a_result_stays_where_it_is_made_and_is_fetched) {
  auto nodes = start({"a", "b"});
  {
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    EXPECT_EQ(r.to_here(), 3);
    EXPECT_EQ(r.to_here(timeout(time_limit)), 3);
    EXPECT_EQ(r.owner_name(), "b");
    EXPECT_EQ(r.owner().id, 1u);
    EXPECT_FALSE(r.is_owner());
    EXPECT_TRUE(eventually([&] { return r.confirmed_by_owner(); }));
    EXPECT_EQ(nodes[1].debug_info().owner_rrefs, 1u);
    EXPECT_EQ(nodes[0].debug_info().user_rrefs, 1u);
    const auto t = nodes[0].remote<&sum>(1, at::ones({3}), at::ones({3}));
    EXPECT_TRUE(t.to_here().equal(at::full({3}, 2.0)));
    nodes[0].remote<&nothing>("b", 1).to_here();
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, an_object_is_constructed_and_called_where_it_lives) {
  auto nodes = start({"a", "b"});
  {
    const auto m = nodes[0].remote<model>("b", 3);
    EXPECT_EQ(m.rpc_sync<&model::forward>(4), 12);
    m.rpc_sync<&model::set>(5);
    EXPECT_EQ(m.rpc_async<&model::forward>(4, timeout(time_limit)).get(), 20);
    EXPECT_EQ(m.rpc_sync<&model::name>(), "b");
    EXPECT_EQ(m.rpc_sync<&twice>(4), 40);
    EXPECT_EQ(m.rpc_sync<&model::later>(2), 10);
    EXPECT_EQ(m.remote<&model::forward>(6).to_here(), 30);
    EXPECT_EQ(m.rpc_sync<&model::forward>(nodes[0].rpc_async<&plus>("b", 1, 1)), 10);
    EXPECT_EQ(m.remote<&model::later>(nodes[0].rpc_async<&plus>("b", 1, 1)).to_here(), 10);
    EXPECT_EQ(model::count, 1);
  }
  EXPECT_TRUE(eventually([] { return model::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, a_result_of_an_object_outlives_the_dropping_of_the_object_s_reference) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 200; ++i) {
    const auto r = nodes[0].remote<model>("b", 3).remote<&model::forward>(i);
    const auto f = nodes[0].remote<model>("b", 4).rpc_async<&model::forward>(i);
    EXPECT_EQ(r.to_here(), 3 * i);
    EXPECT_EQ(f.get(), 4 * i);
  }
  EXPECT_TRUE(eventually([] { return model::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, a_node_refers_to_values_of_its_own) {
  auto nodes = start({"a", "b"});
  {
    auto mine = nodes[0].make_rref(at::ones({2}));
    EXPECT_TRUE(mine.is_owner());
    EXPECT_TRUE(mine.confirmed_by_owner());
    mine.local_value().add_(1);
    EXPECT_TRUE(mine.to_here().equal(at::full({2}, 2.0)));
    EXPECT_EQ(mine.to_here().data_ptr(), mine.local_value().data_ptr());
    const auto object = nodes[0].make_rref(std::in_place_type<model>, 7);
    EXPECT_EQ(object.local_value().forward(2), 14);
    EXPECT_EQ(object.rpc_sync<&model::forward>(3), 21);
    EXPECT_THROW(nodes[0].make_rref(std::in_place_type<model>, -1), std::invalid_argument);
    const auto self = nodes[0].remote<&plus>("a", 1, 2);
    EXPECT_EQ(self.to_here(), 3);
    EXPECT_EQ(self.local_value(), 3);
    // What another node owns is no local value.
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    const auto why = fault_of<invalid_argument>([&] { r.local_value(); });
    EXPECT_THAT(why.text,
                testing::AllOf(testing::HasSubstr("on a"), testing::HasSubstr("owner is b"),
                               testing::HasSubstr(to_string(r.id()))));
  }
  EXPECT_TRUE(eventually([] { return model::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// ---- Sharing: rules 2, 3 and 4

struct parcel {
  std::vector<rref<int>> all;
  std::map<std::string, rref<at::Tensor>> named;
};
TROUPE_MESSAGE(parcel, all, named)

rref<int> taken() { return kept; }
int sum_of(const parcel& p) {
  double sum = 0;
  for (const auto& r : p.all) sum += r.to_here();
  for (const auto& [name, r] : p.named) sum += r.to_here().sum().item<double>();
  return static_cast<int>(sum);
}
bool is_confirmed(rref<int> r) { return r.confirmed_by_owner(); }
bool is_here(rref<int> r) { return r.is_owner() && r.local_value() == 3; }
rref<int> made_here(int x) { return this_node().make_rref(x); }
int through(rref<rref<int>> r) { return r.to_here().to_here(); }
rref<int> forwarded(rref<int> r, int ttl) {
  const auto self = this_node();
  if (ttl == 0) return r;
  return self.rpc_sync<&forwarded>((self.rank() + 1) % self.world_size(), r, ttl - 1);
}

TEST_P(rrefs, are_shared_in_every_direction) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  {
    const auto on_b = a.remote<&plus>("b", 1, 2);
    const auto on_a = a.make_rref(3);
    EXPECT_EQ(a.rpc_sync<&value_of>("c", on_b), 3);  // user to user
    EXPECT_EQ(a.rpc_sync<&value_of>("b", on_b), 3);  // user to owner
    EXPECT_TRUE(a.rpc_sync<&is_here>("b", on_b));
    EXPECT_EQ(a.rpc_sync<&value_of>("c", on_a), 3);  // owner to user
    EXPECT_EQ(a.rpc_sync<&value_of>("a", on_a), 3);  // to oneself
    EXPECT_EQ(a.rpc_sync<&value_of>("a", on_b), 3);
    EXPECT_EQ(a.remote<&value_of>("c", on_b).to_here(), 3);
    EXPECT_EQ(a.rpc_sync<&same>("c", on_b), on_b);
    EXPECT_EQ(a.rpc_sync<&same>("b", on_b).to_here(), 3);
    EXPECT_EQ(a.rpc_sync<&made_here>("c", 5).to_here(), 5);
    EXPECT_EQ(a.rpc_sync<&value_of>("b", a.rpc_sync<&made_here>("c", 5)), 5);
    const auto nested = a.remote<&made_here>("b", 6);  // rref<rref<int>>
    EXPECT_EQ(nested.to_here().to_here(), 6);
    EXPECT_EQ(a.rpc_sync<&through>("c", nested), 6);
    EXPECT_EQ(a.rpc_sync<&forwarded>("b", on_b, 8).to_here(), 3);
    // A value where the function wants one is fetched by the callee.
    EXPECT_EQ(a.rpc_sync<&plus>("c", on_b, on_a), 6);
    parcel p;
    p.all = {on_b, on_a, on_b, rref<int>(on_a)};
    p.named["x"] = a.remote<&ones>("c", 10);
    EXPECT_EQ(a.rpc_sync<&sum_of>("b", p), 22);
    EXPECT_EQ(a.rpc_sync<&sum_of>("c", p), 22);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, in_arguments_are_confirmed_before_the_function_runs) {
  auto nodes = start({"a", "b", "c"});
  {
    for (int i = 0; i < 100; ++i) {
      const auto r = nodes[0].remote<&plus>("b", i, 1);  // not confirmed yet
      EXPECT_TRUE(nodes[0].rpc_sync<&is_confirmed>("c", r));
      EXPECT_TRUE(nodes[0].rpc_sync<&same>("c", r).confirmed_by_owner());
    }
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, a_value_lives_as_long_as_anybody_has_a_reference) {
  auto nodes = start({"a", "b", "c"});
  for (int i = 0; i < 50; ++i) {
    // The only reference is on its way while its maker drops it.
    nodes[0].rpc_async<&keep>("c", nodes[0].remote<&plus>("b", i, i)).get();
    EXPECT_EQ(nodes[1].rpc_sync<&use_kept>("c"), 2 * i);
    nodes[0].rpc_sync<&keep>("c", nodes[0].make_rref(i));
    EXPECT_EQ(nodes[1].rpc_sync<&use_kept>("c"), i);
  }
  EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().owner_rrefs == 1; }));
  nodes[1].rpc_sync<&let_go>("c");
  expect_nothing_left(nodes);
  shut_down(nodes);
}

struct give {
  rref<int> what;
};
struct read_value {};
TROUPE_MESSAGE(give, what)
TROUPE_MESSAGE(read_value)
using keeper = actor<accepts<give>, answers<read_value, int>>;

keeper::behavior_type keep_one(keeper::stateful_pointer<rref<int>> self) {
  return {[self](const give& g) { self->state = g.what; },
          [self](read_value) { return self->state.to_here(); }};
}

// Rule 12.
TEST_P(rrefs, of_values_that_a_node_makes_itself_are_in_its_table_while_others_have_them) {
  auto nodes = start({"a", "b"});
  const auto owned = [&] { return nodes[0].debug_info().owner_rrefs; };
  {
    const auto mine = nodes[0].make_rref(7);
    EXPECT_TRUE(mine.is_owner());
    EXPECT_EQ(mine.local_value(), 7);
    EXPECT_EQ(mine.to_here(), 7);
    EXPECT_EQ(owned(), 0u);
    for (int i = 0; i < 2; ++i) {
      nodes[0].rpc_sync<&keep>("b", mine);
      EXPECT_EQ(owned(), 1u);
      EXPECT_EQ(nodes[1].rpc_sync<&use_kept>("b"), 7);
      nodes[1].rpc_sync<&let_go>("b");
      EXPECT_TRUE(eventually([&] { return owned() == 0; }));
      EXPECT_EQ(mine.local_value(), 7);
    }
    // What a call has named or lent is there for as long as this reference.
    EXPECT_EQ(nodes[0].rpc_sync<&plus>("b", mine, 1), 8);
    EXPECT_EQ(mine.rpc_sync<&doubled>(), 14);
    EXPECT_EQ(owned(), 1u);
    // A reference that comes home, and outlives this one.
    const auto other = nodes[0].make_rref(8);
    nodes[0].rpc_sync<&keep>("b", other);
    EXPECT_EQ(nodes[1].rpc_sync<&value_of>("a", nodes[1].rpc_sync<&taken>("b")), 8);
  }
  EXPECT_TRUE(eventually([&] { return owned() == 1; }));
  EXPECT_EQ(nodes[1].rpc_sync<&use_kept>("b"), 8);
  nodes[1].rpc_sync<&let_go>("b");
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, travel_in_messages_to_actors) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto holder = nodes[0].spawn_on<&keep_one>("c");
    for (int i = 0; i < 50; ++i) {
      send(holder, give{nodes[0].remote<&plus>("b", i, 1)});
      EXPECT_EQ(request(holder, read_value{}).get(), i + 1);
    }
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().owner_rrefs == 1; }));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// What an actor has.
struct memory {
  explicit memory(int value_) : value(value_) { ++count; }
  memory(const memory&) = delete;
  ~memory() { --count; }
  const int value;
  static inline std::atomic<int> count{0};
};
using worker = actor<answers<read_value, int>>;
worker::behavior_type work_with(int value) {
  return {[all = std::make_shared<memory>(value)](read_value) { return all->value; }};
}
worker hire(int value) { return this_node().spawn(&work_with, value); }

rref<worker> kept_worker;
void keep_worker(rref<worker> r) { kept_worker = std::move(r); }
int ask_kept_worker() { return request(kept_worker.to_here(), read_value{}).get(); }
void let_worker_go() { kept_worker = {}; }

TEST_P(rrefs, of_an_actor_keep_it_and_what_it_has_until_the_last_has_gone) {
  auto nodes = start({"a", "b", "c"});
  const auto running = [&] { return nodes[1].system().registry().running(); };
  const auto before = running();
  auto r = nodes[0].remote<&hire>("b", 7);
  EXPECT_EQ(request(r.to_here(), read_value{}).get(), 7);
  EXPECT_EQ(running(), before + 1);
  nodes[0].rpc_sync<&keep_worker>("c", r);
  r = {};
  EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().user_rrefs == 0; }));
  EXPECT_EQ(nodes[0].rpc_sync<&ask_kept_worker>("c"), 7);
  EXPECT_EQ(running(), before + 1);
  EXPECT_EQ(memory::count, 1);
  nodes[0].rpc_sync<&let_worker_go>("c");
  EXPECT_TRUE(eventually([&] { return running() == before && memory::count == 0; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// The actor that owns a value goes with it, too.
TEST_P(rrefs, end_the_actor_that_owns_their_value) {
  auto nodes = start({"a", "b"});
  const auto running = [&] { return nodes[1].system().registry().running(); };
  const auto before = running();
  {
    const auto r = nodes[0].remote<&plus>("b", 3, 4);
    EXPECT_EQ(request(r.owner_actor(), get_value{}).get(), 7);
    EXPECT_EQ(running(), before + 1) << "the reference keeps it";
    EXPECT_EQ(request(r.owner_actor(), get_value{}).get(), 7);
    EXPECT_EQ(running(), before + 1);
  }
  EXPECT_TRUE(eventually([&] { return running() == before; }));
  expect_nothing_left(nodes);
  shut_down(nodes);
}

// ---- What it costs, what it reports

TEST_P(rrefs, whoever_orchestrates_moves_no_tensor) {
  auto nodes = start({"p0", "p1", "p2", "p3"});
  constexpr std::int64_t size = 1 << 20;
  const auto bytes = [](const node& n) {
    const auto t = n.debug_info().traffic;
    return t.bytes_sent + t.bytes_received;
  };
  {
    const auto& p0 = nodes[0];
    const auto before = bytes(p0);
    const auto ra = p0.remote<&ones>("p1", size);
    const auto rb = p0.remote<&ones>("p2", size);
    const auto rc = p0.remote<&sum>("p3", ra, rb);
    const auto rd = p0.remote<&sum>("p3", rc, rc);
    EXPECT_EQ(p0.rpc_sync<&sum_of_tensor>("p3", rd), 4.0 * size);
    EXPECT_LT(bytes(p0) - before, 20'000u);
    // The values went straight to p3, one float tensor of each.
    EXPECT_GE(bytes(nodes[3]), 2u * 4u * size);
    EXPECT_TRUE(rd.to_here().equal(at::full({size}, 4.0)));
    EXPECT_GE(bytes(p0) - before, 4u * size);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, compare_hash_and_print) {
  auto nodes = start({"a", "b"});
  {
    const auto r = nodes[0].remote<&plus>("b", 1, 2);
    const auto s = nodes[0].remote<&plus>("b", 1, 2);
    const auto copy = r;
    EXPECT_EQ(r, copy);
    EXPECT_FALSE(r == s);
    const std::unordered_set<rref<int>> set{r, copy, s, rref<int>()};
    EXPECT_EQ(set.size(), 3u);
    EXPECT_EQ(rref<at::Tensor>::type(), "at::Tensor");
    EXPECT_EQ(rref<int>().core(), nullptr);
  }
  shut_down(nodes);
}

std::string text_of(rref<int> r) {
  std::ostringstream out;
  out << r;
  return out.str();
}

// The value's id, by who has had it made and the number there, is the same everywhere; each use of
// it has one of its own, by who has numbered it.
TEST_P(rrefs, print_both_ids_and_whether_this_node_is_the_owner) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  {
    const auto r = a.remote<&plus>("b", 1, 2);
    EXPECT_EQ(to_string(r.id()), "rref_id(created_on=0, owner=1, local_id=1)");
    EXPECT_EQ(text_of(r),
              "user_rref<int>(rref_id(created_on=0, owner=1, local_id=1), "
              "fork_id(created_on=0, local_id=0) on b)");
    EXPECT_EQ(a.rpc_sync<&text_of>("b", r),
              "owner_rref<int>(rref_id(created_on=0, owner=1, local_id=1))");
    EXPECT_EQ(a.rpc_sync<&text_of>("c", r),
              "user_rref<int>(rref_id(created_on=0, owner=1, local_id=1), "
              "fork_id(created_on=2, local_id=1) on b)");
    const auto mine = a.make_rref(3);
    EXPECT_EQ(text_of(mine), "owner_rref<int>(rref_id(created_on=0, owner=0, local_id=1))");
    EXPECT_EQ(a.rpc_sync<&text_of>("c", mine),
              "user_rref<int>(rref_id(created_on=0, owner=0, local_id=1), "
              "fork_id(created_on=0, local_id=1) on a)");
    EXPECT_EQ(text_of({}), "rref<int>(none)");
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

template <class Archive>
concept archive_of_rrefs = requires(Archive& archive, rref<int>& r) {
  inspect(archive, r);
};
static_assert(!archive_of_rrefs<caf::binary_serializer>);
static_assert(!archive_of_rrefs<caf::binary_deserializer>);

// What optimizers and the like write into files goes through an encoder without a node.
TEST_P(rrefs, are_written_in_messages_between_nodes_only) {
  auto nodes = start({"a", "b"});
  {
    parcel p;
    p.all = {nodes[0].make_rref(3), nodes[0].remote<&plus>("b", 1, 2)};
    const std::string wanted = "an rref can only be written into a call or message between nodes";
    encoder file(nullptr, nullptr);
    for (const auto& r : p.all)
      EXPECT_THAT(fault_of<encode_error>([&] { file.put(r); }).text, testing::HasSubstr(wanted));
    EXPECT_THAT(fault_of<encode_error>([&] { file.put(p); }).text, testing::HasSubstr(wanted));
    EXPECT_THAT(fault_of<encode_error>([&] { file.put(rref<int>()); }).text,
                testing::HasSubstr("to_here"));
    const std::vector<std::byte> bytes(64);
    decoder read(bytes, nullptr, nullptr);
    EXPECT_THAT(fault_of<decode_error>([&] { read.get<rref<int>>(); }).text,
                testing::HasSubstr("an rref"));
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

TEST_P(rrefs, that_have_been_moved_from_refer_to_nothing_and_report_it) {
  auto nodes = start({"a", "b"});
  {
    auto r = nodes[0].remote<&plus>("b", 1, 2);
    const auto moved = std::move(r);
    EXPECT_FALSE(r);
    EXPECT_THROW(r.to_here(), invalid_argument);
    EXPECT_THROW(r.local_value(), invalid_argument);
    EXPECT_THROW(r.status(), invalid_argument);
    EXPECT_THROW(r.created(), invalid_argument);
    EXPECT_THROW(r.rpc_async<&doubled>(), invalid_argument);
    EXPECT_THROW(r.remote<&doubled>(), invalid_argument);
    EXPECT_THROW(r.owner_actor(), invalid_argument);
    EXPECT_THROW(nodes[0].rpc_sync<&plus>("b", r, 1), invalid_argument);
    EXPECT_EQ(r, rref<int>());
    EXPECT_EQ(moved.to_here(), 3);
  }
  expect_nothing_left(nodes);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
