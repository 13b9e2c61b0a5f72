#include "double_faults.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace troupe::test::nccl_double {

namespace {

struct wish {
  std::string function;
  int number;
  int rank;
  fault what;
  std::map<int, int> seen{};  // calls by rank
};

std::mutex mutex;
std::vector<wish>& wishes() {
  static std::vector<wish> all;
  return all;
}
std::map<std::string, std::uint64_t>& counted() {
  static std::map<std::string, std::uint64_t> all;
  return all;
}

fault parse(const std::string& text) {
  if (text == "fails") return {fault_kind::fails};
  if (text == "fails_later") return {fault_kind::fails_later};
  if (text == "hangs") return {fault_kind::hangs};
  if (text.starts_with("waits")) return {fault_kind::waits, std::atoi(text.c_str() + 5)};
  std::abort();
}

const bool from_environment = [] {
  if (const char* const set = std::getenv("TROUPE_NCCL_DOUBLE")) troupe_nccl_double_set_faults(set);
  return true;
}();

}  // namespace

fault next_fault(const std::string& function, int rank) {
  count_call(function);
  const std::lock_guard lock(mutex);
  for (auto& one : wishes()) {
    if (one.function != function || (one.rank >= 0 && one.rank != rank)) continue;
    if (++one.seen[rank] == one.number || one.number == 0) return one.what;
  }
  return {};
}

void count_call(const std::string& function) {
  const std::lock_guard lock(mutex);
  ++counted()[function];
}

std::uint64_t calls_of(const std::string& function) {
  const std::lock_guard lock(mutex);
  return counted()[function];
}

}  // namespace troupe::test::nccl_double

using namespace troupe::test::nccl_double;

void troupe_nccl_double_set_faults(const char* text) {
  std::vector<wish> all;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    std::istringstream parts(one);
    std::string function, number, rank, what;
    std::getline(parts, function, ':');
    std::getline(parts, number, ':');
    std::getline(parts, rank, ':');
    std::getline(parts, what, ':');
    all.push_back({function, std::atoi(number.c_str()), std::atoi(rank.c_str()), parse(what)});
  }
  const std::lock_guard lock(mutex);
  wishes() = std::move(all);
}

std::uint64_t troupe_nccl_double_calls(const char* function) { return calls_of(function); }
