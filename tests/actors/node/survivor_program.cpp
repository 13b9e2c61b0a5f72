// A rank of a job in which some are killed:
//   survivor_program RANK WORLD_SIZE FOLDER SEED VICTIMS end|elect
// Calls all others without pause until the victims (ranks, "1,3") are lost, and a while longer.
// Exits with 0 when each call ended as it must, with 1 and a line for each thing that was wrong
// otherwise. It reports that it has begun by a file FOLDER/ready<RANK>.

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <sys/prctl.h>

#include <atomic>
#include <caf/send.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/actors/node/kill_run.hpp"
#include "tests/actors/node/rank_functions.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe::test {

namespace {

using namespace std::chrono_literals;
using rank_t = std::uint32_t;

// Longer than any call takes that works.
constexpr auto time_limit = 100s;
constexpr int threads = 3;
constexpr int rounds_after = 40;  // of each thread, when the victims are gone

at::Tensor echo(const at::Tensor& x) { return x; }

int ask_another(rank_t whom, int x) {
  return this_node().rpc_sync<&plus_one>(whom, x, timeout(time_limit));
}

// A value that others refer to.
class box {
public:
  int add(int x) { return sum_ += x; }
  future<void> never() { return nobody_keeps_it_.get_future(); }

private:
  promise<void> nobody_keeps_it_;
  std::atomic<int> sum_{0};
};

int plus_one_to(int& x) { return x + 1; }

int add_to_box(rref<box> where, int x) { return where.rpc_sync<&box::add>(x, timeout(time_limit)); }

// The references that others have given to this process.
std::mutex kept_mutex;
std::vector<rref<box>> kept;
void keep_reference(rref<box> one) {
  const std::lock_guard lock(kept_mutex);
  kept.push_back(std::move(one));
}
std::vector<rref<box>> kept_references() {
  const std::lock_guard lock(kept_mutex);
  return kept;
}

struct look {};
TROUPE_MESSAGE(look)
using watchman = actor<answers<look, std::vector<int>>>;

// Answers how often it was notified of the end of each.
watchman::behavior_type watch(watchman::pointer self, const std::vector<counter>& whom) {
  auto seen = std::make_shared<std::vector<int>>(whom.size());
  self->set_down_handler([=](const caf::down_msg& m) {
    for (std::size_t i = 0; i < whom.size(); ++i)
      if (whom[i].address() == m.source) ++(*seen)[i];
  });
  for (const auto& one : whom) self->monitor(one);
  return {[seen](look) { return *seen; }};
}

// Answers how often it was notified of the death of each rank.
using mourner = actor<answers<look, std::vector<int>>, accepts<member_event>>;

mourner::behavior_type mourn(mourner::pointer, rank_t ranks) {
  auto deaths = std::make_shared<std::vector<int>>(ranks);
  return {[deaths](look) { return *deaths; },
          [deaths](const member_event& e) {
            if (e.what == member_change::died) ++deaths->at(e.who.id);
          }};
}

class survivor {
public:
  survivor(node here, std::set<rank_t> victims, std::uint64_t seed, bool job_ends)
      : here_(std::move(here)), victims_(std::move(victims)), seed_(seed), job_ends_(job_ends) {}

  int run(const std::string& folder) {
    std::vector<counter> watched;
    for (const auto victim : victims_) {
      watched.push_back(here_.spawn_on<count_from>(victim, 0));
      watched.push_back(here_.spawn_on<count_from>(victim, 0));
    }
    const auto watching = here_.spawn(watch, watched);
    const auto mourning = here_.spawn(mourn, ranks_);
    here_.watch_members(caf::actor_cast<member_watcher>(mourning));
    ask(watching);
    for (rank_t rank = 0; rank < ranks_; ++rank) {
      boxes_[rank] = here_.remote<box>(rank);
      if (rank != here_.rank())
        here_.rpc_sync<&keep_reference>(rank, here_.make_rref(std::in_place_type<box>));
    }
    for (const auto victim : victims_) {
      hanging_.emplace_back(victim, here_.rpc_async<&never_answer>(victim, timeout(0s)));
      hanging_.emplace_back(victim, boxes_[victim].rpc_async<&box::never>(timeout(0s)));
    }
    std::vector<std::thread> working;
    for (int i = 0; i < threads; ++i) working.emplace_back([this, i] { work(i); });
    std::ofstream(folder + "/ready" + std::to_string(here_.rank())) << std::flush;
    wait_for_the_loss();
    for (auto& one : working) one.join();
    if (job_ends_) {
      if (here_.in_job()) wrong("the job goes on without its leader");
    } else {
      expect_each_once(watching, std::vector<int>(watched.size(), 1), "DOWN");
      std::vector<int> deaths(ranks_);
      for (const auto victim : victims_) deaths[victim] = 1;
      expect_each_once(mourning, deaths, "member_event");
      // Those that handlers here make for others end too.
      // Once without any is enough: ranks that still work have handlers here make new ones.
      const auto deadline = clock::now() + time_limit;
      auto left = here_.debug_info().calls_in_flight;
      for (; left > 0 && clock::now() < deadline; left = here_.debug_info().calls_in_flight)
        std::this_thread::sleep_for(1ms);
      if (left > 0) wrong(std::to_string(left) + " calls are left over");
      expect_no_references();
    }
    const bool slow = !end();
    return failed_ ? 1 : slow ? ended_slowly : 0;
  }

private:
  void wrong(const std::string& what) {
    failed_ = true;
    std::fprintf(stderr, "rank %u, seed %lu: %s\n", here_.rank(), seed_, what.c_str());
  }

