// Tensors that go from device to device between processes of one host, without host memory.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <errno.h>
#include <cstdlib>
#include <sstream>

#include "tests/actors/devices/leased_functions.hpp"
#include "tests/rank_process.hpp"
#include "tests/served.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// How rank 1, this program once more, is told what it is: "sim ucx FILE yes".
constexpr auto rank_variable = "TROUPE_TEST_LEASED_RANK";

std::vector<std::string> rank_words(const leased_setup& how, const std::string& file) {
  const auto text = how.kind + " " + how.transport + " " + file + (how.opens ? " yes" : " no");
  setenv(rank_variable, text.c_str(), 1);
  return {program_invocation_name, "--gtest_filter=leased_rank.*"};
}

TEST(leased_rank, takes_part_in_the_jobs_of_others) {
  ASSERT_TRUE((served<&leased_twice, &leased_plus_one, &leased_to, &leased_share, &leased_copies,
                      &leased_allocations, &leased_open_none, &leased_stand_still,
                      &leased_and_killed, &leased_plan>()));
  const char* const said = std::getenv(rank_variable);
  if (!said) GTEST_SKIP() << "it is rank 1 of the jobs of the other tests";
  leased_setup how;
  std::string file, opens;
  std::istringstream(said) >> how.kind >> how.transport >> file >> opens;
  how.opens = opens == "yes";
  const auto options = with_leases(1, how, file);
  if (how.kind == "sim")
    accelerator::set_delay(std::chrono::microseconds(0), std::chrono::microseconds(2'000));
  init_rpc(options).shutdown(true, time_limit);
}

class leased_job {
public:
  explicit leased_job(const leased_setup& how)
      : file_((folder_.path() / "meet").string()),
        other_(rank_words(how, file_)),
        node_(init_rpc(with_leases(0, how, file_))) {
    unsetenv(rank_variable);
  }

  const node& here() const { return *node_; }
  rank_process& other() { return other_; }

  std::string plan(const std::string& from) const {
    for (const auto& way : node_->transport_plan("rank1"))
      if (way.which.starts_with("on " + from)) return way.way + ": " + way.reason;
    return "no way";
  }

  /// Until both ranks lease.
  void wait_for_leases(const std::string& device) {
    EXPECT_TRUE(eventually([&] { return plan(device).starts_with("leased"); })) << plan(device);
    std::string there;
    EXPECT_TRUE(eventually([&] {
      there = node_->rpc_sync<&leased_plan>("rank1", device);
      return there.starts_with("leased");
    })) << there;
  }

  void end() {
    node_->shutdown(true, time_limit);
    EXPECT_TRUE(eventually([&] { return other_.ended(); }) && other_.ended_well());
    node_.reset();
  }

private:
  const temporary_folder folder_;
  const std::string file_;
  rank_process other_;
  std::optional<node> node_;
};

// On devices of one type.
class leased_devices : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (simulated()) {
      accelerator::install_ipc();
      slow_.emplace(std::chrono::milliseconds(1));
    }
    if (detail::device_count(detail::place_of(c10::Device(device())).where) == 0)
      GTEST_SKIP() << "libtorch finds no " << GetParam();
    job_.emplace(leased_setup{.kind = GetParam()});
    job_->wait_for_leases(device());
    node_ = &job_->here();
  }

  bool simulated() const { return GetParam() == "sim"; }
  std::string device() const { return GetParam() + ":0"; }
  at::TensorOptions there() const { return at::TensorOptions().device(device()); }
  at::Tensor coming(double value, std::int64_t size) const {
    return at::full({size}, value - 1, there()).add_(1);
  }
  static void expect_leased(const at::Tensor& t, double value) {
    EXPECT_TRUE(t.cpu().equal(at::full(t.sizes(), value))) << t.cpu().sum().item<float>();
  }
  leased_job& job() { return *job_; }

  /// In use here, when tests before have let go of theirs.
  static std::size_t settled_bytes() {
    EXPECT_TRUE(eventually([] { return accelerator::bytes_in_use() == 0; }));
    return accelerator::bytes_in_use();
  }

  const node* node_ = nullptr;

private:
  std::optional<accelerator::slow> slow_;
  std::optional<leased_job> job_;
};
INSTANTIATE_TEST_SUITE_P(devices, leased_devices, testing::Values("sim", "cuda"),
                         [](const auto& info) { return info.param; });

