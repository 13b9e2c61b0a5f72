#include "troupe/transport/memory/fork_guard.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "troupe/transport/memory/arena_table.hpp"

namespace troupe::transport::fork_guard {

namespace {

// In the child: what SIGSEGV was for the program.
constinit struct sigaction before {};
constinit bool watching = false;

bool is_guarded(std::uintptr_t address) {
  for (const auto& one : arena_table::entries)
    if (one.has(address)) return true;
  return false;
}

// Async-signal-safe.
void on_wrong_access(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (info->si_code > 0 && is_guarded(address)) {
    constexpr char text[] =
        "troupe: this process was forked, and has used a tensor of its parent: tensors lie in "
        "memory that only the parent has (see \"arena\" in docs/transport.md). Use exec after "
        "fork, or fork before init_rpc.\n";
    [[maybe_unused]] const auto wrote = ::write(STDERR_FILENO, text, sizeof text - 1);
  }
  ::sigaction(SIGSEGV, &before, nullptr);
  watching = false;
  // An access comes again as this returns. A signal that was sent has to be sent again.
  if (info->si_code <= 0) ::raise(signal);
  errno = error;
}

// Runs on the only thread of the new process: what it calls must be async-signal-safe.
void in_forked_child() {
  const int error = errno;  // of the program's fork()
  bool any = false;
  for (const auto& one : arena_table::entries) {
    const auto size = one.size.load(std::memory_order_relaxed);
    if (size == 0) continue;
    any = true;
    // Other memory at these addresses would be taken for the parent's tensors.
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the table has addresses that may be compared
    auto* const begin = reinterpret_cast<void*>(one.begin.load(std::memory_order_relaxed));
    [[maybe_unused]] const auto* const there = ::mmap(
        begin, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  if (any) {
    detail::off.store(true);
    if (!watching) {
      struct sigaction action {};
      action.sa_sigaction = &on_wrong_access;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      ::sigemptyset(&action.sa_mask);
      watching = ::sigaction(SIGSEGV, &action, &before) == 0;
    }
  }
  errno = error;
}

}  // namespace

void watch() noexcept {
  [[maybe_unused]] static const int once = pthread_atfork(nullptr, nullptr, &in_forked_child);
}

}  // namespace troupe::transport::fork_guard
