// Linked into every program of a sanitizer preset: the options and suppressions that hold wherever
// the program is started from, child processes of tests included.

#if defined(TROUPE_SANITIZE_address)

#include <unistd.h>

extern "C" const char* __asan_default_options() {
  // Objects of libtorch and of Troupe meet at static destruction; odr: libtorch's libraries define
  // the same inline globals; null: tests ask for more memory than there is, and for std::bad_alloc.
  return "detect_odr_violation=0:strict_init_order=1:detect_stack_use_after_return=1:"
         "allocator_may_return_null=1";
}

extern "C" const char* __ubsan_default_options() { return "print_stacktrace=1"; }

extern "C" const char* __lsan_default_suppressions() {
  return "leak:libtorch_cpu.so\n"
         "leak:libc10.so\n"
         "leak:libgomp.so\n"
         "leak:libucs.so\n"
         "leak:libucp.so\n"
         "leak:libuct.so\n"
         "leak:libucm.so\n";
}

// A forked child has its parent's memory without the threads that know where it is: what the child
// does not free is no leak.
static const pid_t started_as = getpid();
extern "C" int __lsan_is_turned_off() { return getpid() != started_as; }

#elif defined(TROUPE_SANITIZE_thread)

extern "C" const char* __tsan_default_options() {
  return "second_deadlock_stack=1:ignore_noninstrumented_modules=1:allocator_may_return_null=1";
}

extern "C" const char* __tsan_default_suppressions() {
  // These libraries are not instrumented: the sanitizer sees their accesses, not their locks. And
  // libtorch marks an operation that has a successor by a plain write of `true`, from any thread
  // (torch/csrc/autograd/function.h), inline in our sources. share_owned (copy_on_write.cpp) gives
  // a storage another owner of the same address, under a lock that those do not take who only read
  // it.
  return "race:torch::autograd::Node::topological_nr\n"
         "race:share_owned\n"
         "race:libtorch_cpu.so\n"
         "race:libc10.so\n"
         "race:libgomp.so\n"
         "race:libucs.so\n"
         "race:libucp.so\n"
         "race:libuct.so\n"
         "race:libuct_cma.so\n"
         "race:libucm.so\n"
         "called_from_lib:libtorch_cpu.so\n"
         "called_from_lib:libgomp.so\n"
         "called_from_lib:libucs.so\n"
         "called_from_lib:libucp.so\n"
         "called_from_lib:libuct.so\n"
         "deadlock:libtorch_cpu.so\n"
         "deadlock:libucp.so\n"
         "deadlock:libucs.so\n";
}

#endif
