#pragma once

#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/cluster/worker_info.hpp"

namespace troupe::autograd::detail {

/// A message in the graph of its sender (torch RPC's SendRpcBackward). Its inputs are the gradients
/// of the message's tensors, which the receiver sends; it hands them on unchanged.
class send_rpc_backward final : public torch::autograd::Node {
public:
  /// `to`: the receiver's rank; `sent`: its tensors that require gradients.
  send_rpc_backward(std::uint32_t to, const std::vector<at::Tensor>& sent);

  std::uint32_t to() const noexcept { return to_; }
  std::string name() const override { return "troupe::send"; }

private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return std::move(gradients);
  }

  const std::uint32_t to_;
};

class default_scope;
class recv_rpc_backward;

/// Takes the gradients that a pass computes for tensors of other nodes: the pass that the calling
/// thread runs.
class remote_gradient_sink {
public:
  /// `gradients`: one for each tensor of that message. Undefined ones stand for zeros.
  virtual void take(const recv_rpc_backward& of, std::vector<at::Tensor>&& gradients) = 0;

  /// While it lives, `sink` is the calling thread's.
  class scope {
  public:
    explicit scope(remote_gradient_sink& sink) noexcept;
    ~scope();
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

  private:
    remote_gradient_sink* const before_;
  };

  /// The calling thread's. Throws invalid_argument when it has none: the caller is in a backward
  /// pass of libtorch's own, which ends at the node.
  static remote_gradient_sink& current(const worker_info& wanted_for);

protected:
  ~remote_gradient_sink() = default;
};

/// A message in the graph of its receiver (torch RPC's RecvRpcBackward): the function whose results
/// the message's tensors are. Tensors keep it alive, so it may outlive the node of the job and the
/// peer, and holds neither.
class recv_rpc_backward final : public torch::autograd::Node {
public:
  /// `number`: the sender's number for the message. `came_back`: see
  /// call_options::uses_reply_route. `scope`: of a default context; else expired.
  recv_rpc_backward(worker_info from, std::uint64_t context, std::uint64_t number, bool came_back,
                    std::weak_ptr<default_scope> scope)
      : from_(std::move(from)),
        context_(context),
        number_(number),
        came_back_(came_back),
        scope_(std::move(scope)) {}

  /// Makes `received`, leaves that require gradients, the results of `self`.
  static void own(const std::shared_ptr<recv_rpc_backward>& self,
                  const std::vector<at::Tensor>& received);

  const worker_info& from() const noexcept { return from_; }
  std::uint64_t context() const noexcept { return context_; }
  std::uint64_t number() const noexcept { return number_; }
  bool came_back() const noexcept { return came_back_; }
  /// nullptr: the context is no default one, or its scope is over.
  std::shared_ptr<default_scope> scope() const noexcept { return scope_.lock(); }
  std::string name() const override { return "troupe::receive"; }

private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    remote_gradient_sink::current(from_).take(*this, std::move(gradients));
    return {};
  }

  const worker_info from_;
  const std::uint64_t context_;
  const std::uint64_t number_;
  const bool came_back_;
  const std::weak_ptr<default_scope> scope_;
};

}  // namespace troupe::autograd::detail