  template <class Actor>
  std::vector<int> ask(const Actor& whom) {
    return request(whom, look{}, timeout(time_limit)).get();
  }

  // Waits until that is so; one more would be an error, also when it comes later.
  template <class Actor>
  void expect_each_once(const Actor& whom, const std::vector<int>& wanted, const char* what) {
    const auto deadline = clock::now() + time_limit;
    auto counts = ask(whom);
    while (counts != wanted && clock::now() < deadline) {
      std::this_thread::sleep_for(1ms);
      counts = ask(whom);
    }
    if (counts == wanted) return;
    std::string text;
    for (const int n : counts) text += " " + std::to_string(n);
    wrong(std::string("wrong numbers of ") + what + ":" + text);
  }

  // What the victims held is dropped here, and what they owned is referred to by nothing.
  void expect_no_references() {
    boxes_.clear();
    hanging_.clear();  // the future of a call on a reference has it too
    {
      const std::lock_guard lock(kept_mutex);
      kept.clear();
    }
    const auto deadline = clock::now() + time_limit;
    debug_info left;
    do {
      left = here_.debug_info();
      if (left.owner_rrefs + left.user_rrefs + left.rref_forks == 0) return;
      std::this_thread::sleep_for(1ms);
    } while (clock::now() < deadline);
    wrong(std::to_string(left.owner_rrefs) + " values, " + std::to_string(left.user_rrefs) +
          " references and " + std::to_string(left.rref_forks) + " forks are left over");
  }

  // Their calls that hang end with the loss, and with nothing else.
  void wait_for_the_loss() {
    for (auto& [victim, call] : hanging_) {
      if (!call.wait_for(time_limit)) {
        wrong("a call to rank " + std::to_string(victim) + " has not ended");
        break;
      }
      try {
        call.get();
        wrong("a victim has answered");
      } catch (const peer_lost& e) {
        const bool names_the_end =
            std::string(e.what()).find("the job ends with it") != std::string::npos;
        if (e.node() != "worker" + std::to_string(victim) || names_the_end != job_ends_)
          wrong(std::string("not why the call has ended: ") + e.what());
      } catch (const std::exception& e) {
        wrong(std::string("another error: ") + e.what());
      }
    }
    all_lost_ = true;
  }

  // Runs what involves these ranks: it may only fail by the loss of one of them that is a victim.
  template <class F>
  void ends_rightly(std::initializer_list<rank_t> involved, F&& f) {
    try {
      f();
    } catch (const peer_lost& e) {
      if (std::string(e.what()).find("the job ends with it") != std::string::npos) {
        if (!job_ends_) wrong(std::string("the job has ended: ") + e.what());
        return;
      }
      // The others may know earlier that the job has ended, and go.
      const std::string_view why = e.what();
      if (job_ends_ && (why.find("closed the connection") != why.npos ||
                        why.find("its process has ended") != why.npos))
        return;
      for (const auto rank : involved)
        if (victims_.contains(rank) && e.node() == "worker" + std::to_string(rank)) return;
      wrong(std::string("the loss of another node than was called: ") + e.what());
    } catch (const std::exception& e) {
      wrong(std::string("another error: ") + e.what());
    }
  }