TEST_P(leased_devices, touch_no_host_memory_in_either_direction) {
  std::vector<at::Tensor> all;
  for (int i = 0; i < 20; ++i) all.push_back(coming(i, i % 2 == 0 ? 1 : 300'000));
  const auto before = accelerator::counted();
  const auto [host_before, up_before, on_before] = node_->rpc_sync<&leased_copies>("rank1");
  std::vector<at::Tensor> back;
  for (const auto& x : all) back.push_back(node_->rpc_sync<&leased_twice>("rank1", x));
  const auto after = accelerator::counted();
  const auto [host_after, up_after, on_after] = node_->rpc_sync<&leased_copies>("rank1");
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(back[static_cast<std::size_t>(i)].device().str(), device());
    expect_leased(back[static_cast<std::size_t>(i)], 2.0 * i);
  }
  if (!simulated()) return job().end();
  EXPECT_EQ(after.copies_to_host, before.copies_to_host);
  EXPECT_EQ(after.copies_to_device, before.copies_to_device);
  EXPECT_EQ(host_after, host_before);
  EXPECT_EQ(up_after, up_before);
  // Each is copied aside here, and comes back by one copy; there it is copied once, and its answer,
  // which nobody else has, is not.
  EXPECT_EQ(after.copies_on_device, before.copies_on_device + 40);
  EXPECT_EQ(on_after, on_before + 20);
  EXPECT_EQ(after.device_synchronizations, before.device_synchronizations);
  job().end();
}

TEST_P(leased_devices, have_the_values_that_they_had_when_the_call_was_made) {
  auto x = coming(0, 200'000);
  for (int i = 0; i < 30; ++i) {
    x.fill_(i);
    auto answer = node_->rpc_async<&leased_twice>("rank1", x);
    x.fill_(-1);
    expect_leased(answer.get(), 2.0 * i);
  }
  expect_leased(x, -1);
  job().end();
}

TEST_P(leased_devices, are_the_receivers_own) {
  const auto x = coming(3, 10'000);
  expect_leased(node_->rpc_sync<&leased_plus_one>("rank1", x), 4);
  expect_leased(x, 3);
  // Moved in: not even copied aside.
  const auto before = accelerator::counted();
  auto y = coming(5, 10'000);
  const auto back = node_->rpc_sync<&leased_plus_one>("rank1", std::move(y));
  if (simulated()) {
    EXPECT_EQ(accelerator::counted().copies_on_device, before.copies_on_device + 1);
  }
  expect_leased(back, 6);
  job().end();
}

TEST_P(leased_devices, share_what_they_shared_and_keep_their_gaps) {
  const auto base = at::arange(100'000, there());
  EXPECT_TRUE(node_->rpc_sync<&leased_share>(
      "rank1", std::vector<at::Tensor>{base, base.slice(0, 10, 20), base.view({100, 1'000}).t()}));
  const auto strided = base.view({100, 1'000}).slice(1, 0, 1'000, 7);
  const auto back = node_->rpc_sync<&leased_twice>("rank1", strided);
  EXPECT_TRUE(back.cpu().equal(strided.cpu() * 2));
  EXPECT_TRUE(base.cpu().equal(at::arange(100'000)));
  EXPECT_TRUE(node_->rpc_sync<&leased_twice>("rank1", base.slice(0, 500, 90'000))
                  .cpu()
                  .equal(at::arange(500, 90'000) * 2));
  EXPECT_EQ(node_->rpc_sync<&leased_twice>("rank1", at::zeros({0, 3}, there())).numel(), 0);
  job().end();
}

TEST_P(leased_devices, use_their_memory_again_and_leave_nothing) {
  const auto begun = settled_bytes();
  const auto before = accelerator::counted();
  for (int round = 0; round < 5; ++round) {
    std::vector<future<at::Tensor>> answers;
    for (int i = 0; i < 40; ++i)
      answers.push_back(node_->rpc_async<&leased_twice>("rank1", coming(i, 1'000 * (i % 4 + 1))));
    for (int i = 0; i < 40; ++i) expect_leased(answers[static_cast<std::size_t>(i)].get(), 2.0 * i);
  }
  if (simulated()) {
    EXPECT_TRUE(eventually([&] { return accelerator::bytes_in_use() == begun; }))
        << accelerator::bytes_in_use() << " instead of " << begun;
    EXPECT_GT(accelerator::counted().reused, before.reused);
  }
  EXPECT_LE(node_->rpc_sync<&leased_allocations>("rank1"), 33u);
  job().end();
  EXPECT_TRUE(eventually([] { return leased_allocations() == 0; }));
}

TEST_P(leased_devices, are_free_when_the_receivers_process_has_ended) {
  if (!simulated()) GTEST_SKIP() << "a GPU's streams cannot be held up";
  const auto begun = settled_bytes();
  node_->rpc_sync<&leased_stand_still>("rank1");
  auto answer = node_->rpc_async<&leased_to>("rank1", coming(1, 300'000));
  EXPECT_EQ(answer.get(), "sim:1");  // the copy has not begun
  std::this_thread::sleep_for(50ms);
  EXPECT_GT(accelerator::bytes_in_use(), begun) << "the lease has ended too early";
  job().other().kill();
  EXPECT_TRUE(eventually([&] { return accelerator::bytes_in_use() == begun; }));
  EXPECT_THROW(node_->rpc_sync<&leased_twice>("rank1", coming(1, 300'000)), error);
  EXPECT_TRUE(eventually([&] { return accelerator::bytes_in_use() == begun; }));
}

TEST_P(leased_devices, are_whole_although_their_senders_process_has_ended) {
  if (!simulated()) GTEST_SKIP() << "CUDA does not promise it";
  leased_came() = false;
  const accelerator::slow slower(std::chrono::milliseconds(300));
  EXPECT_THROW(node_->rpc_sync<&leased_and_killed>("rank1", "sim:0"), error);
  EXPECT_TRUE(eventually([&] { return job().other().ended(); }));
  ASSERT_TRUE(leased_came());
  expect_leased(*leased_kept(), 2);
  leased_kept().reset();
  EXPECT_TRUE(eventually([] { return leased_allocations() == 0; }));
}

// The other way, where there is none of memory from device to device.
class devices_without_leases : public testing::Test {
protected:
  void SetUp() override { accelerator::install_ipc(); }
  void TearDown() override { accelerator::set_exportable(true); }
  static at::Tensor made(double value) {
    return at::full({1'000}, value, at::TensorOptions().device("sim:0"));
  }
};

TEST_F(devices_without_leases, go_through_host_memory_by_tcp) {
  leased_job job({.kind = "sim", .transport = "tcp"});
  EXPECT_THAT(job.plan("sim:0"), StartsWith("copied through host memory: the transport"));
  const auto before = accelerator::counted();
  EXPECT_TRUE(
      job.here().rpc_sync<&leased_twice>("rank1", made(4)).cpu().equal(at::full({1'000}, 8.0)));
  EXPECT_EQ(accelerator::counted().copies_to_host, before.copies_to_host + 2);
  EXPECT_EQ(accelerator::counted().exports, before.exports);
  job.end();
}

TEST_F(devices_without_leases, go_through_host_memory_where_it_cannot_be_exported) {
  leased_job job({.kind = "sim"});
  job.wait_for_leases("sim:0");
  accelerator::set_exportable(false);
  EXPECT_TRUE(
      job.here().rpc_sync<&leased_twice>("rank1", made(4)).cpu().equal(at::full({1'000}, 8.0)));
  // By the map.
  EXPECT_THAT(job.plan("sim:2"), StartsWith("copied to host memory"));
  EXPECT_EQ(job.here().rpc_sync<&leased_to>("rank1",
                                            at::ones({1'000}, at::TensorOptions().device("sim:2"))),
            "cpu");
  job.end();
}

TEST_F(devices_without_leases, go_through_host_memory_to_a_process_that_opens_none) {
  leased_job job({.kind = "sim", .opens = false});
  constexpr auto why =
      "copied through host memory: the other process does not open memory on sim:1";
  EXPECT_TRUE(eventually([&] { return job.plan("sim:0") == why; })) << job.plan("sim:0");
  EXPECT_TRUE(
      job.here().rpc_sync<&leased_twice>("rank1", made(4)).cpu().equal(at::full({1'000}, 8.0)));
  job.end();
}

TEST_F(devices_without_leases, go_through_host_memory_once_the_other_could_not_open_some) {
  leased_job job({.kind = "sim"});
  job.wait_for_leases("sim:0");
  job.here().rpc_sync<&leased_open_none>("rank1");
  try {
    job.here().rpc_sync<&leased_to>("rank1", made(4));
    ADD_FAILURE() << "it was opened";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), HasSubstr("opens no memory"));
  }
  EXPECT_TRUE(eventually([&] {
    return job.plan("sim:0") == "copied through host memory: the node could not open such memory";
  })) << job.plan("sim:0");
  EXPECT_EQ(job.here().rpc_sync<&leased_to>("rank1", made(4)), "sim:1");
  job.end();
}

TEST_F(devices_without_leases, are_refused_where_lending_is_strict) {
  leased_job job({.kind = "sim", .strict = true});
  EXPECT_TRUE(eventually([&] { return job.plan("sim:0").starts_with("leased"); }));
  EXPECT_EQ(job.here().rpc_sync<&leased_to>("rank1", made(4)), "sim:1");
  accelerator::set_exportable(false);
  try {
    job.here().rpc_sync<&leased_to>("rank1", made(4));
    ADD_FAILURE() << "it was copied";
  } catch (const transport_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("a tensor on sim:0 for sim:1 of rank 1"));
    EXPECT_THAT(e.what(), HasSubstr("exports no memory"));
    EXPECT_THAT(e.what(), HasSubstr("lend_strictly"));
  }
  job.end();
}

TEST_F(devices_without_leases, are_refused_where_lending_is_strict_and_the_other_opens_none) {
  leased_job job({.kind = "sim", .strict = true, .opens = false});
  EXPECT_TRUE(eventually([&] { return job.plan("sim:0").starts_with("refused"); }));
  EXPECT_THROW(job.here().rpc_sync<&leased_to>("rank1", made(4)), transport_error);
  job.end();
}

}  // namespace
}  // namespace troupe::test
