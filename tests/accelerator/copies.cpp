#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <memory>
#include <vector>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "host_view_internal.hpp"
#include "memory_internal.hpp"
#include "operators_internal.hpp"
#include "streams_internal.hpp"

namespace troupe::test::accelerator {

namespace {

void wait_on(int waiting, stream_thread& before) {
  auto reached = std::make_shared<recorded>();
  before.add([reached] { reached->reach(); }, true);
  thread_of(current_stream(waiting)).add([reached] { reached->wait(); }, true);
}

// As CUDA's: between devices the current streams of both are in order with the copy, which runs on
// the source's. A copy that is to block waits for the stream it ran on, and for no other.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool out = from.device().type() == device_type, in = to.device().type() == device_type;
  auto& c = count();
  ++(out && in ? c.copies_on_device : in ? c.copies_to_device : c.copies_to_host);
  const int on = out ? from.device().index() : to.device().index();
  auto& stream = thread_of(current_stream(on));
  const bool between = out && in && from.device() != to.device();
  if (between) {
    auto reached = std::make_shared<recorded>();
    thread_of(current_stream(to.device().index())).add([reached] { reached->reach(); }, true);
    stream.add([reached] { reached->wait(); }, true);
  }
  stream.add(kernel([source = host_view(from), sink = host_view(to)] { sink.copy_(source); }));
  if (between) wait_on(to.device().index(), stream);
  if (!non_blocking && !(out && in)) {
    ++c.stream_synchronizations;
    stream.wait();
  } else if (out && !in && !is_pinned(to.const_data_ptr())) {
    stream.wait();
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return to.copy_(from);
}

}  // namespace

at::Tensor host_view(const at::Tensor& t) {
  if (t.device().type() != device_type) return t;
  auto out = at::from_blob(host_pointer(t.const_data_ptr()), t.sizes(), t.strides(),
                           at::TensorOptions().dtype(t.dtype()));
  if (t.is_conj()) out._set_conj(true);
  if (t.is_neg()) out._set_neg(true);
  return out;
}

namespace {

// Conjugated and negated in name alone: the copy itself sees to it.
void register_lazy_copies() {
  static auto& kept = *new std::vector<std::unique_ptr<torch::Library>>;  // for ever
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    auto& library = kept.emplace_back(
        std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__));
    library->impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
}

}  // namespace

void register_copies(torch::Library& to) {
  register_lazy_copies();
  to.impl("_copy_from", &copy_from);
  to.impl("_copy_from_and_resize", &copy_from_and_resize);
}

}  // namespace troupe::test::accelerator
