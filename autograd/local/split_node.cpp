#include "troupe/autograd/local/split_node.hpp"

#include <torch/csrc/autograd/generated/Functions.h>

#include <typeinfo>
#include <utility>

namespace troupe::autograd::detail {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::generated::AddmmBackward0;
using torch::autograd::generated::ConvolutionBackward0;
using torch::autograd::generated::MmBackward0;

namespace {

// The edges and fields of torch 2.11's classes. Of what a node has saved, a part gets what its own
// edges need.

void copy_saved(const AddmmBackward0& from, AddmmBackward0& to) {
  to.alpha = from.alpha;
  to.beta = from.beta;
  if (to.should_compute_output(2)) to.mat1_ = SavedVariable(from.mat1_.unpack(), false);
  to.mat1_layout = from.mat1_layout;
  to.mat1_sym_sizes = from.mat1_sym_sizes;
  to.mat1_sym_strides = from.mat1_sym_strides;
  if (to.should_compute_output(1)) to.mat2_ = SavedVariable(from.mat2_.unpack(), false);
  to.mat2_layout = from.mat2_layout;
  to.mat2_sym_sizes = from.mat2_sym_sizes;
  to.mat2_sym_strides = from.mat2_sym_strides;
}

void copy_saved(const MmBackward0& from, MmBackward0& to) {
  if (to.should_compute_output(1)) to.self_ = SavedVariable(from.self_.unpack(), false);
  to.self_layout = from.self_layout;
  to.self_sym_sizes = from.self_sym_sizes;
  to.self_sym_strides = from.self_sym_strides;
  if (to.should_compute_output(0)) to.mat2_ = SavedVariable(from.mat2_.unpack(), false);
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

std::size_t storage_of(const SavedVariable& saved) {
  const auto tensor = saved.get_raw_data();
  return tensor && tensor->defined() && tensor->has_storage() ? tensor->storage().nbytes() : 0;
}

std::size_t bytes_saved(const AddmmBackward0& node) {
  return storage_of(node.mat1_) + storage_of(node.mat2_);
}

std::size_t bytes_saved(const MmBackward0& node) {
  return storage_of(node.self_) + storage_of(node.mat2_);
}

std::size_t bytes_saved(const ConvolutionBackward0& node) {
  return storage_of(node.input_) + storage_of(node.weight_);
}

// Can the outputs be computed in two calls? A bias as large as the sum gets the gradient itself,
// and the next node may write to it; the gradients of a convolution's bias and weights come from
// one call of libtorch's.

bool can_split(const AddmmBackward0& node, const edge_choice& is_input_edge) {
  return !node.should_compute_output(0) || !is_input_edge(0);
}

bool can_split(const MmBackward0&, const edge_choice&) { return true; }

bool can_split(const ConvolutionBackward0& node, const edge_choice& is_input_edge) {
  return !node.should_compute_output(1) || !node.should_compute_output(2) ||
         is_input_edge(1) == is_input_edge(2);
}

// The edges are not given to the constructor, which would write to the nodes they lead to.
template <class Kind>
std::shared_ptr<Kind> make_like(const Kind& node, edge_list&& edges, const at::Tensor& gradient) {
  std::shared_ptr<Kind> made(new Kind(node.sequence_nr(), edge_list()),
                             torch::autograd::deleteNode);
  made->next_edges() = std::move(edges);
  made->add_input_metadata(gradient);  // and with it the stream
  copy_saved(node, *made);
  return made;
}

template <class Kind>
std::optional<split_node> split_as(const Kind& node, const at::Tensor& gradient,
                                   const edge_choice& is_input_edge) {
  if (has_hooks(node) || !can_split(node, is_input_edge)) return std::nullopt;
  edge_list inputs(node.num_outputs()), weights(node.num_outputs());
  for (std::size_t i = 0; i < node.num_outputs(); ++i)
    (is_input_edge(i) ? inputs : weights)[i] = node.next_edge(i);
  auto weight_part = make_like(node, std::move(weights), gradient);
  const auto bytes = bytes_saved(*weight_part) + gradient.storage().nbytes();
  return split_node{make_like(node, std::move(inputs), gradient), std::move(weight_part), bytes};
}

template <class Kind>
bool is_a(const Node& node) {
  return typeid(node) == typeid(Kind);
}

// The number of elements of the gradient that the edge takes.
double count(const Edge& edge) {
  double out = 1;
  for (const auto& size : edge.function->input_metadata(edge.input_nr).shape_as_dim_vector())
    out *= double(size.guard_int(__FILE__, __LINE__));
  return out;
}

// Of a matrix product, `left` times `right`: as many for the gradient of each factor as for the
// product.
double of_matrices(const Node& node, std::size_t edge, std::size_t left,
                   const at::Tensor& product) {
  if (edge != left && edge != left + 1) return 0;
  return count(node.next_edge(edge)) * double(product.size(edge == left ? 1 : 0));
}

// Each position of the output uses all weights of its channel; in a transposed convolution, each
// position of the input does.
double of_convolution(const ConvolutionBackward0& node, std::size_t edge, const at::Tensor& out) {
  if (edge != 1 || out.numel() == 0) return 0;
  const auto weights = count(node.next_edge(1));
  if (!node.transposed) return weights * double(out.numel()) / double(out.size(1));
  const auto& input = node.next_edge(0);
  if (!input.is_valid()) return 0;
  const auto sizes = input.function->input_metadata(input.input_nr).shape_as_dim_vector();
  return weights * count(input) / double(sizes[1].guard_int(__FILE__, __LINE__));
}

}  // namespace

bool is_product(const Node& node) {
  return is_a<AddmmBackward0>(node) || is_a<MmBackward0>(node) || is_a<ConvolutionBackward0>(node);
}

double multiplications(const Node& node, std::size_t edge, const at::Tensor& gradient) {
  if (is_a<AddmmBackward0>(node)) return of_matrices(node, edge, 1, gradient);
  if (is_a<MmBackward0>(node)) return of_matrices(node, edge, 0, gradient);
  if (is_a<ConvolutionBackward0>(node))
    return of_convolution(static_cast<const ConvolutionBackward0&>(node), edge, gradient);
  return 0;
}

std::optional<split_node> split(const Node& node, const at::Tensor& gradient,
                                const edge_choice& is_input_edge) {
  if (is_a<AddmmBackward0>(node))
    return split_as(static_cast<const AddmmBackward0&>(node), gradient, is_input_edge);
  if (is_a<MmBackward0>(node))
    return split_as(static_cast<const MmBackward0&>(node), gradient, is_input_edge);
  if (is_a<ConvolutionBackward0>(node))
    return split_as(static_cast<const ConvolutionBackward0&>(node), gradient, is_input_edge);
  return std::nullopt;
}

}  // namespace troupe::autograd::detail
