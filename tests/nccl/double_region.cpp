#include "double_region.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace troupe::test::nccl_double {

using groups::nccl::unique_id;

struct region::layout {
  rank_state ranks[most_ranks];
  pair_slot pairs[most_ranks][most_ranks];
  alignas(64) std::byte data[most_ranks][chunk];
  std::byte pair_data[most_ranks][most_ranks][pair_chunk];
};

// The descriptor stays open as long as the process: others may open it late.
unique_id region::make() {
  const int file = memfd_create("nccl_double", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(layout)) != 0)
    throw std::system_error(errno, std::generic_category(), "the memory of a communicator");
  unique_id out{};
  const auto text = fmt::format("/proc/{}/fd/{}", getpid(), file);
  std::memcpy(out.bytes, text.data(), text.size());
  return out;
}

std::shared_ptr<region> region::open(const unique_id& id) {
  const int file = ::open(id.bytes, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const at = mmap(nullptr, sizeof(layout), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (at == MAP_FAILED) return nullptr;
  return std::shared_ptr<region>(new region(static_cast<layout*>(at)));
}

region::~region() { munmap(at_, sizeof(layout)); }

region::rank_state& region::of(int rank) noexcept { return at_->ranks[rank]; }
std::byte* region::data_of(int rank) noexcept { return at_->data[rank]; }
region::pair_slot& region::pair(int from, int to) noexcept { return at_->pairs[from][to]; }
std::byte* region::data_of_pair(int from, int to) noexcept { return at_->pair_data[from][to]; }

}  // namespace troupe::test::nccl_double
