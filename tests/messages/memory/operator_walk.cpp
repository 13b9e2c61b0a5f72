#include "tests/messages/memory/operator_walk.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "tests/messages/memory/operator_inputs.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::test {

namespace {

constexpr unsigned limit_of_one = 3;  // seconds
constexpr unsigned limit_of_a_standstill = 10;
constexpr rlim_t memory_of_one = rlim_t{16} << 30;

// A tensor over memory as another process lends it: to write there is a crash.
at::Tensor borrow(const at::Tensor& of) {
  const auto bytes = std::max<std::size_t>(of.storage().nbytes(), 1);
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  std::memcpy(at, of.storage().data(), of.storage().nbytes());
  if (::mprotect(at, bytes, PROT_READ) != 0) throw std::runtime_error("no memory to protect");
  std::shared_ptr<std::byte> owner(static_cast<std::byte*>(at),
                                   [bytes](std::byte* p) { ::munmap(p, bytes); });
  auto out = at::empty({0}, of.options());
  out.set_(c10::Storage(c10::make_intrusive<c10::StorageImpl>(
               c10::StorageImpl::use_byte_size_t(),
               c10::SymInt(static_cast<std::int64_t>(of.storage().nbytes())),
               copy_on_write::read_only(std::move(owner)), c10::GetCPUAllocator(), true)),
           0, of.sizes(), of.strides());
  return out;
}

bool writes(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.arguments(), [](const auto& one) {
    return one.alias_info() && one.alias_info()->isWrite();
  });
}

// Whether two results are the same, as far as they are tensors with defined contents.
bool same(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor() && b.isTensor()) {
    const auto &x = a.toTensor(), &y = b.toTensor();
    if (x.defined() != y.defined()) return false;
    if (!x.defined() || x.layout() != c10::kStrided || x.numel() == 0 || x.is_quantized() ||
        !x.device().is_cpu())
      return true;
    if (x.sizes() != y.sizes() || x.scalar_type() != y.scalar_type()) return false;
    return at::allclose(x.to(at::kComplexDouble), y.to(at::kComplexDouble), 1e-5, 1e-6, true);
  }
  if (a.isTensorList() && b.isTensorList()) {
    const auto x = a.toTensorVector(), y = b.toTensorVector();
    return std::ranges::equal(
        x, y, [](const auto& l, const auto& r) { return same(c10::IValue(l), c10::IValue(r)); });
  }
  return true;
}

bool same_results(const torch::jit::Stack& a, const torch::jit::Stack& b) {
  try {
    return std::ranges::equal(a, b, same);
  } catch (const std::exception&) {  // such tensors cannot be compared
    return true;
  }
}

// libtorch keeps references into the stack of arguments while it replaces them by several results.
bool returns_references(const c10::FunctionSchema& schema) {
  return schema.returns().size() > 1 && schema.returns()[0].alias_info() != nullptr;
}

std::optional<torch::jit::Stack> call(const c10::OperatorHandle& op, int recipe, std::int64_t size,
                                      const tensor_maker& make) {
  auto stack = make_inputs(op.schema(), recipe, size, make);
  at::manual_seed(1);
  if (stack) op.callBoxed(*stack);
  return stack;
}

at::Tensor clone(const at::Tensor& t) { return t.clone(); }

// The results of two calls with usual inputs and of one with borrowed ones. Some results are what
// their memory held before, or depend on which thread was first: what differs does so each time.
struct three_results {
  torch::jit::Stack usual, again, borrowed;
};
bool differs(const c10::OperatorHandle& op, int recipe, std::int64_t size, three_results found) {
  for (int i = 0; i < 5; ++i) {
    if (!same_results(found.usual, found.again) || same_results(found.usual, found.borrowed))
      return false;
    found = {*call(op, recipe, size, clone), *call(op, recipe, size, clone),
             *call(op, recipe, size, borrow)};
  }
  return true;
}

