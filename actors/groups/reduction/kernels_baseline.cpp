// The kernels for every processor.
#define TROUPE_KERNELS baseline
#define TROUPE_KERNEL_TARGET
#define TROUPE_VECTOR_BYTES 16
#include "troupe/actors/groups/reduction/kernels_internal.hpp"