  void work(int thread) {
    std::mt19937_64 random(seed_ * 1000 + here_.rank() * 10 + thread);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    struct account {
      counter whose;
      int sum = 0;
    };
    std::map<rank_t, account> accounts;
    for (int after = 0; after < rounds_after && !failed_;) {
      if (all_lost_) ++after;
      const auto to = static_cast<rank_t>((here_.rank() + 1 + below(ranks_ - 1)) % ranks_);
      const auto third = static_cast<rank_t>(below(ranks_));
      switch (below(10)) {
        case 0:
          ends_rightly({to},
                       [&] { expect(here_.rpc_sync<&plus_one>(to, 1, timeout(time_limit)), 2); });
          break;
        case 1:
          ends_rightly({to, third}, [&] {
            expect(here_.rpc_sync<&ask_another>(to, third, 7, timeout(time_limit)), 8);
          });
          break;
        case 2:
        case 3: ends_rightly({to}, [&] { send_tensor(to, below(1000)); }); break;
        case 4:
          ends_rightly({to}, [&] {
            auto& mine = accounts[to];
            if (!mine.whose) mine = {here_.spawn_on<count_from>(to, 0)};
            // In order and each once: the answer is the sum of all.
            for (int i = 1; i <= 5; ++i) caf::anon_send(mine.whose, note{i});
            mine.sum += 18;
            expect(request(mine.whose, add{3}, timeout(time_limit)).get(), mine.sum);
          });
          break;
        case 6:  // it is the owner, and this node a user
          ends_rightly({to}, [&] {
            const auto sum = here_.remote<&plus_one>(to, 1, timeout(time_limit));
            expect(sum.rpc_sync<&plus_one_to>(timeout(time_limit)), 3);
            expect(sum.to_here(timeout(time_limit)), 2);
          });
          break;
        case 7:
          ends_rightly({to, third}, [&] {
            const auto mine = here_.remote<box>(third, timeout(time_limit));
            expect(here_.rpc_sync<&add_to_box>(to, mine, 5, timeout(time_limit)), 5);
            here_.rpc_sync<&add_to_box>(to, boxes_.at(third), 5, timeout(time_limit));
          });
          break;
        case 8: {
          const auto all = kept_references();
          if (all.empty()) break;
          const auto& one = all[below(all.size())];
          ends_rightly({one.owner().id, to}, [&] {
            one.rpc_sync<&box::add>(1, timeout(time_limit));
            here_.rpc_sync<&add_to_box>(to, one, 1, timeout(time_limit));
          });
          break;
        }
        case 9:  // values that are fetched from one rank by another
          ends_rightly({to, third}, [&] {
            const auto a = here_.remote<&plus_one>(third, 1, timeout(time_limit));
            const auto b = here_.remote<&plus_one>(to, a, timeout(time_limit));
            expect(b.to_here(timeout(time_limit)), 3);
          });
          break;
        case 5: {
          std::vector<std::pair<rank_t, future<int>>> calls;
          for (int i = 0; i < 20; ++i)
            ends_rightly({to}, [&] {
              calls.emplace_back(to, here_.rpc_async<&plus_one>(to, i, timeout(time_limit)));
            });
          for (auto& [whom, call] : calls) ends_rightly({whom}, [&] { call.get(); });
          break;
        }
      }
    }
  }

  void expect(int value, int wanted) {
    if (value != wanted)
      wrong("an answer is " + std::to_string(value) + " instead of " + std::to_string(wanted));
  }

  // 4 B, 64 KiB or somewhat over 1 MiB.
  void send_tensor(rank_t to, std::int64_t seed) {
    static constexpr std::int64_t sizes[] = {1, 16 << 10, 300'000};
    const auto sent = at::arange(seed, seed + sizes[seed % 3], at::kInt);
    const auto back = here_.rpc_sync<&echo>(to, sent, timeout(time_limit));
    if (!at::equal(sent, back)) wrong("a tensor came back as another one");
  }

  // False: it has taken so long that it may have waited for something.
  bool end() {
    const auto start = clock::now();
    try {
      here_.shutdown(true, time_limit);
      if (job_ends_) wrong("the shutdown of a job that has ended did not fail");
    } catch (const peer_lost& e) {
      if (!job_ends_) wrong(std::string("the shutdown failed: ") + e.what());
    } catch (const std::exception& e) {
      wrong(std::string("the shutdown failed: ") + e.what());
    }
    return clock::now() - start < 4s;  // rank 0 waits five seconds for leave notices
  }

  const node here_;
  const rank_t ranks_ = here_.world_size();  // at first
  const std::set<rank_t> victims_;
  const std::uint64_t seed_;
  const bool job_ends_;
  std::vector<std::pair<rank_t, future<void>>> hanging_;  // calls to the victims
  std::map<rank_t, rref<box>> boxes_;                     // on each rank; read only by threads
  std::atomic<bool> all_lost_{false};
  std::atomic<bool> failed_{false};
};

}  // namespace

}  // namespace troupe::test

int main(int, char** argv) {
  using namespace troupe::test;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string folder = argv[3];
  const auto seed = std::stoull(argv[4]);
  std::set<rank_t> victims;
  std::istringstream list(argv[5]);
  for (std::string one; std::getline(list, one, ',');)
    victims.insert(static_cast<rank_t>(std::stoul(one)));
  const bool elects = std::string(argv[6]) == "elect";
  troupe::log().set_level(spdlog::level::critical);  // what fails here is meant to
  try {
    troupe::rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = std::stoi(argv[2]);
    options.init_method = "file://" + folder + "/meet";
    const std::string over = argv[7];
    options.transport = over == "tcp"       ? troupe::backend::tcp
                        : over == "ucx_tcp" ? troupe::backend::ucx_tcp
                                            : troupe::backend::shared_memory;
    options.trusted_network = over == "ucx_tcp";
    if (elects) options.on_leader_loss = troupe::leader_loss::elect;
    return survivor(troupe::init_rpc(options), victims, seed, victims.contains(0) && !elects)
        .run(folder);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %s, seed %s: %s\n", argv[1], argv[4], failure.what());
    return 1;
  }
}
