#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "memory_internal.hpp"
#include "streams_internal.hpp"

namespace troupe::test::accelerator {

namespace {

constexpr std::size_t device_bytes = std::size_t{4} << 30;
constexpr std::size_t arena_bytes = device_bytes * device_count;

// The devices' memory, one after the other, mapped twice: addresses of tensors, which nobody can
// access, and those at which kernels read and write.
struct arena {
  std::byte* device = nullptr;
  std::byte* host = nullptr;
  int fd = -1;  // open for ever: other processes open it, too

  arena() {
    fd = memfd_create("sim", MFD_CLOEXEC);
    TORCH_CHECK(fd >= 0 && ftruncate(fd, arena_bytes) == 0, "no memory for the accelerator");
    device = map(fd, PROT_NONE);
    host = map(fd, PROT_READ | PROT_WRITE);
  }

  static std::byte* map(int fd, int protection) {
    void* at = mmap(nullptr, arena_bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
    TORCH_CHECK(at != MAP_FAILED, "the accelerator's memory cannot be mapped");
    madvise(at, arena_bytes, MADV_DONTDUMP);
    return static_cast<std::byte*>(at);
  }
};

arena& memory() {
  static auto* const it = new arena;
  return *it;
}

// Few sizes, so that freed blocks fit again.
std::size_t rounded(std::size_t size) {
  std::size_t step = 512;
  while (step * 8 < size) step *= 2;
  return (size + step - 1) / step * step;
}

// As CUDA's: a block belongs to the stream that was current when it was made. Once freed it is used
// again for that stream only, at once, and not before the other streams that were recorded for it
// are done with it.
class caching_allocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(std::size_t size) override {
    const auto stream = current_stream(current_device());
    const auto on = device(current_device());
    if (size == 0) return {nullptr, nullptr, &free_block, on};
    ++count().allocations;
    const std::lock_guard lock(mutex_);
    take_back();
    block made{rounded(size), on.index(), stream.id(), {}};
    auto& list = free_[{on.index(), stream.id(), made.size}];
    std::byte* at = nullptr;
    if (!list.empty()) {
      ++count().reused;
      at = list.back();
      list.pop_back();
    } else {
      auto& used = used_[static_cast<std::size_t>(on.index())];
      TORCH_CHECK(used + made.size <= device_bytes, on, " is out of memory");
      at = memory().device + static_cast<std::size_t>(on.index()) * device_bytes + used;
      used += made.size;
    }
    in_use_ += made.size;
    blocks_[at] = std::move(made);
    return {at, at, &free_block, on};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  void copy_data(void* to, const void* from, std::size_t size) const override {
    auto* out = host_pointer(to);
    const auto* in = host_pointer(from);
    thread_of(current_stream(device_of(to))).add([=] { std::memcpy(out, in, size); });
  }

  void record(void* at, const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(static_cast<std::byte*>(at));
    if (found == blocks_.end()) return;  // of others, who look after it
    if (stream.id() != found->second.stream || stream.device_index() != found->second.device)
      found->second.users.insert({stream.device_index(), stream.id()});
  }

  block_place find(const void* at) {
    const std::lock_guard lock(mutex_);
    auto found = blocks_.upper_bound(static_cast<std::byte*>(const_cast<void*>(at)));
    TORCH_CHECK(found != blocks_.begin(), "no memory of the accelerator");
    --found;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(at) - found->first);
    TORCH_CHECK(offset < found->second.size, "no memory of the accelerator");
    return {memory().fd, static_cast<std::size_t>(found->first - memory().device),
            found->second.size, offset};
  }

  std::size_t in_use() {
    const std::lock_guard lock(mutex_);
    return in_use_;
  }

private:
  using stream_key = std::pair<int, std::int64_t>;
  struct block {
    std::size_t size = 0;
    int device = 0;
    std::int64_t stream = 0;
    std::set<stream_key> users;
  };
  struct leaving {  // freed, and other streams may use it still
    std::byte* at;
    block was;
    std::vector<std::shared_ptr<recorded>> until;
  };

  static void free_block(void* at);

  void release(std::byte* at) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(at);
    TORCH_CHECK(found != blocks_.end(), "memory of the accelerator is freed twice");
    auto was = std::move(found->second);
    blocks_.erase(found);
    in_use_ -= was.size;
    leaving out{at, std::move(was), {}};
    for (const auto& [device, id] : out.was.users) {
      auto& until = out.until.emplace_back(std::make_shared<recorded>());
      thread_of(device, id).add([until] { until->reach(); }, true);
    }
    if (out.until.empty())
      keep(out);
    else
      leaving_.push_back(std::move(out));
  }

  // What is freed is overwritten, in the order of its stream: who uses it on another one, without
  // having said so, finds that.
  void keep(const leaving& out) {
    auto* bytes = host_pointer(out.at);
    thread_of(out.was.device, out.was.stream)
        .add([bytes,
              size = std::min<std::size_t>(out.was.size, 4096)] { std::memset(bytes, 0xfb, size); },
             true);
    free_[{out.was.device, out.was.stream, out.was.size}].push_back(out.at);
  }

  void take_back() {
    std::erase_if(leaving_, [&](const leaving& l) {
      if (!std::ranges::all_of(l.until, [](const auto& e) { return e->reached(); })) return false;
      keep(l);
      return true;
    });
  }

  std::mutex mutex_;
  std::array<std::size_t, device_count> used_{};
  std::size_t in_use_ = 0;
  std::map<std::byte*, block> blocks_;
  std::map<std::tuple<int, std::int64_t, std::size_t>, std::vector<std::byte*>> free_;
  std::vector<leaving> leaving_;
};

std::uintptr_t offset_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) -
         reinterpret_cast<std::uintptr_t>(memory().device);
}

bool lies_here(const void* pointer) noexcept { return offset_of(pointer) < arena_bytes; }

caching_allocator& allocator() {
  static auto* const it = new caching_allocator;
  return *it;
}

void caching_allocator::free_block(void* at) {
  if (at) allocator().release(static_cast<std::byte*>(at));
}

}  // namespace

c10::Allocator& device_allocator() { return allocator(); }

void record_use(void* context, const c10::Stream& stream) { allocator().record(context, stream); }

std::size_t bytes_in_use() noexcept { return allocator().in_use(); }

block_place find_block(const void* device) { return allocator().find(device); }

std::byte* host_pointer(const void* device) noexcept {
  if (!lies_here(device)) return foreign_host_pointer(device);
  return memory().host + (static_cast<const std::byte*>(device) - memory().device);
}

int device_of(const void* pointer) noexcept {
  return lies_here(pointer) ? static_cast<int>(offset_of(pointer) / device_bytes)
                            : foreign_device_of(pointer);
}

}  // namespace troupe::test::accelerator

void* troupe_sim_host_pointer(const void* device) {
  return troupe::test::accelerator::host_pointer(device);
}

bool troupe_sim_is_device_pointer(const void* pointer) {
  return troupe::test::accelerator::device_of(pointer) >= 0;
}

int troupe_sim_device_of(const void* pointer) {
  return troupe::test::accelerator::device_of(pointer);
}
