// Tensors that nobody uses any more: their memory can be taken by the transport.

#include <ATen/ops/arange.h>
#include <ATen/ops/from_blob.h>
#include <capnp/message.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/messages/tensor/tensor_table_testing.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe {
namespace {

// The one payload of a table with this tensor alone.
outgoing_payload payload_of(const at::Tensor& tensor, bool given) {
  tensor_writer writer;
  writer.add(tensor, given);
  capnp::MallocMessageBuilder message(static_cast<unsigned>(writer.words() + 1));
  writer.build(message.initRoot<schema::TensorTable>());
  auto all = writer.take_payloads();
  EXPECT_EQ(all.size(), 1u);
  return std::move(all.at(0));
}

at::Tensor large() { return at::arange(100'000); }

TEST(tensor_given, has_its_memory_taken) {
  std::optional<at::Tensor> tensor = large();
  const auto* const place = static_cast<const std::byte*>(tensor->storage().data());
  auto payload = payload_of(*tensor, true);
  tensor.reset();
  ASSERT_NE(payload.take, nullptr);
  const auto memory = payload.take(payload);
  EXPECT_EQ(memory.get(), place);
  EXPECT_EQ(static_cast<const c10::Storage*>(payload.keep.get())->data(), nullptr);
}

TEST(tensor_given, keeps_its_memory_if_it_was_not_given) {
  EXPECT_EQ(payload_of(large(), false).take, nullptr);
}

TEST(tensor_given, keeps_its_memory_if_others_refer_to_it) {
  const auto tensor = large();
  const auto same = tensor;
  EXPECT_EQ(payload_of(tensor, true).take, nullptr);
  const auto whole = large();
  const auto part = whole.slice(0, 0, 10);
  EXPECT_EQ(payload_of(whole, true).take, nullptr);
}

// Such as autograd, which records the leaves of a message once they are in its table.
TEST(tensor_given, keeps_its_memory_if_somebody_refers_to_it_later) {
  auto tensor = large();
  auto payload = payload_of(tensor, true);
  ASSERT_NE(payload.take, nullptr);
  EXPECT_EQ(payload.take(payload), nullptr);  // `tensor` is still there
  EXPECT_EQ(tensor[7].item<std::int64_t>(), 7);
}

TEST(tensor_given, keeps_memory_that_is_not_libtorchs) {
  std::vector<std::int64_t> numbers(100'000);
  std::optional<at::Tensor> tensor = at::from_blob(numbers.data(), {100'000}, at::kLong);
  auto payload = payload_of(*tensor, true);
  tensor.reset();
  ASSERT_NE(payload.take, nullptr);
  EXPECT_EQ(payload.take(payload), nullptr);
}

TEST(tensor_given, keeps_memory_that_is_frozen) {
  std::optional<at::Tensor> tensor = large();
  const auto frozen = copy_on_write::freeze(*tensor->storage().unsafeGetStorageImpl());
  ASSERT_TRUE(frozen);
  auto payload = payload_of(*tensor, true);
  tensor.reset();
  EXPECT_EQ(payload.take(payload), nullptr);
  EXPECT_EQ(static_cast<const std::int64_t*>(frozen->data())[7], 7);
}

// Memory that was taken goes into the next storage as it was, without layers around it.
TEST(tensor_given, goes_from_hand_to_hand) {
  std::optional<at::Tensor> tensor = large();
  const auto deleter = tensor->storage().data_ptr().get_deleter();
  auto payload = payload_of(*tensor, true);
  tensor.reset();
  auto memory = payload.take(payload);
  auto again = copy_on_write::owned(std::move(memory));
  EXPECT_EQ(again.get_deleter(), deleter);
  // With another owner it cannot be.
  auto kept = copy_on_write::kept(std::move(again));
  const auto other = kept;
  EXPECT_NE(copy_on_write::owned(std::move(kept)).get_deleter(), deleter);
}

}  // namespace
}  // namespace troupe
