#include "tests/messages/allocation_meter.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace troupe::testing {

allocation_meter& allocation_meter::local() noexcept {
  thread_local allocation_meter meter;
  return meter;
}

}  // namespace troupe::testing

// All of them, since they belong together.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  auto& meter = troupe::testing::allocation_meter::local();
  meter.total += size;
  meter.largest = std::max(meter.largest, size);
  return std::malloc(std::max<std::size_t>(size, 1));
}

void* operator new(std::size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}

void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return operator new(size, std::nothrow);
}

void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
