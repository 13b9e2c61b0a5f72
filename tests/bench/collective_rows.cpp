// Collectives by bytes: blocking calls on tensors, through a process group.

#include "tests/bench/collective_rows.hpp"

#include <ATen/ATen.h>
#include <sched.h>
#include <sys/mman.h>

#include <new>
#include <numeric>
#include <troupe/collectives.hpp>
#include <troupe/troupe.hpp>

#include "tests/bench/collective_plan.hpp"

namespace troupe::bench {

namespace {

// Operations with their tensors, of one size.
struct exercise {
  std::function<void()> write;  // what programs do with the tensors between two operations
  std::function<void()> run;
  std::function<bool()> right;
};

using tensor_maker = at::Tensor (*)(std::int64_t elements);

at::Tensor in_arena(std::int64_t elements) { return at::zeros({elements}); }

// Memory of the program's own, on huge pages as the arena is: what operations stage.
at::Tensor outside_arena(std::int64_t elements) {
  constexpr std::size_t page = 2 << 20;
  const auto bytes = (static_cast<std::size_t>(elements) * 4 + page - 1) / page * page;
  void* memory = nullptr;
  if (posix_memalign(&memory, page, bytes) != 0) throw std::bad_alloc();
  madvise(memory, bytes, MADV_HUGEPAGE);
  return at::from_blob(memory, {elements}, [](void* old) { std::free(old); }).zero_();
}

float last_of(const at::Tensor& x) { return x.const_data_ptr<float>()[x.numel() - 1]; }

// A line at a time, as whoever uses an output does.
void read_lines(const at::Tensor& x) {
  const auto* values = x.const_data_ptr<float>();
  float sum = 0;
  for (std::int64_t i = 0; i < x.numel(); i += 16) sum += values[i];
  volatile float sink = sum;
  static_cast<void>(sink);
}

class exercises {
public:
  exercises(process_group group, tensor_maker make)
      : group_(std::move(group)), make_(make), last_(static_cast<float>(group_.size() - 1)) {}

  exercise of(const std::string& name, std::size_t bytes) const {
    const collective_shape shape(bytes, group_.size());
    if (name == "barrier") return barriers();
    if (name == "all_reduce") return all_reduces(shape, false);
    if (name == "all_reduce_async") return all_reduces(shape, true);
    if (name == "broadcast") return broadcasts(shape, false);
    if (name == "broadcast_rewrite") return broadcasts(shape, true);
    if (name == "all_gather") return all_gathers(shape);
    if (name == "all_gather_list") return all_gathers_of_lists(shape);
    if (name == "reduce_scatter") return reduce_scatters(shape);
    return all_to_alls(shape);
  }

private:
  float rank() const { return static_cast<float>(group_.rank()); }

  exercise barriers() const {
    return {[] {}, [group = group_] { barrier(group); }, [] { return true; }};
  }

  exercise all_reduces(const collective_shape& shape, bool by_work) const {
    const auto x = make_(shape.elements);
    const auto run = [group = group_, x, by_work] {
      if (by_work)
        all_reduce(group, x, async).wait();
      else
        all_reduce(group, x);
    };
    return {[x] { x.fill_(1); }, run, [=, sum = last_ + 1] { return last_of(x) == sum; }};
  }

  exercise broadcasts(const collective_shape& shape, bool rewritten) const {
    const auto x = make_(shape.elements);
    const auto run = [group = group_, x, rewritten] {
      broadcast(group, x, 0);
      if (rewritten) x.fill_(0);
    };
    return {[x, value = rank()] { x.fill_(value); }, run, [x] { return last_of(x) == 0; }};
  }

  exercise all_gathers(const collective_shape& shape) const {
    const auto x = make_(shape.elements), all = make_(shape.elements * group_.size());
    return {[x, all, value = rank()] {
              x.fill_(value);
              read_lines(all);
            },
            [group = group_, x, all] { all_gather_into_tensor(group, all, x); },
            [all, last = last_] { return last_of(all) == last; }};
  }

  exercise all_gathers_of_lists(const collective_shape& shape) const {
    const auto x = make_(shape.elements);
    std::vector<at::Tensor> all;
    for (int p = 0; p < group_.size(); ++p) all.push_back(make_(shape.elements));
    return {[x, all, value = rank()] {
              x.fill_(value);
              for (const auto& one : all) read_lines(one);
            },
            [group = group_, x, all] { all_gather(group, all, x); },
            [all, last = last_] { return last_of(all.back()) == last; }};
  }

  exercise reduce_scatters(const collective_shape& shape) const {
    const auto x = make_(shape.part * group_.size()), part = make_(shape.part);
    return {[x, part] {
              x.fill_(1);
              read_lines(part);
            },
            [group = group_, x, part] { reduce_scatter_tensor(group, part, x); },
            [part, sum = last_ + 1] { return last_of(part) == sum; }};
  }

