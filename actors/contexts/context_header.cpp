#include "troupe/actors/contexts/context_header.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "troupe/actors/contexts/node_contexts.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"

namespace troupe::detail {

namespace {

interceptor_maker maker = nullptr;

context_interceptor& interceptor_of(const node_contexts& contexts, std::uint64_t context) {
  if (auto* found = contexts.records()) return *found;
  throw unknown_context("Could not find autograd context with id: " + std::to_string(context) +
                        ": the program of " + contexts.own_name() +
                        " knows no distributed autograd: include <troupe/autograd.hpp> in it");
}

}  // namespace

bool provide_interceptor(interceptor_maker make) noexcept {
  maker = make;
  return true;
}

std::unique_ptr<context_interceptor> make_interceptor(node_core& node) {
  return maker ? maker(node) : nullptr;
}

void context_header::begin(std::uint64_t context, bool of_tensors, bool in_any_mode) {
  where_ = interceptor_of(contexts_, context).begin(context, to_);
  if (!of_tensors || !(in_any_mode || at::GradMode::is_enabled())) where_.number = 0;
  text_.body().put(where_.context);
  text_.body().put(where_.number);
}

void context_header::record(envelope_header& header) {
  header.recorded = true;
  if (where_.number == 0 || text_.tensors().empty()) return;
  auto sent = text_.tensors().requiring_grad();
  if (sent.empty()) return;
  contexts_.records()->record(where_, to_, std::move(sent));
  record_ = context_record(contexts_, where_);
}

context_record::~context_record() {
  if (contexts_) contexts_->records()->forget(where_);
}

message_tag receive_tag(const node_contexts& contexts, opened_envelope& message, decoder& in,
                        peer& from) {
  if (!message.header().recorded) return {};
  message_tag where;
  where.context = in.get<std::uint64_t>();
  where.number = in.get<std::uint64_t>();
  if (where.context == 0) throw decode_error("a message of an autograd context without a number");
  std::vector<at::Tensor> received;
  if (auto* tensors = message.tensors(); tensors && where.number != 0)
    received = tensors->requiring_grad();
  interceptor_of(contexts, where.context).receive(where, from, message.header(), received);
  return where;
}

void skip_tag(const opened_envelope& message, decoder& in) {
  if (!message.header().recorded) return;
  in.get<std::uint64_t>();
  in.get<std::uint64_t>();
}

}  // namespace troupe::detail
