#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "troupe/actors/groups/nccl/nccl_interface.hpp"

namespace troupe::groups::nccl {

/// The functions of a libnccl that was opened at run time. Those that a library lacks which is
/// older than they are are null. Stays open for ever: threads of NCCL may run in it. Immutable.
///
/// `stream` is the device's own handle of a stream (cudaStream_t): c10::Stream::native_handle.
struct nccl_functions {
  std::string library;  ///< as it was opened
  int version = 0;      ///< 22809: 2.28.9

  const char* (*get_error_string)(result) = nullptr;
  const char* (*get_last_error)(communicator_handle) = nullptr;
  result (*get_unique_id)(unique_id*) = nullptr;
  result (*init_rank_config)(communicator_handle*, int ranks, unique_id, int rank,
                             configuration*) = nullptr;
  result (*finalize)(communicator_handle) = nullptr;
  result (*destroy)(communicator_handle) = nullptr;
  result (*abort)(communicator_handle) = nullptr;
  result (*get_async_error)(communicator_handle, result*) = nullptr;
  result (*group_start)() = nullptr;
  result (*group_end)() = nullptr;

  result (*all_reduce)(const void* from, void* to, std::size_t count, data_type, int how,
                       communicator_handle, void* stream) = nullptr;
  result (*reduce)(const void* from, void* to, std::size_t count, data_type, int how, int root,
                   communicator_handle, void* stream) = nullptr;
  result (*broadcast)(const void* from, void* to, std::size_t count, data_type, int root,
                      communicator_handle, void* stream) = nullptr;
  result (*all_gather)(const void* from, void* to, std::size_t count, data_type,
                       communicator_handle, void* stream) = nullptr;
  result (*reduce_scatter)(const void* from, void* to, std::size_t count, data_type, int how,
                           communicator_handle, void* stream) = nullptr;
  result (*send)(const void* from, std::size_t count, data_type, int to, communicator_handle,
                 void* stream) = nullptr;
  result (*recv)(void* to, std::size_t count, data_type, int from, communicator_handle,
                 void* stream) = nullptr;
  result (*create_premul_sum)(int* made, void* factor, data_type, scalar_residence,
                              communicator_handle) = nullptr;
  result (*destroy_reduction)(int made, communicator_handle) = nullptr;

  // From 2.18, 2.27, 2.19 and 2.27 on.
  result (*split)(communicator_handle, int color, int key, communicator_handle*,
                  configuration*) = nullptr;
  result (*shrink)(communicator_handle, int* excluded, int count, communicator_handle*,
                   configuration*, int flags) = nullptr;
  result (*allocate)(void**, std::size_t) = nullptr;
  result (*release)(void*) = nullptr;
  result (*register_window)(communicator_handle, void*, std::size_t, window_handle*,
                            int flags) = nullptr;
  result (*deregister_window)(communicator_handle, window_handle) = nullptr;

  /// Opens a library, once. Throws invalid_argument, which says what was looked for
  /// and what is missing. Thread-safe.
  static std::shared_ptr<const nccl_functions> open(const std::string& library);
};

/// TROUPE_NCCL_LIBRARY, or the name by which the loader finds it: libnccl.so.2.
std::string default_library();

/// Throws transport_error, which names `function` and what the library says, if `what` is neither
/// success nor in_progress.
void check(const nccl_functions& functions, result what, const char* function,
           communicator_handle of = nullptr);

/// "2.28.9".
std::string version_text(int version);

}  // namespace troupe::groups::nccl
