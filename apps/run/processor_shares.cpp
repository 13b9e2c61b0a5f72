#include "troupe/apps/run/processor_shares.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <tuple>

namespace troupe::launcher {

namespace {

// The first number in the file. -1: the kernel does not say, as in some containers.
int topology(int processor, const char* what) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/{}", processor, what));
  int value = -1;
  file >> value;
  return file ? value : -1;
}

// Its first hardware thread names a core: numbers of cores begin anew in each die or cluster.
int core_of(int processor) {
  for (const char* list : {"core_cpus_list", "thread_siblings_list"})
    if (const auto first = topology(processor, list); first >= 0) return first;
  return processor;
}

struct span_of_rank {
  std::size_t first, last;  // without the last
};

span_of_rank divide(std::size_t things, std::size_t rank, std::size_t ranks) {
  if (ranks > things) return {rank % things, rank % things + 1};
  return {things * rank / ranks, things * (rank + 1) / ranks};
}

}  // namespace

std::vector<processor> usable_processors() {
  cpu_set_t mine;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0)
    throw std::system_error(
        errno, std::generic_category(),
        errno == EINVAL
            ? fmt::format("--pin: this machine has more than {} processors", int{CPU_SETSIZE})
            : std::string("--pin: cannot ask which processors there are"));
  std::vector<processor> all;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &mine)) continue;
    all.push_back({i, topology(i, "physical_package_id"), core_of(i)});
  }
  std::ranges::sort(
      all, {}, [](const processor& one) { return std::tuple(one.package, one.core, one.number); });
  return all;
}

std::vector<int> share_of(const std::vector<processor>& of, int local_rank, int ranks) {
  std::vector<std::size_t> cores;  // where each begins in `of`
  for (std::size_t i = 0; i < of.size(); ++i)
    if (i == 0 || of[i].package != of[i - 1].package || of[i].core != of[i - 1].core)
      cores.push_back(i);
  const auto rank = static_cast<std::size_t>(local_rank);
  const auto count = static_cast<std::size_t>(ranks);
  span_of_rank mine{};
  if (count <= cores.size()) {
    const auto [first, last] = divide(cores.size(), rank, count);
    mine = {cores[first], last < cores.size() ? cores[last] : of.size()};
  } else {
    mine = divide(of.size(), rank, count);
  }
  std::vector<int> out;
  for (auto i = mine.first; i < mine.last; ++i) out.push_back(of[i].number);
  return out;
}

cpu_set_t set_of(const std::vector<int>& processors) {
  cpu_set_t out;
  CPU_ZERO(&out);
  for (const int one : processors) CPU_SET(one, &out);
  return out;
}

std::string ranges(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    auto end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ",", numbers[i]);
    if (end - i > 1) out += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace troupe::launcher
