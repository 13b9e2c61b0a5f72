// Tensors as fields and elements of messages: the archive holds their index in the message's table.

#include <ATen/core/Tensor.h>

#include "messages/archive.hpp"
#include "messages/tensor_reader.hpp"
#include "messages/tensor_writer.hpp"

namespace troupe {

void encoder::put_tensor(const at::Tensor& x) {
  if (!tensors_) throw encode_error("a tensor cannot be written here");
  put(tensors_->add(x));
}

void decoder::get_tensor(at::Tensor& x) {
  auto index = get<std::uint32_t>();
  if (!tensors_) throw decode_error("a message names a tensor and brings none");
  x = tensors_->get(index);
}

}  // namespace troupe
