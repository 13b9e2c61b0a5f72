// Options that cannot be, and options that nodes do not have in common.
#include "troupe/actors/node/option_checks.hpp"

#include <fstream>
#include <iterator>

#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::function<void(rpc_options&)>& change) {
  rpc_options options;
  change(options);
  const auto why = fault_of<invalid_argument>([&] { check_options(options); }).text;
  // The caller gets the error before the node waits for others.
  EXPECT_EQ(fault_of<invalid_argument>([&] { init_rpc(options); }).text, why);
  EXPECT_EQ(fault_of<invalid_argument>([&] { local_nodes({"a"}, options); }).text, why);
  return why;
}

TEST(rpc_options, that_cannot_be_are_named) {
  EXPECT_NO_THROW(check_options({}));
  EXPECT_THAT(refusal([](auto& o) { o.max_threads = 0; }),
              HasSubstr("rpc_options::max_threads is 0, but must be 1 or more"));
  EXPECT_THAT(refusal([](auto& o) { o.lend_from = 4096; }),
              HasSubstr("rpc_options::lend_from is 4096, but must be 16 KiB or more"));
  EXPECT_THAT(refusal([](auto& o) { o.lend_copies_from = 1; }),
              HasSubstr("rpc_options::lend_copies_from is 1, but"));
  EXPECT_THAT(refusal([](auto& o) { o.tensor_memory_limit = 4096; }),
              HasSubstr("rpc_options::tensor_memory_limit is 4096, but must be 64 MiB or more"));
  EXPECT_THAT(refusal([](auto& o) { o.rpc_timeout = -1ms; }),
              HasSubstr("RPC Timeout must be non-negative: rpc_options::rpc_timeout is -1 ms"));
  EXPECT_THAT(refusal([](auto& o) { o.init_timeout = 0ms; }),
              HasSubstr("rpc_options::init_timeout is 0 ms, but must be from 1 ms"));
  EXPECT_THAT(refusal([](auto& o) { o.keepalive = 0ms; }),
              HasSubstr("rpc_options::keepalive is 0 ms, but must be from 1 ms"));
  EXPECT_THAT(refusal([](auto& o) { o.hang_limit = -5ms; }),
              HasSubstr("rpc_options::hang_limit is -5 ms, but must be from 100 ms"));
  EXPECT_THAT(refusal([](auto& o) { o.hang_limit = 99ms; }),
              HasSubstr("hang_limit is 99 ms, but must be from 100 ms"));
  EXPECT_NO_THROW(check_options({.hang_limit = 0ms}));
  EXPECT_THAT(refusal([](auto& o) { o.hang_limit = std::chrono::milliseconds::max(); }),
              HasSubstr("from 100 ms to 365 days, or 0 for no limit"));
  EXPECT_THAT(refusal([](auto& o) { o.thread_idle_limit = 0ms; }),
              HasSubstr("rpc_options::thread_idle_limit is 0 ms, but must be from 1 ms"));
  EXPECT_THAT(refusal([](auto& o) { o.transport = static_cast<backend>(7); }),
              HasSubstr("rpc_options::transport is the number 7, but must be backend::automatic"));
  EXPECT_THAT(refusal([](auto& o) { o.overload = static_cast<when_full>(2); }),
              HasSubstr("rpc_options::overload is the number 2"));
  EXPECT_THAT(refusal([](auto& o) { o.on_leader_loss = static_cast<leader_loss>(2); }),
              HasSubstr("rpc_options::on_leader_loss is the number 2"));
  EXPECT_THAT(refusal([](auto& o) { o.on_lost_gradient = static_cast<lost_gradient>(2); }),
              HasSubstr("rpc_options::on_lost_gradient is the number 2"));
  EXPECT_THAT(refusal([](auto& o) { o.on_leaked_rref = static_cast<leaked_rref>(2); }),
              HasSubstr("rpc_options::on_leaked_rref is the number 2"));
  EXPECT_THAT(refusal([](auto& o) { o.operators = {"everything"}; }),
              HasSubstr("rpc_options::operators has 'everything'"));
}

