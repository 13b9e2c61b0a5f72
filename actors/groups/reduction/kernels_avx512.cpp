// The kernels for processors with avx512.
#if defined(__x86_64__)
#define TROUPE_KERNELS avx512
#define TROUPE_KERNEL_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c")))
#define TROUPE_VECTOR_BYTES 64
#include "troupe/actors/groups/reduction/kernels_internal.hpp"
#endif
