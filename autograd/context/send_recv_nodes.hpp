#pragma once

#include <torch/csrc/autograd/function.h>

#include "troupe/actors/cluster/worker_info.hpp"

namespace troupe::autograd::detail {

/// What a message stands for in the graph of its sender: its inputs are the gradients of the
/// message's tensors, which come from the receiver, and it hands them on.
class send_node final : public torch::autograd::Node {
public:
  /// `to`: the receiver's rank; `sent`: its tensors that require gradients.
  send_node(std::uint32_t to, const std::vector<at::Tensor>& sent);

  std::uint32_t to() const noexcept { return to_; }
  std::string name() const override { return "troupe::send"; }

private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }

  const std::uint32_t to_;
};

class default_scope;
class receive_node;

/// Who takes the gradients that a pass has for tensors of other nodes: the pass that the calling
/// thread runs. Undefined ones stand for zeros.
class gradient_taker {
public:
  virtual void take(const receive_node& of, std::vector<at::Tensor>&& gradients) = 0;

  /// While it lives, `taker` is the calling thread's.
  class scope {
  public:
    explicit scope(gradient_taker& taker) noexcept;
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

  private:
    gradient_taker* const before_;
  };

  /// Throws invalid_argument when the thread has none: who asks then ran libtorch's own backward
  /// pass, which ends at the node.
  static gradient_taker& current(const worker_info& wanted_for);

protected:
  ~gradient_taker() = default;
};

/// What a message stands for in the graph of its receiver: the node whose results its tensors are.
/// Tensors keep it for longer than there is a node of the job, or a peer.
class receive_node final : public torch::autograd::Node {
public:
  /// `number`: of the message, at its sender; `came_back`: see call_options::uses_reply_route; `scope`: to
  /// which the context belongs, if it is a default one. Makes `received`, leaves that require
  /// gradients, its results: `own` does, once the node is shared.
  receive_node(worker_info from, std::uint64_t context, std::uint64_t number, bool came_back,
               std::weak_ptr<default_scope> scope)
      : from_(std::move(from)),
        context_(context),
        number_(number),
        came_back_(came_back),
        scope_(std::move(scope)) {}
  static void own(const std::shared_ptr<receive_node>& self,
                  const std::vector<at::Tensor>& received);

  const worker_info& from() const noexcept { return from_; }
  std::uint64_t context() const noexcept { return context_; }
  std::uint64_t number() const noexcept { return number_; }
  bool came_back() const noexcept { return came_back_; }
  /// Null: the context is no default one, or its scope is over.
  std::shared_ptr<default_scope> scope() const noexcept { return scope_.lock(); }
  std::string name() const override { return "troupe::receive"; }

private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    gradient_taker::current(from_).take(*this, std::move(gradients));
    return {};
  }

  const worker_info from_;
  const std::uint64_t context_;
  const std::uint64_t number_;
  const bool came_back_;
  const std::weak_ptr<default_scope> scope_;
};

}  // namespace troupe::autograd::detail
