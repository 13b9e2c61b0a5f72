#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace troupe {

/// A contiguous, 16-aligned buffer for one envelope, recycled through a per-thread cache: on the
/// hot path neither making nor dropping one allocates. Move-only. May be dropped on any thread.
class frame {
public:
  /// Frames of up to this many bytes are recycled; larger ones are allocated each time.
  static constexpr std::size_t small_capacity = 8 * 1024;

  frame() noexcept = default;

  /// Room for at least `capacity` bytes; `size()` is 0. The bytes are not initialised.
  explicit frame(std::size_t capacity);

  /// A copy of `bytes`.
  explicit frame(std::span<const std::byte> bytes);

  frame(frame&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}

  frame& operator=(frame&& other) noexcept {
    if (this != &other) {
      if (data_) release();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, 0);
    }
    return *this;
  }

  ~frame() {
    if (data_) release();
  }

  std::byte* data() noexcept { return data_; }
  const std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }

  /// Pre: `size <= capacity()`.
  void resize(std::size_t size) noexcept { size_ = size; }

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

private:
  void release() noexcept;  // pre: it has memory

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace troupe
