#include "autograd/local/split_node.hpp"

#include <torch/csrc/autograd/generated/Functions.h>

#include <typeinfo>
#include <utility>

namespace troupe::autograd::detail {

using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::generated::AddmmBackward0;
using torch::autograd::generated::ConvolutionBackward0;
using torch::autograd::generated::MmBackward0;

namespace {

// The fields of torch 2.11's classes.

void copy_saved(const AddmmBackward0& from, AddmmBackward0& to) {
  to.alpha = from.alpha;
  to.beta = from.beta;
  to.mat1_ = SavedVariable(from.mat1_.unpack(), false);
  to.mat1_layout = from.mat1_layout;
  to.mat1_sym_sizes = from.mat1_sym_sizes;
  to.mat1_sym_strides = from.mat1_sym_strides;
  to.mat2_ = SavedVariable(from.mat2_.unpack(), false);
  to.mat2_layout = from.mat2_layout;
  to.mat2_sym_sizes = from.mat2_sym_sizes;
  to.mat2_sym_strides = from.mat2_sym_strides;
}

void copy_saved(const MmBackward0& from, MmBackward0& to) {
  to.self_ = SavedVariable(from.self_.unpack(), false);
  to.self_layout = from.self_layout;
  to.self_sym_sizes = from.self_sym_sizes;
  to.self_sym_strides = from.self_sym_strides;
  to.mat2_ = SavedVariable(from.mat2_.unpack(), false);
  to.mat2_layout = from.mat2_layout;
  to.mat2_sym_sizes = from.mat2_sym_sizes;
  to.mat2_sym_strides = from.mat2_sym_strides;
}

void copy_saved(const ConvolutionBackward0& from, ConvolutionBackward0& to) {
  to.bias_sym_sizes_opt = from.bias_sym_sizes_opt;
  to.dilation = from.dilation;
  to.groups = from.groups;
  to.input_ = SavedVariable(from.input_.unpack(), false);
  to.output_padding = from.output_padding;
  to.padding = from.padding;
  to.stride = from.stride;
  to.transposed = from.transposed;
  to.weight_ = SavedVariable(from.weight_.unpack(), false);
}

bool has_hooks(const AddmmBackward0& node) {
  return node.mat1_.has_hooks() || node.mat2_.has_hooks();
}

bool has_hooks(const MmBackward0& node) { return node.self_.has_hooks() || node.mat2_.has_hooks(); }

bool has_hooks(const ConvolutionBackward0& node) {
  return node.input_.has_hooks() || node.weight_.has_hooks();
}

template <class Kind>
std::shared_ptr<Node> make_like(const Kind& node, edge_list edges, const at::Tensor& gradient) {
  std::shared_ptr<Kind> made(new Kind(node.sequence_nr(), std::move(edges)),
                             torch::autograd::deleteNode);
  made->add_input_metadata(gradient);  // and with it the stream
  copy_saved(node, *made);
  return made;
}

template <class Kind>
std::optional<split_node> split_as(const Kind& node, const at::Tensor& gradient,
                                   const std::function<bool(std::size_t)>& is_first) {
  if (has_hooks(node)) return std::nullopt;
  edge_list first(node.num_outputs()), rest(node.num_outputs());
  for (std::size_t i = 0; i < node.num_outputs(); ++i)
    (is_first(i) ? first : rest)[i] = node.next_edge(i);
  return split_node{make_like(node, std::move(first), gradient),
                    make_like(node, std::move(rest), gradient)};
}

template <class Kind>
bool is_a(const Node& node) {
  return typeid(node) == typeid(Kind);
}

}  // namespace

bool is_product(const Node& node) {
  return is_a<AddmmBackward0>(node) || is_a<MmBackward0>(node) || is_a<ConvolutionBackward0>(node);
}

std::optional<split_node> split(const Node& node, const at::Tensor& gradient,
                                const std::function<bool(std::size_t)>& is_first) {
  if (is_a<AddmmBackward0>(node))
    return split_as(static_cast<const AddmmBackward0&>(node), gradient, is_first);
  if (is_a<MmBackward0>(node))
    return split_as(static_cast<const MmBackward0&>(node), gradient, is_first);
  if (is_a<ConvolutionBackward0>(node))
    return split_as(static_cast<const ConvolutionBackward0&>(node), gradient, is_first);
  return std::nullopt;
}

}  // namespace troupe::autograd::detail
