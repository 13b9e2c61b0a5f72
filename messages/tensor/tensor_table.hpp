#pragma once

#include "troupe/messages/schema/tensor.capnp.h"

namespace troupe {

/// The table of tensors that a tensor_writer writes, apart from its header, which programs include
/// and which is free of Cap'n Proto.
struct tensor_table_builder {
  tensor_table_builder(schema::TensorTable::Builder table) : table(table) {}
  schema::TensorTable::Builder table;
};

}  // namespace troupe
