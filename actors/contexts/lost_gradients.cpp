#include "troupe/actors/contexts/lost_gradients.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "troupe/actors/contexts/context_interceptor.hpp"
#include "troupe/actors/contexts/node_contexts.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/messages/codec/type_registration.hpp"
#include "troupe/messages/envelope/envelope.hpp"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe::detail {

bool lost_gradients::possible(const node_contexts& contexts) noexcept {
  const auto* records = contexts.records();
  return records && records->takes_part() && !works_apart() && at::GradMode::is_enabled();
}

void lost_gradients::check_request(const node_contexts& contexts, const peer& to,
                                   std::string_view what, const tensor_writer& tensors) {
  if (tensors.empty() || !possible(contexts) || tensors.requiring_grad().empty()) return;
  report(contexts, kind::request, to, what);
}

bool lost_gradients::check_message(const node_contexts& contexts, const peer& to,
                                   std::string_view what, const tensor_writer& tensors) {
  if (tensors.empty()) return false;
  if (works_apart() || !at::GradMode::is_enabled()) return true;
  if (!possible(contexts)) return false;
  if (!tensors.requiring_grad().empty()) report(contexts, kind::message, to, what);
  return true;
}

void lost_gradients::check_arrival(const node_contexts& contexts, const peer& from,
                                   opened_envelope& message, const caf::message& content) {
  const auto* records = contexts.records();
  if (message.header().unrecorded || !records || !records->takes_part()) return;
  auto* tensors = message.tensors();
  if (!tensors || tensors->requiring_grad().empty()) return;
  const auto* type = content.empty() ? nullptr : find_type(content.type(0));
  report(contexts, kind::arrival, from, type ? type->name : "an unknown type");
}

void lost_gradients::check_answer(const node_contexts& contexts, const peer& from,
                                  std::string_view what, opened_envelope& answer) {
  auto* tensors = answer.tensors();
  if (answer.header().recorded || !tensors || tensors->requiring_grad().empty()) return;
  report(contexts, kind::answer, from, what);
}

void lost_gradients::report(const node_contexts& contexts, kind which, const peer& other,
                            std::string_view what) {
  fault why;
  why.node = contexts.own_name();
  why.function = what;
  std::string verb = "goes", from = why.node, to = other.info.name, in = "with", advice;
  if (which == kind::answer || which == kind::arrival) {
    verb = "comes";
    std::swap(from, to);
    in = "in the answer to";
  }
  if (which == kind::message || which == kind::arrival) {
    in = "with the message";
    advice =
        "messages without an answer are in no autograd context. Use troupe::request, or detach the "
        "tensor";
  } else {
    advice = fmt::format(
        "{} is requested outside of the autograd contexts that are open on {}. Let the thread "
        "join one with troupe::autograd::within(context); if it shall not take part in any, say "
        "so with troupe::autograd::within(0), or detach the tensor",
        what, why.node);
  }
  why.text = fmt::format(
      "a tensor that requires a gradient {} from {} to {} {} {}, and a backward pass ends there: "
      "{}",
      verb, from, to, in, what, advice);
  if (fails_ && which != kind::arrival) throw invalid_argument(std::move(why));
  {
    const std::lock_guard lock(mutex_);
    if (reported_.size() >= most_reported || !reported_.emplace(which, what).second) return;
  }
  log().warn("{} (said once{})", why.text,
             which == kind::arrival ? "" : "; rpc_options::on_lost_gradient can make it an error");
}

}  // namespace troupe::detail
