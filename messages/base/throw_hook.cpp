// Remembers where exceptions are thrown, in debug builds: the runtime's function that throws them
// is replaced by one that takes a backtrace first. An error that goes to another node then brings
// the calls that led to it.

#if !defined(NDEBUG) || defined(TROUPE_THROW_HOOK)

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <typeinfo>

#include "troupe/messages/base/error.hpp"

namespace troupe {

namespace {

// Of the calling thread.
struct last_throw {
  const void* object = nullptr;
  std::array<void*, 48> frames{};
  int count = 0;
};
thread_local last_throw thrown_here;

struct free_it {
  void operator()(void* what) const { std::free(what); }
};

// "program(_ZN3fooEv+0x12) [0x...]" with the function's name as people write it.
std::string readable(const std::string& line) {
  const auto open = line.find('(');
  const auto plus = line.find('+', open);
  if (open == line.npos || plus == line.npos || plus == open + 1) return line;
  int status = 0;
  const std::unique_ptr<char, free_it> name(abi::__cxa_demangle(
      line.substr(open + 1, plus - open - 1).c_str(), nullptr, nullptr, &status));
  return status == 0 ? name.get() : line.substr(open + 1, plus - open - 1);
}

std::string trace_of(const void* exception) {
  auto& last = thrown_here;
  if (!exception || last.object != exception) return {};
  const std::unique_ptr<char*, free_it> lines(backtrace_symbols(last.frames.data(), last.count));
  std::string out;
  for (int i = 1; lines && i < last.count; ++i) out += readable(lines.get()[i]) + '\n';
  return out;
}

[[maybe_unused]] const bool set = (set_throw_tracer(&trace_of), true);

}  // namespace

// As compilers declare it by themselves.
#ifdef __clang__
using thrown_type = std::type_info;
#else
using thrown_type = void;
#endif

}  // namespace troupe

extern "C" __attribute__((noreturn)) void __cxa_throw(void* object, troupe::thrown_type* type,
                                                      void (*destroy)(void*)) {
  auto& last = troupe::thrown_here;
  last.object = object;
  last.count = backtrace(last.frames.data(), static_cast<int>(last.frames.size()));
  using function = void (*)(void*, troupe::thrown_type*, void (*)(void*));
  static const auto next = reinterpret_cast<function>(dlsym(RTLD_NEXT, "__cxa_throw"));
  next(object, type, destroy);
  std::abort();  // it does not return
}

#endif
