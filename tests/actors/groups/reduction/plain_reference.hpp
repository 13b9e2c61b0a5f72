#pragma once

// Reductions as plain loops over one element of each rank, for tests.

#include <c10/core/ScalarType.h>
#include <c10/util/complex.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "troupe/actors/groups/reduction/reduce_op.hpp"

namespace troupe::test {

/// One element of each rank, combined as the documentation says it.
template <class T>
struct plain_reference {
  static T combine(reduce_op op, const std::vector<T>& x, const std::vector<double>& factors) {
    if constexpr (std::is_same_v<T, bool>) {
      bool r = x[0];
      for (std::size_t p = 1; p < x.size(); ++p) {
        if (op == reduce_op::sum || op == reduce_op::max || op == reduce_op::bor) r = r || x[p];
        if (op == reduce_op::product || op == reduce_op::min || op == reduce_op::band)
          r = r && x[p];
        if (op == reduce_op::bxor) r = r != x[p];
      }
      return r;
    } else if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      T r = x[0];
      for (std::size_t p = 1; p < x.size(); ++p) {
        const auto a = static_cast<std::uint64_t>(r), b = static_cast<std::uint64_t>(x[p]);
        switch (op) {
          case reduce_op::sum:
          case reduce_op::avg: r = static_cast<T>(static_cast<U>(a + b)); break;
          case reduce_op::product: r = static_cast<T>(static_cast<U>(a * b)); break;
          case reduce_op::min: r = std::min(r, x[p]); break;
          case reduce_op::max: r = std::max(r, x[p]); break;
          case reduce_op::band: r = static_cast<T>(a & b); break;
          case reduce_op::bor: r = static_cast<T>(a | b); break;
          case reduce_op::bxor: r = static_cast<T>(a ^ b); break;
          default: break;
        }
      }
      if (op == reduce_op::avg) {
        if constexpr (std::is_signed_v<T>)
          r = static_cast<T>(static_cast<std::int64_t>(r) / static_cast<std::int64_t>(x.size()));
        else
          r = static_cast<T>(r / x.size());
      }
      return r;
    } else {
      using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const auto scale = [&](std::size_t p) {
        return static_cast<A>(op == reduce_op::premul_sum ? factors[p] : 1);
      };
      volatile A r = static_cast<A>(x[0]) * scale(0);  // volatile: each operation rounds
      for (std::size_t p = 1; p < x.size(); ++p) {
        const volatile A b = static_cast<A>(x[p]) * scale(p);
        const A left = r, right = b;
        switch (op) {
          case reduce_op::product: r = left * right; break;
          case reduce_op::min:
            r = std::isnan(left) || std::isnan(right) ? std::numeric_limits<A>::quiet_NaN()
                                                      : std::min(left, right);
            break;
          case reduce_op::max:
            r = std::isnan(left) || std::isnan(right) ? std::numeric_limits<A>::quiet_NaN()
                                                      : std::max(left, right);
            break;
          default: r = left + right; break;
        }
      }
      if (op == reduce_op::avg) r = r / static_cast<A>(x.size());
      return static_cast<T>(static_cast<A>(r));
    }
  }
};
template <class T>
struct plain_reference<c10::complex<T>> {
  static c10::complex<T> combine(reduce_op op, const std::vector<c10::complex<T>>& x,
                                 const std::vector<double>& factors) {
    std::vector<T> re, im;
    for (const auto& z : x) re.push_back(z.real()), im.push_back(z.imag());
    return c10::complex<T>(plain_reference<T>::combine(op, re, factors),
                           plain_reference<T>::combine(op, im, factors));
  }
};

/// Of random bits: any integer, and floating-point values with some that are not finite.
template <class T>
T drawn(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, bool>) {
    return bits & 1;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits);
  } else if constexpr (c10::is_complex<T>::value) {
    using part = std::decay_t<decltype(T().real())>;
    return T(drawn<part>(bits), drawn<part>(bits * 31 + 7));
  } else {
    if (bits % 61 == 0) return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
    if (bits % 67 == 0) return static_cast<T>(std::numeric_limits<float>::infinity());
    return static_cast<T>((static_cast<float>(bits % 2001) - 1000) / 128);
  }
}

/// The same value; NaNs are one.
template <class T>
bool reduced_alike(const T& a, const T& b) {
  if constexpr (c10::is_complex<T>::value) {
    return reduced_alike(a.real(), b.real()) && reduced_alike(a.imag(), b.imag());
  } else if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
    return a == b;
  } else {
    const auto x = static_cast<double>(a), y = static_cast<double>(b);
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  }
}

}  // namespace troupe::test
