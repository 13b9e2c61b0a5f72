// The kernels for one instruction set. A source defines
//   TROUPE_KERNELS        the namespace of the set
//   TROUPE_KERNEL_TARGET  the attribute by which a function is compiled for it
//   TROUPE_VECTOR_BYTES   how wide its vectors are
// and includes this. The attribute, not an option of the compiler: inline functions of other
// headers must not be compiled for more than every processor has, since the linker keeps one of
// each. Sources are compiled with -ffp-contract=off (actors/CMakeLists.txt): a product and a sum
// that become one operation would round otherwise than on processors without it.
#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e4m3fnuz.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Float8_e5m2fnuz.h>
#include <c10/util/Float8_e8m0fnu.h>
#include <c10/util/Half.h>

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "troupe/actors/groups/reduction/kernel_table_internal.hpp"

namespace troupe::groups::TROUPE_KERNELS {

namespace {

#include "troupe/actors/groups/reduction/kernel_elements_internal.hpp"

// What an operation does to a vector that was loaded, to two of them, and to the result.
struct combining {
  template <class V>
  TROUPE_INLINE static void loaded(V&, const reduction_job&, std::size_t) {}
  template <class V>
  TROUPE_INLINE static void finish(V&, const reduction_job&) {}
};
struct sum : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a += b;
  }
};
struct product : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a *= b;
  }
};
struct bit_and : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a &= b;
  }
};
struct bit_or : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a |= b;
  }
};
struct bit_xor : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a ^= b;
  }
};
// A NaN is kept: the comparison is false where `a` is one, the second condition true where `b` is.
struct minimum : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a = ((b < a) | (b != b)) ? b : a;
  }
};
struct maximum : combining {
  template <class V>
  TROUPE_INLINE static void combine(V& a, const V& b) {
    a = ((b > a) | (b != b)) ? b : a;
  }
};
template <class Scalar>
struct average : sum {
  template <class V>
  TROUPE_INLINE static void finish(V& a, const reduction_job& job) {
    a /= static_cast<Scalar>(job.source_count);
  }
};
// Summed without a sign, which wraps around; divided with the sign of `Scalar`, in 64 bits, since
// there may be more sources than `Scalar` counts. No processor divides vectors of integers.
template <class Scalar>
struct integer_average : sum {
  using wide = std::conditional_t<std::is_signed_v<Scalar>, std::int64_t, std::uint64_t>;

  template <class V>
  TROUPE_INLINE static void finish(V& a, const reduction_job& job) {
    Scalar lanes[sizeof(V) / sizeof(Scalar)];
    __builtin_memcpy(lanes, &a, sizeof a);
    for (auto& x : lanes)
      x = static_cast<Scalar>(static_cast<wide>(x) / static_cast<wide>(job.source_count));
    __builtin_memcpy(&a, lanes, sizeof a);
  }
};
template <class Scalar>
struct scaled_sum : sum {
  template <class V>
  TROUPE_INLINE static void loaded(V& a, const reduction_job& job, std::size_t source) {
    a *= static_cast<Scalar>(job.factors[source]);
  }
};

// So many vectors at a time are in registers.
constexpr std::size_t unrolled = 4;

template <class E, class Op>
TROUPE_INLINE void combine_block(const reduction_job& job, std::size_t at,
                                 typename E::value (&result)[unrolled]) {
  constexpr auto step = E::lanes * sizeof(typename E::storage);
  const auto* first = job.sources[0] + at;
  for (std::size_t u = 0; u < unrolled; ++u) {
    E::load(result[u], first + u * step);
    Op::loaded(result[u], job, 0);
  }
  for (std::size_t p = 1; p < job.source_count; ++p) {
    const auto* next = job.sources[p] + at;
    for (std::size_t u = 0; u < unrolled; ++u) {
      typename E::value x;
      E::load(x, next + u * step);
      Op::loaded(x, job, p);
      Op::combine(result[u], x);
    }
  }
  for (std::size_t u = 0; u < unrolled; ++u) Op::finish(result[u], job);
}

// All sources of a block are read before one destination is written: it may be one of them.
template <class E, class Op>
TROUPE_KERNEL_TARGET void combine_all(const reduction_job& job) {
  constexpr auto step = E::lanes * sizeof(typename E::storage);
  constexpr auto block = unrolled * step;
  const auto bytes = job.count * sizeof(typename E::storage);
  typename E::value result[unrolled];
  std::size_t at = 0;
  for (; at + block <= bytes; at += block) {
    combine_block<E, Op>(job, at, result);
    for (std::size_t q = 0; q < job.destination_count; ++q) {
      auto* to = job.destinations[q] + at;
      for (std::size_t u = 0; u < unrolled; ++u) E::store(to + u * step, result[u], job.streaming);
    }
  }
  if (at < bytes) {
    // The rest, with zeros behind it; one source after the other.
    const auto rest = bytes - at;
    alignas(64) std::byte padded[block] = {};
    for (std::size_t p = 0; p < job.source_count; ++p) {
      __builtin_memcpy(padded, job.sources[p] + at, rest);
      for (std::size_t u = 0; u < unrolled; ++u) {
        typename E::value x;
        E::load(x, padded + u * step);
        Op::loaded(x, job, p);
        if (p == 0)
          result[u] = x;
        else
          Op::combine(result[u], x);
      }
    }
    for (std::size_t u = 0; u < unrolled; ++u) {
      Op::finish(result[u], job);
      E::store(padded + u * step, result[u], false);
    }
    for (std::size_t q = 0; q < job.destination_count; ++q)
      __builtin_memcpy(job.destinations[q] + at, padded, rest);
  }
#if defined(__x86_64__)
  // Stores past the caches are not ordered by a release store after them.
  if (job.streaming) _mm_sfence();
#endif
}

