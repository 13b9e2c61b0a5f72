#include "troupe/transport/ucx/queue_shape.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace troupe::transport::ucx {

namespace {

// Bytes of a page of memory.
std::size_t page() noexcept {
  static const auto size = static_cast<std::size_t>(std::max(1L, sysconf(_SC_PAGESIZE)));
  return size;
}

// UCX 1.22: a place in the queue, the queue's head, and what a message has before its bytes.
constexpr std::size_t place_size = 128;
constexpr std::size_t head_size = 512;
constexpr std::size_t before_message = 256;

std::size_t whole_pages(std::size_t bytes) { return (bytes + page() - 1) / page() * page(); }

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

std::size_t queue_shape::memory() const noexcept {
  return whole_pages(places * place_size + head_size) +
         whole_pages(buffers() * (bytes + before_message)) + page();
}

queue_room look_for_room(const control_groups& groups) {
  queue_room room;
  room.limit = find_memory_limit(groups);
  const char* folder = std::getenv("UCX_POSIX_DIR");
  room.folder = folder && *folder ? folder : "/dev/shm";
  struct statvfs info {};
  if (statvfs(room.folder.c_str(), &info) != 0) return room;
  auto memory = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) * page();
  room.free = std::uint64_t{info.f_bavail} * info.f_frsize;
  room.whole = std::uint64_t{info.f_blocks} * info.f_frsize;
  if (room.whole == 0) room.free = room.whole = memory;  // without a limit of its own
  // The rest is for others, and for nodes that join later. Shared memory is memory of the machine,
  // or of the container, which is mainly for tensors.
  if (room.limit) memory = std::min(memory, room.limit->whole);
  const auto free = room.limit ? std::min(room.free, room.limit->left) : room.free;
  room.usable = std::min(free / 4 * 3, std::max(memory / 16, std::uint64_t{64} << 20));
  return room;
}

std::size_t memory_of_node(const queue_shape& shape, unsigned host_peers) noexcept {
  return common_shape.memory() + host_peers * shape.memory();
}

std::size_t choose_shape(const queue_room& room, unsigned host_peers) noexcept {
  const auto share = room.usable / (std::uint64_t{host_peers} + 1);
  const auto fits = [&](const queue_shape& s) { return memory_of_node(s, host_peers) <= share; };
  return static_cast<std::size_t>(std::ranges::find_if(queue_shapes, fits) - queue_shapes.begin());
}

std::string describe_need(const queue_room& room, unsigned host_peers, const queue_shape& shape) {
  const auto nodes = std::uint64_t{host_peers} + 1;
  const auto need = nodes * memory_of_node(shape, host_peers);
  auto text = std::to_string(nodes) + " nodes on this host need " + mebibytes(need) +
              " of shared memory and may take " + mebibytes(room.usable) + ": ";
  // Another folder in memory would not help.
  if (room.limit && room.limit->left < room.free)
    return text + "the limit of this process's memory, " + room.limit->file + ", leaves " +
           mebibytes(room.limit->left) + " of " + mebibytes(room.limit->whole) +
           " (docker run --memory, or the service that started this, makes it larger)";
  return text + room.folder + " has " + mebibytes(room.free) + " free of " + mebibytes(room.whole) +
         " (docker run --shm-size makes it larger; UCX_POSIX_DIR names another folder in memory)";
}

}  // namespace troupe::transport::ucx
