#pragma once

#include <troupe/autograd.hpp>
#include <troupe/troupe.hpp>
#include <vector>

namespace rnn {

/// The square of a gradient's norm; 0 for an undefined one. A sparse gradient counts with the sums
/// of its entries.
double squared_norm(const at::Tensor& gradient);

/// The factor with which the norm of all gradients together is at most `largest`, as in libtorch's
/// clip_grad_norm_.
double clip_factor(const std::vector<double>& squared_norms, double largest);

/// Multiplies them in place; ignores undefined ones.
void scale(const std::vector<at::Tensor>& gradients, double factor);

/// The gradients that a context has of some parameters of one node.
class gradient_share {
public:
  /// Throws troupe::invalid_argument for a parameter of another node.
  explicit gradient_share(const std::vector<troupe::rref<at::Tensor>>& parameters);

  /// In the order of the parameters.
  std::vector<double> squared_norms(std::uint64_t context) const;
  void scale(std::uint64_t context, double factor) const;

  /// The same on a thread that is none of the node's.
  std::vector<double> squared_norms_in(const troupe::autograd::gradients& all) const;
  void scale_in(const troupe::autograd::gradients& all, double factor) const;

private:
  std::vector<at::Tensor> mine(const troupe::autograd::gradients& all) const;

  std::vector<at::Tensor> parameters_;
};

/// Clips gradients by the norm of all of them together, wherever they are. No gradient travels: the
/// nodes send their norms, and get the factor.
class clipper {
public:
  clipper(const troupe::node& here, const std::vector<troupe::rref<at::Tensor>>& parameters,
          double largest);

  /// Throws like a call; troupe::unknown_context where a node has no part in it.
  void clip(const troupe::autograd::context& context) const;

private:
  struct part {
    troupe::rref<gradient_share> share;
    std::vector<std::size_t> places;  // of its parameters in the whole list
  };
  template <class Ask, class Do>
  void for_all(const Ask& ask, const Do& do_here) const;

  std::uint32_t rank_;
  std::vector<part> parts_;
  std::size_t count_;
  double largest_;
};

}  // namespace rnn
