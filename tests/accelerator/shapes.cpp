#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/StreamGuard.h>
#include <torch/library.h>

#include <cstring>

#include "accelerator.hpp"
#include "memory_internal.hpp"
#include "operators_internal.hpp"
#include "streams_internal.hpp"

// Operators that make tensors and views.
namespace troupe::test::accelerator {

namespace {

constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

class on_device {
public:
  explicit on_device(std::optional<c10::Device> device) : old_(current_device()) {
    if (device && device->index() >= 0) {
      TORCH_CHECK(device->index() < device_count, "there is no device ", *device);
      set_current_device(device->index());
    }
  }
  ~on_device() { set_current_device(old_); }
  on_device(const on_device&) = delete;
  on_device& operator=(const on_device&) = delete;

private:
  int old_;
};

at::Tensor make_empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> type,
                      std::optional<c10::Layout>, std::optional<c10::Device> where,
                      std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  const on_device guard(where);
  return at::detail::empty_generic(sizes, &device_allocator(), keys, c10::dtype_or_default(type),
                                   format);
}

at::Tensor make_empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                              std::optional<c10::Device> where, std::optional<bool>) {
  const on_device guard(where);
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), keys,
                                           c10::dtype_or_default(type));
}

void grow(c10::StorageImpl& storage, std::size_t size) {
  const on_device guard(storage.device());
  auto data = device_allocator().allocate(size);
  if (storage.nbytes() > 0) {
    auto* out = host_pointer(data.get());
    const auto* in = host_pointer(storage.data());
    thread_of(current_stream(storage.device().index())).add([=, bytes = storage.nbytes()] {
      std::memcpy(out, in, bytes);
    });
  }
  storage.set_data_ptr_noswap(std::move(data));
  storage.set_nbytes(size);
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef sizes,
                         std::optional<c10::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (format) impl->empty_tensor_restride(*format);
  const auto needed =
      static_cast<std::size_t>(impl->storage_offset() + impl->numel()) * self.itemsize();
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) grow(*storage, needed);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, std::int64_t offset,
                        c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  if (strides.data())
    impl->set_sizes_and_strides(sizes, strides);
  else
    impl->set_sizes_contiguous(sizes);
  return self;
}

void record_stream(at::Tensor& self, at::Stream on) {
  c10::impl::getDeviceGuardImpl(device_type)->recordDataPtrOnStream(self.storage().data_ptr(), on);
}

}  // namespace

void register_shapes(torch::Library& to) {
  to.impl("empty.memory_format", &make_empty);
  to.impl("empty_strided", &make_empty_strided);
  to.impl("as_strided", &at::native::as_strided_tensorimpl);
  to.impl("view",
          static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(&at::native::view));
  to.impl("_reshape_alias", &at::native::_reshape_alias);
  to.impl("unfold", &at::native::unfold);
  to.impl("view_as_real", &at::native::view_as_real);
  to.impl("view_as_complex", &at::native::view_as_complex);
  to.impl("resize_", &resize);
  to.impl("set_.source_Storage_storage_offset", &set_storage);
  to.impl("record_stream", &record_stream);
}

}  // namespace troupe::test::accelerator
