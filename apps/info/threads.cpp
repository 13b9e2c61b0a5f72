#include "troupe/apps/info/threads.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <cstdlib>

namespace troupe::info {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "not set";
}

}  // namespace

report threads() {
  return {{"intra_op", at::get_num_threads()},
          {"inter_op", at::get_num_interop_threads()},
          {"OMP_NUM_THREADS", variable("OMP_NUM_THREADS")},
          {"MKL_NUM_THREADS", variable("MKL_NUM_THREADS")},
          {"cpu_capability", at::get_cpu_capability()}};
}

}  // namespace troupe::info