TEST(rpc_options, of_a_place_and_a_name_that_cannot_be_are_named) {
  EXPECT_THAT(refusal([](auto& o) { o.world_size = 0; }),
              HasSubstr("rpc_options::world_size is 0, but must be 1 or more"));
  EXPECT_THAT(refusal([](auto& o) {
                o.rank = 2;
                o.world_size = 2;
              }),
              HasSubstr("rpc_options::rank is 2, but must be from 0 to 1"));
  EXPECT_THAT(refusal([](auto& o) { o.name = "bad name!"; }),
              HasSubstr("rpc_options::name must match [A-Za-z0-9_:-]+, but is 'bad name!'"));
  EXPECT_THAT(refusal([](auto& o) {
                o.aliases = {"ps", ""};
              }),
              HasSubstr("rpc_options::aliases must be non-empty"));
  EXPECT_THAT(refusal([](auto& o) {
                o.name = "a";
                o.aliases = {"b", "a"};
              }),
              HasSubstr("rpc_options::aliases: 'a' is given twice"));
  rpc_options comes_back;
  comes_back.joins_running = true;
  comes_back.rank = 2;
  comes_back.world_size = 2;
  EXPECT_NO_THROW(check_options(comes_back));
}

// Nobody else comes: who waited for others would report it after a minute.
TEST(rpc_options, of_devices_that_are_not_there_are_named_before_anybody_is_waited_for) {
  const temporary_folder folder;
  rpc_options options;
  options.init_method = "file://" + (folder.path() / "meet").string();
  options.rank = 0;
  options.world_size = 2;
  options.devices = {"cpu", "cuda:99"};
  const std::string expected = "rpc_options::devices has 'cuda:99', but libtorch finds ";
  EXPECT_THAT(fault_of<invalid_argument>([&] { init_rpc(options); }).text, HasSubstr(expected));
  EXPECT_THAT(fault_of<invalid_argument>([&] { local_nodes({"a"}, options); }).text,
              HasSubstr(expected));
  options.joins_running = true;
  EXPECT_THAT(fault_of<invalid_argument>([&] { init_rpc(options); }).text, HasSubstr(expected));
  options.devices = {"gpu:0"};
  EXPECT_THAT(fault_of<invalid_argument>([&] { init_rpc(options); }).text,
              HasSubstr("rpc_options::devices: 'gpu:0' is no device"));
}

// What each founder of three gets when rank 1, which comes last, has options of its own.
std::vector<std::string> reported_to_founders(const std::function<void(rpc_options&)>& change) {
  const temporary_folder folder;
  const auto path = folder.path() / "meet";
  const auto here = [&](std::uint32_t rank) {
    std::ifstream file(path);
    const std::string all(std::istreambuf_iterator<char>(file), {});
    return all.find("announcement/" + std::to_string(rank)) != all.npos;
  };
  std::vector<std::future<std::string>> coming;
  const auto start = [&](rpc_options options, std::uint32_t rank) {
    options.init_method = "file://" + path.string();
    options.rank = rank;
    options.init_timeout = time_limit;
    coming.push_back(std::async(std::launch::async, [options] {
      return fault_of<error>([&] { init_rpc(options); }).text;
    }));
  };
  rpc_options all;
  all.world_size = 3;
  start(all, 0);
  start(all, 2);
  EXPECT_TRUE(eventually([&] { return here(0) && here(2); }));
  const auto began = clock::now();
  change(all);
  start(all, 1);
  std::vector<std::string> out;
  for (auto& one : coming) out.push_back(one.get());
  EXPECT_LT(clock::now() - began, time_limit / 2);
  return out;
}

TEST(rpc_options, that_cannot_be_are_reported_to_the_other_founders) {
  for (const auto& text : reported_to_founders([](auto& o) { o.max_threads = 0; }))
    EXPECT_THAT(text, HasSubstr("rpc_options::max_threads is 0, but must be 1 or more"));
  for (const auto& text : reported_to_founders([](auto& o) { o.name = "bad name!"; }))
    EXPECT_THAT(text, HasSubstr("rpc_options::name must match [A-Za-z0-9_:-]+"));
}

