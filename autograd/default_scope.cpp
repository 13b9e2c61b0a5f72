#include "troupe/autograd/default_scope.hpp"

#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/context.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/pass/distributed_pass.hpp"
#include "troupe/messages/base/forked.hpp"

namespace troupe::autograd::detail {

namespace {

context_table& contexts_of(const node& here) { return context_table::of(here.core()); }

}  // namespace

std::shared_ptr<default_scope> default_scope::open(const node& here) {
  auto made = std::make_shared<default_scope>(here);
  made->part_ = made->begin();
  made->opened_ =
      std::make_shared<troupe::detail::opened_context>(made->part_->id(), current_call_context());
  call_context now;
  now.call = troupe::current_active_call();
  now.context = made->part_->id();
  now.opened = made->opened_;
  troupe::detail::set_current_call_context(std::move(now));
  return made;
}

void default_scope::close() noexcept {
  if (forked::from_nodes()) return;  // in a child process the locks may be held for ever
  opened_->end();
  // Has this thread drop the scope, if it is the one that opened it.
  (void)troupe::detail::current_context();
  std::shared_ptr<participant> last;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    last = part_;
  }
  contexts_of(here_).end(last->id(), "its scope has ended");
}

std::shared_ptr<participant> default_scope::begin() {
  auto made = contexts_of(here_).open();
  made->belong_to(weak_from_this());
  return made;
}

std::shared_ptr<participant> default_scope::current() const {
  const std::lock_guard lock(mutex_);
  return part_;
}

// Does nothing if another pass has renewed it already, or the scope has ended.
void default_scope::renew(const std::shared_ptr<participant>& last) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || part_ != last || !here_.core().is_open()) return;
    try {
      part_ = begin();
    } catch (const error&) {  // the node has just ended, or the job: the pass says so, if it must
      return;
    }
    opened_->renew(part_->id());
  }
  contexts_of(here_).end(last->id(), "a backward pass without retain_graph has let go of it");
}

void default_scope::backward(std::uint64_t context, const at::Tensor& root,
                             const at::Tensor& gradient, bool keep_graph, bool create_graph) {
  const auto part = current();
  if (part->id() != context)
    throw unknown_context(
        "Could not find autograd context with id: " + std::to_string(context) +
        ": a backward pass has let go of it. Say retain_graph there, sum the losses that belong "
        "together, or detach what is to be used after the pass");
  const within none(0);
  refuse_pass_within_itself(here_, part);  // before the try: such an error does not end the context
  const bool keeps = keep_graph || create_graph;
  try {
    run_plain_pass(here_, part, root, gradient,
                   {.retain_graph = keeps, .create_graph = create_graph});
  } catch (...) {
    if (!keeps) renew(part);
    throw;
  }
  if (!keeps) renew(part);
}

}  // namespace troupe::autograd::detail
