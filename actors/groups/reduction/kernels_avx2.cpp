// The kernels for processors with avx2.
#if defined(__x86_64__)
#define TROUPE_KERNELS avx2
#define TROUPE_KERNEL_TARGET __attribute__((target("avx2,f16c")))
#define TROUPE_VECTOR_BYTES 32
#include "troupe/actors/groups/reduction/kernels_internal.hpp"
#endif