/// One operator, in a child. `begun` is told when usual inputs have worked.
template <class Begun>
with_borrowed try_one(const c10::OperatorHandle& op, std::int64_t size, const Begun& begun) {
  if (returns_references(op.schema())) return with_borrowed::not_called;
  for (int recipe = 0; recipe < input_recipes(); ++recipe) {
    std::optional<torch::jit::Stack> usual, again;
    try {
      usual = call(op, recipe, size, clone);
      again = call(op, recipe, size, clone);  // not all results are defined
    } catch (const std::exception&) {
      continue;
    }
    if (!usual) return with_borrowed::not_called;
    begun();
    const auto before = copy_on_write::count().copies;
    std::optional<torch::jit::Stack> borrowed;
    try {
      borrowed = call(op, recipe, size, borrow);
    } catch (const std::exception&) {
      return with_borrowed::fails;
    }
    if (differs(op, recipe, size, {*usual, *again, *borrowed})) return with_borrowed::differs;
    if (writes(op.schema())) return with_borrowed::writes;
    return copy_on_write::count().copies != before ? with_borrowed::copies : with_borrowed::reads;
  }
  return with_borrowed::not_called;
}

struct report {
  std::uint32_t index;
  std::uint8_t stage;  // 0: it begins, 1: usual inputs have worked, 2 and more: a result
};

// From `first` on, until the end or a crash.
void walk_in_child(const std::vector<c10::OperatorHandle>& all, std::uint32_t first,
                   std::int64_t size, int threads, int pipe) {
  const rlimit memory{memory_of_one, memory_of_one};
  ::setrlimit(RLIMIT_AS, &memory);
  at::set_num_threads(threads);
  const c10::NoGradGuard no_gradients;
  const auto tell = [pipe](report what) {
    if (::write(pipe, &what, sizeof what) != sizeof what) ::_exit(3);
  };
  for (auto i = first; i < all.size(); ++i) {
    // Of the processor's time: the machine may be busy with something else.
    const itimerval limit{{0, 0}, {limit_of_one, 0}};
    ::setitimer(ITIMER_PROF, &limit, nullptr);
    ::alarm(limit_of_a_standstill);
    tell({i, 0});
    const auto found = try_one(all[i], size, [&] { tell({i, 1}); });
    tell({i, static_cast<std::uint8_t>(2 + static_cast<int>(found))});
  }
}

}  // namespace

std::map<std::string, with_borrowed> walk_operators(std::int64_t size, int threads) {
  std::vector<c10::OperatorHandle> all;
  std::vector<std::string> names;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
    if (name.name.starts_with("aten::"))
      if (auto op = c10::Dispatcher::singleton().findSchema(name)) {
        all.push_back(*op);
        names.push_back(name.overload_name.empty() ? name.name
                                                   : name.name + "." + name.overload_name);
      }
  std::map<std::string, with_borrowed> out;
  for (std::uint32_t next = 0; next < all.size();) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    const auto child = ::fork();
    if (child < 0) throw std::runtime_error("no process");
    if (child == 0) {
      ::close(ends[0]);
      const int nowhere = ::open("/dev/null", O_WRONLY);
      ::dup2(nowhere, 1);
      ::dup2(nowhere, 2);
      walk_in_child(all, next, size, threads, ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    report last{next, 0};
    for (report one; ::read(ends[0], &one, sizeof one) == sizeof one; last = one)
      if (one.stage >= 2) out[names[one.index]] = static_cast<with_borrowed>(one.stage - 2);
    ::close(ends[0]);
    int how = 0;
    ::waitpid(child, &how, 0);
    const auto ended_by = WIFSIGNALED(how) ? WTERMSIG(how) : 0;
    if (last.stage < 2)
      out[names[last.index]] = last.stage == 0 || ended_by == SIGPROF ? with_borrowed::not_called
                               : ended_by == SIGALRM                  ? with_borrowed::fails
                                                     : with_borrowed::writes_through;
    next = last.index + 1;
  }
  return out;
}

}  // namespace troupe::test