TEST(rpc_options, of_another_world_or_job_are_reported_to_the_other_founders) {
  for (const auto& text : reported_to_founders([](auto& o) { o.world_size = 2; }))
    EXPECT_THAT(
        text, testing::AllOf(HasSubstr("rank 1 ("), HasSubstr("has a world size of 2, but rank ")));
  for (const auto& text : reported_to_founders([](auto& o) { o.admits_joiners = true; }))
    EXPECT_THAT(text, HasSubstr("RPC group mixes statically and dynamically initialized members"));
  // A rank outside its own world gets that error; the others, that its world size differs.
  const auto texts = reported_to_founders([](auto& o) { o.world_size = 1; });
  EXPECT_THAT(texts[0], HasSubstr("has a world size of 1, but rank "));
  EXPECT_THAT(texts[1], HasSubstr("has a world size of 1, but rank "));
  EXPECT_THAT(texts[2], HasSubstr("rpc_options::rank is 1, but must be from 0 to 0"));
}

struct difference {
  const char* name;
  void (*make)(rpc_options&);
  const char* text;
};

class rules : public testing::TestWithParam<difference> {
protected:
  rpc_options options(std::uint32_t rank, bool dynamic) const {
    rpc_options out;
    out.init_method = "file://" + (folder_.path() / "meet").string();
    out.rank = rank;
    out.world_size = dynamic ? 1 : 3;
    out.admits_joiners = dynamic;
    out.init_timeout = time_limit;
    return out;
  }

  const temporary_folder folder_;
};

INSTANTIATE_TEST_SUITE_P(
    that_differ, rules,
    testing::Values(
        difference{"window_messages", [](rpc_options& o) { o.window.messages = 100; },
                   "rpc_options::window.messages must be the same on all nodes, but is 8192 at "
                   "rank 0 ('worker0') and 100 at rank 1 ("},
        difference{"window_bytes", [](rpc_options& o) { o.window.bytes = 0; },
                   "rpc_options::window.bytes must be the same on all nodes, but is 67108864 at "
                   "rank 0 ('worker0') and 0 at rank 1 ("},
        difference{"transport", [](rpc_options& o) { o.transport = backend::tcp; },
                   "rpc_options::transport must be the same on all nodes, but is "
                   "backend::automatic at rank 0 ('worker0') and backend::tcp at rank 1 ("},
        difference{"encryption", [](rpc_options& o) { o.encryption = stream_protection::encrypt; },
                   "rpc_options::encryption (or TROUPE_ENCRYPTION) must be the same on all nodes, "
                   "but is stream_protection::authenticate at rank 0 ('worker0') and "
                   "stream_protection::encrypt at rank 1 ("},
        difference{"hang_limit", [](rpc_options& o) { o.hang_limit = 5s; },
                   "rpc_options::hang_limit must be the same on all nodes, but is 60000 ms at rank "
                   "0 ('worker0') and 5000 ms at rank 1 ("},
        difference{"on_leader_loss", [](rpc_options& o) { o.on_leader_loss = leader_loss::elect; },
                   "rpc_options::on_leader_loss must be the same on all nodes, but is "
                   "leader_loss::end at rank 0 ('worker0') and leader_loss::elect at rank 1 ("}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(rules, are_reported_to_all_founders) {
  std::vector<std::future<std::string>> coming;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    auto mine = options(rank, false);
    if (rank == 1) GetParam().make(mine);
    coming.push_back(std::async(std::launch::async, [mine] {
      return fault_of<rendezvous_error>([&] { init_rpc(mine); }).text;
    }));
  }
  for (auto& one : coming) EXPECT_THAT(one.get(), HasSubstr(GetParam().text));
}

TEST_P(rules, are_reported_to_a_joiner_that_is_refused) {
  const auto founder = init_rpc(options(0, true));
  auto mine = options(0, true);
  mine.rank.reset();
  mine.joins_running = true;
  mine.name = "late";
  GetParam().make(mine);
  EXPECT_THAT(fault_of<rendezvous_error>([&] { init_rpc(mine); }).text, HasSubstr(GetParam().text));
  EXPECT_EQ(founder.world_size(), 1u);
  founder.shutdown(true, time_limit);
}

}  // namespace
}  // namespace troupe::test
