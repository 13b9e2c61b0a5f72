// Rule 8 of docs/collectives_shared.md where a borrower is killed: the lender has its memory back.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/actors/groups/shared/backend_processes.hpp"
#include "troupe/actors/groups/backend/collective_error.hpp"
#include "troupe/actors/groups/shared/quarantine.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::groups {
namespace {

using test::asked_operation;
using test::forked_exchange;
using test::values;

constexpr std::int64_t lent_elements = 20'000;

enum class lent_by : std::uint8_t { broadcast, list, send };

// Rank 0 lends what it has to the others, which keep it in what this returns.
std::vector<at::Tensor> lend_to_all(backend& on, int rank, forked_exchange& all, lent_by how,
                                    at::Tensor& lent) {
  std::vector<at::Tensor> kept;
  if (how == lent_by::broadcast) {
    kept.push_back(rank == 0 ? lent : at::empty({lent_elements}));
    asked_operation(operation_kind::broadcast, {}, {kept[0]}).run(on);
  } else if (how == lent_by::list) {
    std::vector<at::Tensor> list;
    if (rank == 0) list.assign(3, lent);
    kept.push_back(at::empty({lent_elements}));
    asked_operation(operation_kind::scatter, list, kept).run(on);
  } else {
    // Nobody takes it.
    if (rank == 0 && (on.lend(lent, 1) == 0 || on.lend(lent, 2) == 0))
      throw std::logic_error("it is not lent");
    all.wait_for_all();
  }
  return kept;
}

std::size_t bytes_in_use() { return transport::installed_arena()->count().in_use; }

bool ends_in_time(const std::vector<std::byte>& process) {
  pid_t pid = 0;
  std::memcpy(&pid, process.data(), sizeof pid);
  pollfd one{static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  return poll(&one, 1, 60'000) == 1;
}

// Rank 0, whose borrowers are killed. Its group goes, or stays although it has failed.
int lend_to_the_dead(std::unique_ptr<backend>& on, int rank, forked_exchange& all, lent_by how,
                     bool group_stays) {
  const auto me = getpid();
  const auto pids = all.all_gather(std::as_bytes(std::span(&me, 1)));
  const auto before = bytes_in_use();
  auto lent = rank == 0 ? values(3, lent_elements) : at::Tensor();
  auto kept = lend_to_all(*on, rank, all, how, lent);
  all.wait_for_all();
  if (rank > 0) raise(SIGKILL);
  CHECK_OR_RETURN(ends_in_time(pids[1]) && ends_in_time(pids[2]), 1);
  kept.clear();
  // The group does not know yet: what was lent stays as it is, for whoever may read it.
  CHECK_OR_RETURN(bytes_in_use() - before >= lent_elements * sizeof(float), 2);
  on->abort(std::make_exception_ptr(group_failed("ranks 1 and 2 are lost")));
  if (group_stays) {
    const auto copies = copy_on_write::count().copies;
    lent.fill_(1);
    CHECK_OR_RETURN(copy_on_write::count().copies == copies, 3);
    lent.reset();
  } else {
    lent.reset();
    on.reset();
    release_quarantined();
  }
  if (bytes_in_use() == before) return 0;
  std::fprintf(stderr, "%zu bytes in use, %zu before\n", bytes_in_use(), before);
  return 4;
}

TEST(SharedBorrowers, GiveAllBackByTheirDeath) {
  for (const auto how : {lent_by::broadcast, lent_by::list, lent_by::send})
    for (const bool group_stays : {false, true}) {
      SCOPED_TRACE(static_cast<int>(how));
      forked_exchange exchange(3);
      std::vector<pid_t> children;
      for (int rank = 0; rank < 3; ++rank) {
        children.push_back(fork());
        if (children.back() != 0) continue;
        int status = 99;
        try {
          auto on = test::backend_of_child(exchange, rank, 3,
                                           "broadcast:lend>=0,scatter:lend>=0,send:lend>=0");
          status = lend_to_the_dead(on, rank, exchange, how, group_stays);
        } catch (const std::exception& e) {
          std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        }
        _exit(status);
      }
      EXPECT_EQ(troupe::test::status_of(children[0]), 0) << "the group stays: " << group_stays;
      for (const int rank : {1, 2})
        EXPECT_EQ(troupe::test::status_of(children[static_cast<std::size_t>(rank)]), -1);
    }
}

}  // namespace
}  // namespace troupe::groups
