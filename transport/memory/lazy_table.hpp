#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace troupe::transport {

/// An array of zeros; the parts that are never written to take no memory. Private to the process.
template <class T>
class lazy_table {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  /// Throws std::bad_alloc.
  explicit lazy_table(std::size_t size) : bytes_(size * sizeof(T)) {
    void* raw = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(raw);
  }
  ~lazy_table() { ::munmap(data_, bytes_); }
  lazy_table(const lazy_table&) = delete;
  lazy_table& operator=(const lazy_table&) = delete;

  T& operator[](std::size_t i) noexcept { return data_[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_[i]; }

private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

}  // namespace troupe::transport
