#pragma once

#include <fmt/format.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <tuple>
#include <unordered_set>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/type_name.hpp"
#include "troupe/messages/codec/fields.hpp"
#include "troupe/optim/algorithms/optimizer_traits.hpp"

/// Lists the fields of options or of a state, after their TORCH_ARGs: `TROUPE_EACH_FIELD(lr,
/// betas)` in the class defines
///
///     template <class Self, class F> static void each_field(Self& self, const F& f)
///
/// which calls `f` with the name of each field, as archives have it, and a reference to its value,
/// of a type that c10::IValue takes. Up to 32 fields. What follows in the class is public.
#define TROUPE_EACH_FIELD(...)                         \
public:                                                \
  template <class Self, class F>                       \
  static void each_field(Self& self, const F& f) {     \
    TROUPE_EXPAND(TROUPE_EACH_FIELD_NEXT(__VA_ARGS__)) \
  }
#define TROUPE_EACH_FIELD_NEXT(field, ...) \
  f(#field, self.field());                 \
  __VA_OPT__(TROUPE_EACH_FIELD_AGAIN TROUPE_PARENS(__VA_ARGS__))
#define TROUPE_EACH_FIELD_AGAIN() TROUPE_EACH_FIELD_NEXT

// Optimizers that step each parameter independently: a function steps one parameter, and what is
// here makes an optimizer with libtorch's interface from it. A functional optimizer calls the
// function itself.
namespace troupe {

namespace detail {

// Omits undefined tensors, as libtorch does in its own archives.
template <class T>
void write_fields(const T& from, torch::serialize::OutputArchive& archive) {
  T::each_field(from, [&](const char* name, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, at::Tensor>) {
      if (!value.defined()) return;
    }
    archive.write(name, c10::IValue(value));
  });
}

template <class T>
void read_fields(T& to, torch::serialize::InputArchive& archive) {
  T::each_field(to, [&](const char* name, auto& value) {
    using type = std::remove_cvref_t<decltype(value)>;
    c10::IValue read;
    if (archive.try_read(name, read))
      value = read.to<type>();
    else if constexpr (std::is_same_v<type, at::Tensor>)
      value = at::Tensor();
    else
      throw invalid_argument(fmt::format("{} lacks \"{}\"", type_name<T>(), name));
  });
}

/// Throws invalid_argument for a gradient that is sparse.
inline void expect_dense(const at::Tensor& gradient, std::string_view optimizer) {
  if (gradient.layout() == at::kStrided) return;
  throw invalid_argument(
      fmt::format("{} does not support sparse gradients: make them dense (`to_dense`, or "
                  "`sparse(false)` of an embedding), or use SGD or Adagrad",
                  optimizer));
}

}  // namespace detail

/// Such as Adam's betas.
using number_pair = std::tuple<double, double>;

/// Base of an optimizer's options: `Derived` has a TROUPE_EACH_FIELD with a field `lr`, and can be
/// made from a learning rate (`Derived(0.1)`).
template <class Derived>
class stepwise_options : public torch::optim::OptimizerCloneableOptions<Derived> {
public:
  void serialize(torch::serialize::InputArchive& archive) override {
    detail::read_fields(static_cast<Derived&>(*this), archive);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    detail::write_fields(static_cast<const Derived&>(*this), archive);
  }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(const double lr) override { static_cast<Derived&>(*this).lr() = lr; }

  /// Throws invalid_argument, which names the option and its value, for an invalid one. `Derived`
  /// hides it with a `check` of its own if its options can be invalid.
  void check() const {}
};

/// Base of an optimizer's state of one parameter: `Derived` has a TROUPE_EACH_FIELD. Copies share
/// the tensors.
template <class Derived>
class stepwise_state : public torch::optim::OptimizerCloneableParamState<Derived> {
public:
  void serialize(torch::serialize::InputArchive& archive) override {
    detail::read_fields(static_cast<Derived&>(*this), archive);
  }
  void serialize(torch::serialize::OutputArchive& archive) const override {
    detail::write_fields(static_cast<const Derived&>(*this), archive);
  }
};

/// An optimizer with libtorch's interface whose step of one parameter is
/// `Step(parameter, gradient, state, options)`. Before the first step the state is a `State()`,
/// with counters of 0 and undefined tensors; Step makes the tensors that it finds undefined, and
/// later writes them in place. Gradients are dense.
///
/// One thread at a time, like libtorch's own.
template <class Derived, class Options, class State, auto Step>
class stepwise_optimizer : public torch::optim::Optimizer {
public:
  /// Groups without options get the defaults. Throws invalid_argument for invalid options of any
  /// group, and for a parameter that is listed twice; c10::Error for one that is no leaf.
  explicit stepwise_optimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                              const Options& defaults = {})
      : Optimizer(groups, std::make_unique<Options>(defaults)) {
    defaults.check();
    std::unordered_set<const c10::TensorImpl*> seen;
    for (const auto& group : param_groups_) {
      options_of(group).check();
      for (const auto& one : group.params())
        if (!seen.insert(one.unsafeGetTensorImpl()).second)
          throw invalid_argument(
              fmt::format("a parameter of {} is listed twice", type_name<Derived>()));
    }
  }

  explicit stepwise_optimizer(std::vector<at::Tensor> parameters, const Options& defaults = {})
      : stepwise_optimizer(one_group(std::move(parameters)), defaults) {}

  /// Steps the parameters that have a `.grad`; returns the closure's loss, if there is a closure.
  /// Throws invalid_argument, before anything is stepped, if a gradient is sparse, or if the
  /// options of a group that was added later are of another class.
  at::Tensor step(LossClosure closure = nullptr) override {
    const at::NoGradGuard off;
    at::Tensor loss;
    if (closure) {
      const at::AutoGradMode on(true);
      loss = closure();
    }
    for (const auto& group : param_groups_) {
      (void)options_of(group);
      for (const auto& one : group.params())
        if (one.grad().defined()) detail::expect_dense(one.grad(), type_name<Derived>());
    }
    for (const auto& group : param_groups_) {
      const auto& options = options_of(group);
      for (const auto& one : group.params()) {
        if (!one.grad().defined()) continue;
        auto& state = state_[one.unsafeGetTensorImpl()];
        if (!state) state = std::make_unique<State>();
        Step(one, one.grad(), static_cast<State&>(*state), options);
      }
    }
    return loss;
  }

  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<State, Options>(archive, *this);
  }

private:
  static const Options& options_of(const torch::optim::OptimizerParamGroup& group) {
    if (const auto* found = dynamic_cast<const Options*>(&group.options())) return *found;
    throw invalid_argument(fmt::format("the options of a group of {} have to be {}",
                                       type_name<Derived>(), type_name<Options>()));
  }

  static std::vector<torch::optim::OptimizerParamGroup> one_group(
      std::vector<at::Tensor> parameters) {
    std::vector<torch::optim::OptimizerParamGroup> out;
    out.emplace_back(std::move(parameters));
    return out;
  }
};

/// The `optimizer_traits` of such an optimizer.
template <class Options, class State>
struct stepwise_traits {
  using options = Options;
  using state = State;
  static constexpr bool needs_closure = false;
  static options some_options() { return {1e-3}; }
};

}  // namespace troupe
