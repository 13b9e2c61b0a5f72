#include "troupe/actors/groups/reduction/reduction.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstring>

#include "troupe/actors/groups/reduction/kernel_table_internal.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

// A complex number is combined part by part: all operations that it has are linear.
c10::ScalarType part_of(c10::ScalarType dtype) noexcept {
  switch (dtype) {
    case c10::ScalarType::ComplexHalf: return c10::ScalarType::Half;
    case c10::ScalarType::ComplexFloat: return c10::ScalarType::Float;
    case c10::ScalarType::ComplexDouble: return c10::ScalarType::Double;
    default: return dtype;
  }
}

reduction_kernel kernel_of(instruction_set set, reduce_op op, c10::ScalarType dtype) {
#if defined(__x86_64__)
  if (set == instruction_set::avx512) return avx512::find_kernel(op, dtype);
  if (set == instruction_set::avx2) return avx2::find_kernel(op, dtype);
#endif
  return baseline::find_kernel(op, dtype);
}

#if defined(__x86_64__)
// clang's __builtin_cpu_supports does not know it.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

instruction_set best_set() {
  static const instruction_set best = available_instruction_sets().back();
  return best;
}

// Bytes are copied by the kernel that combines one array with none.
reduction_kernel copy_kernel() {
  static const reduction_kernel kernel =
      kernel_of(best_set(), reduce_op::bor, c10::ScalarType::Byte);
  return kernel;
}

}  // namespace

std::vector<instruction_set> available_instruction_sets() {
  std::vector<instruction_set> sets = {instruction_set::baseline};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && has_f16c()) sets.push_back(instruction_set::avx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    sets.push_back(instruction_set::avx512);
#endif
  return sets;
}

reduction::reduction(const char* function, reduce_op op, c10::ScalarType dtype)
    : reduction(function, op, dtype, best_set()) {}

reduction::reduction(const char* function, reduce_op op, c10::ScalarType dtype, instruction_set set)
    : parts_(c10::isComplexType(dtype) ? 2 : 1) {
  check_reduction(function, op, dtype);
  kernel_ = kernel_of(set, op, part_of(dtype));
  if (!kernel_)
    throw internal_error(std::string(function) + ": no kernel of " + reduction_name(op) + " for " +
                         c10::toString(dtype));
}

void reduction::run(std::span<const std::byte* const> sources,
                    std::span<std::byte* const> destinations, std::int64_t count, store_mode stores,
                    const double* factors) const noexcept {
  if (count <= 0) return;
  kernel_({.sources = sources.data(),
           .source_count = sources.size(),
           .destinations = destinations.data(),
           .destination_count = destinations.size(),
           .count = static_cast<std::size_t>(count * parts_),
           .factors = factors,
           .streaming = stores == store_mode::streaming});
}

void copy_bytes(std::byte* destination, const std::byte* source, std::size_t bytes,
                store_mode stores) noexcept {
  if (stores == store_mode::streaming)
    copy_to_all({&destination, 1}, source, bytes, stores);
  else if (bytes > 0)
    std::memcpy(destination, source, bytes);
}

void copy_to_all(std::span<std::byte* const> destinations, const std::byte* source,
                 std::size_t bytes, store_mode stores) noexcept {
  if (bytes == 0) return;
  copy_kernel()({.sources = &source,
                 .source_count = 1,
                 .destinations = destinations.data(),
                 .destination_count = destinations.size(),
                 .count = bytes,
                 .factors = nullptr,
                 .streaming = stores == store_mode::streaming});
}

}  // namespace troupe::groups
