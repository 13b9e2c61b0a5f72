#include "troupe/messages/codec/decoder.hpp"

#include <ATen/core/Tensor.h>

#include <caf/atom.hpp>
#include <caf/detail/dynamic_message_data.hpp>

#include "troupe/messages/codec/handle_translator.hpp"
#include "troupe/messages/codec/structure.hpp"
#include "troupe/messages/codec/type_table.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"

namespace troupe {

void decoder::get_tensor(at::Tensor& x) {
  auto index = get<std::uint32_t>();
  if (!tensors_) throw decode_error("a message names a tensor and brings none");
  x = tensors_->get(index);
}

void decoder::let_tensors_go() noexcept {
  if (tensors_) tensors_->let_go();
}

caf::strong_actor_ptr decoder::get_handle() {
  if (!handles_) throw decode_error("an actor handle cannot be read outside of a node");
  return handles_->read(*this);
}

std::shared_ptr<detail::rref_use> decoder::get_reference(std::uint64_t type,
                                                         std::string_view name) {
  if (!handles_) throw decode_error("an rref cannot be read outside of a node");
  return handles_->read_reference(*this, type, name);
}

void decoder::get_message(caf::message& x) {
  auto count = get<std::uint8_t>();
  if (count > detail::max_elements)
    throw decode_error("a message claims " + std::to_string(count) + " elements");
  auto next = [&]() -> const type_entry& {
    auto hash = get<std::uint64_t>();
    const auto* entry = find_type(hash);
    if (!entry)
      throw decode_error("a message holds a type that this program does not know (hash " +
                         std::to_string(hash) + "): do all nodes run the same program?");
    if (entry->hash != hash) {
      const auto [sender, receiver] =
          handles_ ? handles_->nodes() : handle_translator::node_names();
      throw type_mismatch(mismatch_of(entry->name, sender, receiver, entry->structure()));
    }
    return *entry;
  };
  if (count == 0) {
    x = caf::message();
  } else if (count == 1) {
    x = next().decode_message(*this);
  } else {
    auto data = caf::make_counted<caf::detail::dynamic_message_data>();
    for (std::size_t i = 0; i < count; ++i) data->append(next().decode(*this));
    x = caf::message(caf::detail::message_data::cow_ptr(std::move(data)));
  }
}

void decoder::get_error(caf::error& x) {
  if (!get<bool>()) {
    x = caf::none;
    return;
  }
  auto code = get<std::uint8_t>();
  auto kind = get<caf::atom_value>();
  caf::message context;
  get_into(context);
  // CAF takes code 0 for "no error" and drops it.
  x = caf::error(code == 0 ? 1 : code, kind, std::move(context));
}

}  // namespace troupe