template <class E>
reduction_kernel bitwise(reduce_op op) noexcept {
  switch (op) {
    case reduce_op::band: return combine_all<E, bit_and>;
    case reduce_op::bor: return combine_all<E, bit_or>;
    case reduce_op::bxor: return combine_all<E, bit_xor>;
    default: return nullptr;
  }
}

reduction_kernel of_boolean(reduce_op op) noexcept {
  switch (op) {
    case reduce_op::sum:
    case reduce_op::max: return combine_all<boolean, bit_or>;
    case reduce_op::product:
    case reduce_op::min: return combine_all<boolean, bit_and>;
    default: return bitwise<boolean>(op);
  }
}

template <class T>
reduction_kernel of_integer(reduce_op op) noexcept {
  using wrapping = plain<std::make_unsigned_t<T>>;
  switch (op) {
    case reduce_op::sum: return combine_all<wrapping, sum>;
    case reduce_op::product: return combine_all<wrapping, product>;
    case reduce_op::min: return combine_all<plain<T>, minimum>;
    case reduce_op::max: return combine_all<plain<T>, maximum>;
    case reduce_op::avg: return combine_all<wrapping, integer_average<T>>;
    default: return bitwise<wrapping>(op);
  }
}

template <class E, class Scalar>
reduction_kernel of_floating(reduce_op op) noexcept {
  switch (op) {
    case reduce_op::sum: return combine_all<E, sum>;
    case reduce_op::product: return combine_all<E, product>;
    case reduce_op::min: return combine_all<E, minimum>;
    case reduce_op::max: return combine_all<E, maximum>;
    case reduce_op::avg: return combine_all<E, average<Scalar>>;
    case reduce_op::premul_sum: return combine_all<E, scaled_sum<Scalar>>;
    default: return nullptr;
  }
}

template <class Element>
reduction_kernel of_byte_float(reduce_op op) noexcept {
  return of_floating<converted<Element, std::uint8_t>, float>(op);
}

}  // namespace

reduction_kernel find_kernel(reduce_op op, c10::ScalarType dtype) noexcept {
  switch (dtype) {
    case c10::ScalarType::Bool: return of_boolean(op);
    case c10::ScalarType::Byte: return of_integer<std::uint8_t>(op);
    case c10::ScalarType::Char: return of_integer<std::int8_t>(op);
    case c10::ScalarType::Short: return of_integer<std::int16_t>(op);
    case c10::ScalarType::Int: return of_integer<std::int32_t>(op);
    case c10::ScalarType::Long: return of_integer<std::int64_t>(op);
    case c10::ScalarType::UInt16: return of_integer<std::uint16_t>(op);
    case c10::ScalarType::UInt32: return of_integer<std::uint32_t>(op);
    case c10::ScalarType::UInt64: return of_integer<std::uint64_t>(op);
    case c10::ScalarType::Half: return of_floating<half, float>(op);
    case c10::ScalarType::BFloat16: return of_floating<brain, float>(op);
    case c10::ScalarType::Float: return of_floating<plain<float>, float>(op);
    case c10::ScalarType::Double: return of_floating<plain<double>, double>(op);
    case c10::ScalarType::Float8_e5m2: return of_byte_float<c10::Float8_e5m2>(op);
    case c10::ScalarType::Float8_e4m3fn: return of_byte_float<c10::Float8_e4m3fn>(op);
    case c10::ScalarType::Float8_e5m2fnuz: return of_byte_float<c10::Float8_e5m2fnuz>(op);
    case c10::ScalarType::Float8_e4m3fnuz: return of_byte_float<c10::Float8_e4m3fnuz>(op);

    case c10::ScalarType::Float8_e8m0fnu:
      return op == reduce_op::min || op == reduce_op::max ? of_byte_float<c10::Float8_e8m0fnu>(op)
                                                          : nullptr;
    default: return nullptr;
  }
}

}  // namespace troupe::groups::TROUPE_KERNELS

#undef TROUPE_INLINE
#undef TROUPE_KERNELS
#undef TROUPE_KERNEL_TARGET
#undef TROUPE_VECTOR_BYTES
