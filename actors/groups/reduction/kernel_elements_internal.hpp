// Elements as vectors: how they are loaded, in what they are combined, how they are stored.
// Included once for each instruction set, by kernels_internal.hpp, inside the namespace of that
// set.

template <class T>
struct vector_of {
  typedef T type __attribute__((vector_size(TROUPE_VECTOR_BYTES)));
};
template <class T, std::size_t Lanes>
struct lanes_of {
  typedef T type __attribute__((vector_size(sizeof(T) * Lanes)));
};

#define TROUPE_INLINE TROUPE_KERNEL_TARGET __attribute__((always_inline)) inline

template <class V>
TROUPE_INLINE void load_vector(V& to, const std::byte* from) {
  __builtin_memcpy(&to, from, sizeof to);
}

// Past the caches where `at` is aligned for it.
template <class V>
TROUPE_INLINE void store_vector(std::byte* at, const V& from, bool streaming) {
#if defined(__x86_64__)
  if (streaming && reinterpret_cast<std::uintptr_t>(at) % sizeof(V) == 0) {
    if constexpr (sizeof(V) == 16) {
      __m128i bits;
      __builtin_memcpy(&bits, &from, sizeof bits);
      _mm_stream_si128(reinterpret_cast<__m128i*>(at), bits);
      return;
    }
#if TROUPE_VECTOR_BYTES >= 32
    if constexpr (sizeof(V) == 32) {
      __m256i bits;
      __builtin_memcpy(&bits, &from, sizeof bits);
      _mm256_stream_si256(reinterpret_cast<__m256i*>(at), bits);
      return;
    }
#endif
#if TROUPE_VECTOR_BYTES >= 64
    if constexpr (sizeof(V) == 64) {
      __m512i bits;
      __builtin_memcpy(&bits, &from, sizeof bits);
      _mm512_stream_si512(reinterpret_cast<__m512i*>(at), bits);
      return;
    }
#endif
  }
#endif
  (void)streaming;
  __builtin_memcpy(at, &from, sizeof from);
}

// Combined as they are stored.
template <class T>
struct plain {
  using storage = T;
  using value = typename vector_of<T>::type;
  static constexpr std::size_t lanes = TROUPE_VECTOR_BYTES / sizeof(T);

  TROUPE_INLINE static void load(value& to, const std::byte* from) { load_vector(to, from); }
  TROUPE_INLINE static void store(std::byte* at, const value& from, bool streaming) {
    store_vector(at, from, streaming);
  }
};

// Any byte but 0 is true.
struct boolean : plain<std::uint8_t> {
  TROUPE_INLINE static void load(value& to, const std::byte* from) {
    load_vector(to, from);
    to = (value)(to != 0) & 1;
  }
};

// Stored in fewer bits, combined in float32.
template <class Storage>
struct narrow {
  using storage = Storage;
  using value = typename vector_of<float>::type;
  static constexpr std::size_t lanes = TROUPE_VECTOR_BYTES / sizeof(float);
  using stored = typename lanes_of<Storage, lanes>::type;
  using bits = typename vector_of<std::uint32_t>::type;
};

// The upper half of a float32; rounded to nearest, ties to even, as c10::BFloat16 does.
struct brain : narrow<std::uint16_t> {
  TROUPE_INLINE static void load(value& to, const std::byte* from) {
    stored in;
    load_vector(in, from);
    to = (value)(__builtin_convertvector(in, bits) << 16);
  }
  TROUPE_INLINE static void store(std::byte* at, const value& from, bool streaming) {
    const bits raw = (bits)from;
    const bits rounded = (raw + 0x7fff + ((raw >> 16) & 1)) >> 16;
    const bits none = (bits)(from != from);
    const bits out = (rounded & ~none) | (none & 0x7fc0);
    store_vector(at, __builtin_convertvector(out, stored), streaming);
  }
};

#if TROUPE_VECTOR_BYTES >= 32
struct half : narrow<std::uint16_t> {
  TROUPE_INLINE static void load(value& to, const std::byte* from) {
#if TROUPE_VECTOR_BYTES >= 64
    __m256i in;
    load_vector(in, from);
    to = (value)_mm512_maskz_cvtph_ps(__mmask16(-1), in);
#else
    __m128i in;
    load_vector(in, from);
    to = (value)_mm256_cvtph_ps(in);
#endif
  }
  TROUPE_INLINE static void store(std::byte* at, const value& from, bool streaming) {
#if TROUPE_VECTOR_BYTES >= 64
    const __m256i out =
        _mm512_maskz_cvtps_ph(__mmask16(-1), (__m512)from, _MM_FROUND_TO_NEAREST_INT);
#else
    const __m128i out = _mm256_cvtps_ph((__m256)from, _MM_FROUND_TO_NEAREST_INT);
#endif
    store_vector(at, out, streaming);
  }
};
#endif

// Converted one by one, by c10.
template <class Element, class Storage>
struct converted : narrow<Storage> {
  using typename narrow<Storage>::value;
  using narrow<Storage>::lanes;

  TROUPE_INLINE static void load(value& to, const std::byte* from) {
    Element in[lanes];
    float out[lanes];
    __builtin_memcpy(in, from, sizeof in);
    for (std::size_t i = 0; i < lanes; ++i) out[i] = static_cast<float>(in[i]);
    __builtin_memcpy(&to, out, sizeof to);
  }
  TROUPE_INLINE static void store(std::byte* at, const value& from, bool) {
    float in[lanes];
    Element out[lanes];
    __builtin_memcpy(in, &from, sizeof in);
    for (std::size_t i = 0; i < lanes; ++i) out[i] = Element(in[i]);
    __builtin_memcpy(at, out, sizeof out);
  }
};
#if TROUPE_VECTOR_BYTES < 32
using half = converted<c10::Half, std::uint16_t>;
#endif
