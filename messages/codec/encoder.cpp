#include "troupe/messages/codec/encoder.hpp"

#include <ATen/core/Tensor.h>

#include "troupe/messages/codec/handle_translator.hpp"
#include "troupe/messages/codec/type_table.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe {

namespace {

[[noreturn]] void throw_not_in_message() {
  throw encode_error(
      "an rref can only be written into a call or message between nodes, where its owner learns of "
      "it; elsewhere, write its value (to_here)");
}

}  // namespace

void encoder::put_tensor(const at::Tensor& x) {
  if (!tensors_) throw encode_error("a tensor cannot be written here");
  put(tensors_->add(x, given_));
}

void encoder::put_handle(const caf::strong_actor_ptr& x) {
  if (!handles_) throw encode_error("an actor handle cannot be written outside of a node");
  handles_->write(*this, x);
}

void encoder::put_reference(const std::shared_ptr<detail::rref_use>& x) {
  if (!handles_) throw_not_in_message();
  handles_->write_reference(*this, x);
}

void encoder::put_message(const caf::message& x) {
  if (x.size() > detail::max_elements)
    throw encode_error("a message of " + std::to_string(x.size()) + " elements; the most is 64");
  put(static_cast<std::uint8_t>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto* entry = find_type(x.type(i));
    if (!entry) {
      auto type = x.type(i);
      throw encode_error("a message element of type " +
                         (type.second ? std::string(type.second->name())
                                      : "number " + std::to_string(type.first)) +
                         " cannot be sent to another node: use TROUPE_MESSAGE for it, or a typed "
                         "actor handle");
    }
    put(entry->hash);
    entry->encode(*this, x.get(i));
  }
}

void encoder::put_error(const caf::error& x) {
  put(static_cast<bool>(x));
  if (!x) return;
  put(x.code());
  put(x.category());
  // If the context cannot be sent (the error is being sent already), its text is sent instead.
  auto mark = bytes_.size();
  try {
    put(x.context());
  } catch (const encode_error&) {
    bytes_.resize(mark);
    put(caf::make_message(to_string(x)));
  }
}

}  // namespace troupe
