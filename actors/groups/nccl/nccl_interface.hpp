#pragma once

#include <climits>
#include <cstddef>

// The binary interface of NCCL 2.x, as its documentation describes it. Troupe is built where no
// CUDA is, and opens the library at run time. `nccl_interface_test` compares this with nccl.h where
// it is.
namespace troupe::groups::nccl {

struct opaque_communicator;
/// ncclComm_t.
using communicator_handle = opaque_communicator*;

struct opaque_window;
/// ncclWindow_t: memory that is registered with a communicator.
using window_handle = opaque_window*;

/// ncclUniqueId: by which the ranks of a new communicator find one another.
struct unique_id {
  char bytes[128];
};

/// ncclResult_t.
enum class result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7
};

/// ncclDataType_t.
enum class data_type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11
};

/// ncclRedOp_t. Those that `create_premul_sum` makes have higher numbers.
enum class reduction : int { sum = 0, product = 1, max = 2, min = 3, avg = 4 };

/// ncclScalarResidence_t.
enum class scalar_residence : int { device = 0, host_immediate = 1 };

/// What a field of `configuration` has that NCCL is to choose.
inline constexpr int not_set = INT_MIN;

/// ncclConfig_t of 2.28. Later libraries take it too, by its `size` and `version`; earlier ones
/// know fewer fields, and `configuration_for` leaves the others out.
struct configuration {
  std::size_t size = sizeof(configuration);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 22809;
  int blocking = not_set;
  int cga_cluster_size = not_set;
  int min_ctas = not_set;
  int max_ctas = not_set;
  const char* net_name = nullptr;
  int split_share = not_set;
  int traffic_class = not_set;
  const char* comm_name = nullptr;
  int collnet_enable = not_set;
  int cta_policy = not_set;
  int shrink_share = not_set;
  int nvls_ctas = not_set;
  int channels_per_net_peer = not_set;
  int nvlink_centric_scheduling = not_set;
};

/// Of ncclCommSplit: this rank is in none of the new communicators.
inline constexpr int no_color = -1;
/// Of ncclCommWindowRegister: all ranks register memory of the same size at the same place.
inline constexpr int symmetric_window = 1;
/// What windows must be aligned to.
inline constexpr std::size_t window_alignment = 4096;

}  // namespace troupe::groups::nccl
