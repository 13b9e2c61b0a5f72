#include "tests/actors/groups/nccl/nccl_testing.hpp"

#include <dlfcn.h>

#include <mutex>
#include <stdexcept>

#include "troupe/actors/groups/nccl/nccl_backend.hpp"

namespace troupe::test {

namespace {

std::string double_library() {
  return std::string(TROUPE_TEST_PROGRAM_DIR) + "/../libtroupe_nccl_double.so";
}

template <class Function>
Function function_of_double(const char* name) {
  void* const library = dlopen(double_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const found = library ? dlsym(library, name) : nullptr;
  if (!found) throw std::runtime_error(std::string("the double of NCCL has no ") + name);
  return reinterpret_cast<Function>(found);
}

}  // namespace

void register_nccl_double() {
  static std::once_flag once;
  std::call_once(once, [] {
    accelerator::install();
    groups::nccl::register_nccl("nccl_double", "sim", double_library());
  });
}

group_options on_nccl_double(group_options with) {
  register_nccl_double();
  with.backend = "cpu:troupe,sim:nccl_double";
  return with;
}

double_faults::double_faults(const std::string& text) {
  function_of_double<void (*)(const char*)>("troupe_nccl_double_set_faults")(text.c_str());
}

double_faults::~double_faults() {
  function_of_double<void (*)(const char*)>("troupe_nccl_double_set_faults")("");
}

std::uint64_t double_calls(const std::string& function) {
  return function_of_double<std::uint64_t (*)(const char*)>("troupe_nccl_double_calls")(
      function.c_str());
}

int double_communicators() {
  return function_of_double<int (*)()>("troupe_nccl_double_communicators")();
}

}  // namespace troupe::test
