#include "troupe/apps/collectives/measuring.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "troupe/apps/collectives/exercise.hpp"

namespace collectives {

namespace {

using clock = std::chrono::steady_clock;

// The values that ranks have measured: of each, the largest. Ascending.
std::vector<double> largest(const troupe::process_group& group, const std::vector<double>& mine) {
  auto all = at::tensor(mine, at::kDouble);
  troupe::all_reduce(group, all, troupe::reduce_op::max);
  const auto* values = all.const_data_ptr<double>();
  std::vector<double> out(values, values + all.numel());
  std::ranges::sort(out);
  return out;
}

measurement measure_size(const troupe::process_group& group, const options& asked,
                         std::uint64_t size) {
  exercise what(group, asked, size);
  std::vector<double> seconds;
  for (std::uint64_t i = 0; i < asked.warmup + asked.iterations; ++i) {
    what.write();
    troupe::barrier(group);
    const auto before = clock::now();
    what.run();
    const std::chrono::duration<double> taken = clock::now() - before;
    if (i >= asked.warmup) seconds.push_back(taken.count());
  }
  measurement out;
  out.size = what.size();
  out.count = what.count();
  out.seconds = largest(group, seconds);
  if (asked.check) {
    what.write();
    what.forget_output();
    what.run();
    auto wrong = at::full({1}, what.wrong(), at::kLong);
    troupe::all_reduce(group, wrong);
    out.wrong = wrong.item<std::int64_t>();
  }
  return out;
}

}  // namespace

run_record measure(const troupe::process_group& group, const options& asked,
                   common::status_line* line) {
  run_record run{.asked = asked, .ranks = group.size(), .sizes = {}};
  if (line) line->say(table_head(run));
  for (auto size = asked.smallest; size <= asked.largest; size *= asked.factor) {
    run.sizes.push_back(measure_size(group, asked, size));
    if (line) line->say(table_line(run, run.sizes.back()));
    if (asked.op == operation::barrier || size > asked.largest / asked.factor) break;
  }
  if (line) line->say(table_end(run));
  return run;
}

}  // namespace collectives
