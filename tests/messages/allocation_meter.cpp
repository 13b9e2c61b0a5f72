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

void* operator new(std::size_t size) {
  auto& meter = troupe::testing::allocation_meter::local();
  meter.total += size;
  meter.largest = std::max(meter.largest, size);
  if (void* p = std::malloc(std::max<std::size_t>(size, 1))) return p;
  throw std::bad_alloc();
}

void* operator new[](std::size_t size) { return operator new(size); }

void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
