#pragma once

// The shared backend between processes with arenas of their own.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/actors/groups/shared/forked_exchange.hpp"
#include "tests/forking.hpp"
#include "troupe/actors/groups/shared/shared_backend.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::groups::test {

inline backend_request request_of(forked_exchange& exchange, int rank, int size,
                                  const std::string& rules = {}) {
  backend_request out;
  out.group = "test";
  out.rank = rank;
  for (int p = 0; p < size; ++p)
    out.members.push_back({static_cast<std::uint32_t>(p), "worker" + std::to_string(p)});
  out.timeout = std::chrono::seconds(60);
  if (!rules.empty()) out.options["collectives"] = rules;
  out.exchange = &exchange;
  return out;
}

/// In a process of its own, which ends with the one that has forked it: rank `rank` with an arena.
/// Throws std::runtime_error where that is refused.
inline std::unique_ptr<backend> backend_of_child(forked_exchange& exchange, int rank, int ranks,
                                                 const std::string& rules = {}) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string why_not;
  transport::arena_options options;
  options.limit = std::size_t{64} << 20;
  if (!transport::install_arena(options, why_not)) throw std::runtime_error(why_not);
  exchange.become(rank);
  auto made = make_shared_backend(request_of(exchange, rank, ranks, rules), why_not);
  if (!made) throw std::runtime_error(why_not);
  return made;
}

/// Runs `f` as each rank in a process of its own, with an arena; all return 0.
template <class F>
void as_processes(int ranks, const F& f, const std::string& rules = {}) {
  forked_exchange exchange(ranks);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto child = fork();
    if (child == 0) {
      int status = 99;
      try {
        auto made = backend_of_child(exchange, rank, ranks, rules);
        if constexpr (std::is_invocable_v<const F&, backend&, int, forked_exchange&>)
          status = f(*made, rank, exchange);
        else
          status = f(made, rank, exchange);
        exchange.wait_for_all();
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
      }
      _exit(status);
    }
    children.push_back(child);
  }
  for (const auto child : children) EXPECT_EQ(troupe::test::status_of(child), 0);
}

/// One rank's operation, with its tensors.
struct asked_operation {
  std::vector<at::Tensor> inputs, outputs;
  std::vector<std::int64_t> input_splits, output_splits;
  operation what;

  asked_operation(operation_kind kind, std::vector<at::Tensor> in, std::vector<at::Tensor> out,
                  int root = 0)
      : inputs(std::move(in)), outputs(std::move(out)) {
    static std::uint64_t sequence = 0;
    what.kind = kind;
    what.root = root;
    what.sequence = ++sequence;
    for (const auto& t : inputs) what.dtype = t.scalar_type();
    for (const auto& t : outputs) what.dtype = t.scalar_type();
  }
  void run(backend& on) {
    what.inputs = inputs;
    what.outputs = outputs;
    what.input_splits = input_splits;
    what.output_splits = output_splits;
    on.run(what, time_limit(std::chrono::seconds(60)));
  }
};

inline at::Tensor values(int rank, std::int64_t count) {
  return at::arange(rank * 1000, rank * 1000 + count, at::kFloat);
}

}  // namespace troupe::groups::test

#define CHECK_OR_RETURN(condition, code) \
  if (!(condition)) return code
