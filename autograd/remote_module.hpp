#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/actors/node/node.hpp"
#include "troupe/actors/rref/rref.hpp"

namespace troupe {

template <class M>
class remote_module;

namespace detail {

/// The module and its device, on the node that has it: what a remote_module refers to.
template <class M>
class hosted_module {
public:
  /// Throws c10::Error for a device that does not exist on this node.
  template <class... Args>
  explicit hosted_module(const std::string& device, Args&&... args)
      : device_(device), module_(std::make_shared<M>(std::forward<Args>(args)...)) {
    module_->to(device_);
  }

  M& operator*() const noexcept { return *module_; }
  const at::Device& device() const noexcept { return device_; }

private:
  const at::Device device_;
  const std::shared_ptr<M> module_;
};

/// `x`, on the module's device if it is a tensor.
template <class T>
decltype(auto) moved_to(const at::Device& device, T&& x) {
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, at::Tensor>)
    return x.defined() ? x.to(device) : x;
  else
    return std::forward<T>(x);
}

template <class M, class Arguments>
struct hosted_forward;
template <class M, class... Args>
struct hosted_forward<M, std::tuple<Args...>> {
  static auto call(hosted_module<M>& self, Args... args) {
    return (*self).forward(moved_to(self.device(), std::move(args))...);
  }
};

template <class M>
std::vector<rref<at::Tensor>> hosted_parameters(hosted_module<M>& self, bool recurse) {
  std::vector<rref<at::Tensor>> out;
  for (const auto& one : (*self).parameters(recurse)) out.push_back(this_node().make_rref(one));
  return out;
}

template <class M>
void hosted_train(hosted_module<M>& self, bool on) {
  (*self).train(on);
}

/// "worker/device", "rank:number/device", or either without the device, which is then the CPU.
/// Throws invalid_argument.
struct remote_device {
  explicit remote_device(const std::string& text);
  destination where;
  std::string device;
};

}  // namespace detail

/// A module of libtorch on another node, called as if it were local. `M` is a class with one
/// `forward`, such as torch::nn::LinearImpl. Calls are those of an rref, so several nodes may call
/// the module at once. Sendable: every copy refers to the same module, which lives as long as one
/// copy does. Other functions of the module are called through `module_rref`.
template <class M>
class remote_module {
public:
  remote_module() = default;

  /// Makes an M from `args` on the node and device that `where` names: "worker1/cuda:0", "rank:1",
  /// "worker1". Throws invalid_argument, unknown_worker; errors of that node are thrown by the
  /// first use.
  template <class... Args>
  remote_module(const node& here, const std::string& where, const Args&... args)
      : remote_module(here, detail::remote_device(where), args...) {}

  /// Calls M::forward. Tensors among the arguments are moved to the module's device. Options and
  /// errors as for a call.
  template <class... Args>
  auto forward(const Args&... args) const {
    return forward_async(args..., detail::sync).get();
  }

  /// The same without waiting.
  template <class... Args>
  auto forward_async(const Args&... args) const {
    using parameters = typename detail::signature<decltype(&M::forward)>::arguments;
    return module_.template rpc_async<&detail::hosted_forward<M, parameters>::call>(args...);
  }

  /// References to the parameters, in the module's order. `recurse`: those of sub-modules too.
  std::vector<rref<at::Tensor>> remote_parameters(bool recurse = true) const {
    return module_.template rpc_sync<&detail::hosted_parameters<M>>(recurse);
  }

  void train(bool on = true) const { module_.template rpc_sync<&detail::hosted_train<M>>(on); }
  void eval() const { train(false); }

  /// For calls of the module's other functions.
  const rref<detail::hosted_module<M>>& module_rref() const noexcept { return module_; }

private:
  template <class... Args>
  remote_module(const node& here, const detail::remote_device& where, const Args&... args)
      : module_(here.remote<detail::hosted_module<M>>(where.where, where.device, args...)) {}

  friend constexpr auto troupe_fields(const remote_module*) {
    return std::make_tuple(&remote_module::module_);
  }

  rref<detail::hosted_module<M>> module_;
};

}  // namespace troupe