  exercise all_to_alls(const collective_shape& shape) const {
    const auto x = make_(shape.part * group_.size()), parts = make_(shape.part * group_.size());
    return {[x, parts, value = rank()] {
              x.fill_(value);
              read_lines(parts);
            },
            [group = group_, x, parts] { all_to_all_single(group, parts, x); },
            [parts, last = last_] { return last_of(parts) == last; }};
  }

  const process_group group_;
  const tensor_maker make_;
  const float last_;
};

// Of each operation, in seconds.
std::vector<double> times_of_slowest(const process_group& group, const exercise& what,
                                     const collective_effort& how) {
  auto taken = at::empty({how.times}, at::kDouble);
  auto* seconds = taken.mutable_data_ptr<double>();
  for (int i = -how.warm_up; i < how.times; ++i) {
    what.write();
    barrier(group);
    barrier(group);
    const auto before = clock::now();
    what.run();
    if (i >= 0) seconds[i] = seconds_since(before);
  }
  if (!what.right()) throw internal_error("the result of a collective is wrong");
  all_reduce(group, taken, reduce_op::max);
  seconds = taken.mutable_data_ptr<double>();
  return {seconds, seconds + how.times};
}

measurement measured_collective(const process_group& group, const exercise& what,
                                std::size_t bytes) {
  const auto probe = times_of_slowest(group, what, collective_effort::probe());
  const auto how = collective_effort::of(percentile(probe, 0));
  return times_of(times_of_slowest(group, what, how), bytes);
}

// The calling thread on a core of its rank's, as the launchers of the MPIs do it.
class bound_to_core {
public:
  explicit bound_to_core(int rank) {
    sched_getaffinity(0, sizeof before_, &before_);
    auto left = rank % CPU_COUNT(&before_);
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &before_) && left-- == 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof one, &one);
      }
  }
  ~bound_to_core() { sched_setaffinity(0, sizeof before_, &before_); }
  bound_to_core(const bound_to_core&) = delete;
  bound_to_core& operator=(const bound_to_core&) = delete;

private:
  cpu_set_t before_;
};

// The world, or one whose ranks do not copy what they need not.
process_group group_for(const node& here, const std::string& name) {
  const auto world = here.world();
  const bool lent = name.ends_with("_lent"), shared = name.ends_with("_shared");
  if (!lent && !shared) return world;
  std::string operation = timed_operation(name);
  if (operation == "all_gather" && shared) operation = "all_gather_into_tensor";
  if (operation == "all_gather_list") operation = "all_gather";
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  return world.new_group(
      all, {.backend_options = {{"collectives", operation + (lent ? ":lend>=0" : ":shared>=0")}}});
}

std::vector<measurement> measured_row(const node& here, const std::string& name) {
  const auto group = group_for(here, name);
  const bound_to_core bound(group.rank());
  const auto what = timed_operation(name);
  const exercises all(group, name.ends_with("_staged") ? outside_arena : in_arena);
  if (what == "barrier") return {measured_collective(group, all.of(what, 0), 0)};
  std::vector<measurement> out;
  for (const auto bytes : collective_sizes)
    if (is_timed(name, bytes))
      out.push_back(measured_collective(group, all.of(what, bytes), bytes));
  return out;
}

}  // namespace

const std::map<std::string, row>& collective_rows() {
  static const std::map<std::string, row> all = [] {
    std::map<std::string, row> rows;
    for (const auto* name : {"all_gather",
                             "all_gather_list",
                             "all_gather_list_lent",
                             "all_gather_shared",
                             "all_gather_staged",
                             "all_reduce",
                             "all_reduce_async",
                             "all_reduce_oversubscribed",
                             "all_reduce_shared",
                             "all_reduce_staged",
                             "all_to_all",
                             "all_to_all_staged",
                             "barrier",
                             "barrier_oversubscribed",
                             "broadcast",
                             "broadcast_lent",
                             "broadcast_rewrite",
                             "broadcast_staged",
                             "reduce_scatter",
                             "reduce_scatter_staged"})
      rows[name] = [name](const node& here) { return measured_row(here, name); };
    // Between hosts: the same by another road.
    for (const std::string operation : {"all_gather", "all_reduce", "all_to_all", "broadcast"})
      for (const std::string where : {"", "_two_a_host"})
        for (const std::string rate : {"", "_1g", "_10g"}) {
          const auto name = "tcp_" + operation + where + rate;
          rows[name] = [name](const node& here) { return measured_row(here, name); };
        }
    return rows;
  }();
  return all;
}

}  // namespace troupe::bench
