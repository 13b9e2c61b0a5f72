#include "troupe/actors/groups/nccl/nccl_operations.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups::nccl {

namespace {

using c10::ScalarType;

// Of a value that is combined; of a complex one, of its parts.
std::optional<data_type> type_of(ScalarType dtype) noexcept {
  switch (dtype) {
    case ScalarType::Char: return data_type::int8;
    case ScalarType::Byte:
    case ScalarType::Bool: return data_type::uint8;
    case ScalarType::Int: return data_type::int32;
    case ScalarType::UInt32: return data_type::uint32;
    case ScalarType::Long: return data_type::int64;
    case ScalarType::UInt64: return data_type::uint64;
    case ScalarType::Half:
    case ScalarType::ComplexHalf: return data_type::float16;
    case ScalarType::Float:
    case ScalarType::ComplexFloat: return data_type::float32;
    case ScalarType::Double:
    case ScalarType::ComplexDouble: return data_type::float64;
    case ScalarType::BFloat16: return data_type::bfloat16;
    case ScalarType::Float8_e4m3fn: return data_type::float8_e4m3;
    case ScalarType::Float8_e5m2: return data_type::float8_e5m2;
    default: return std::nullopt;
  }
}

int number_of(reduce_op how, ScalarType dtype) noexcept {
  // Of truth values: does any rank have one, and do all.
  if (dtype == ScalarType::Bool)
    return static_cast<int>(how == reduce_op::sum || how == reduce_op::max ? reduction::max
                                                                           : reduction::min);
  switch (how) {
    case reduce_op::product: return static_cast<int>(reduction::product);
    case reduce_op::min: return static_cast<int>(reduction::min);
    case reduce_op::max: return static_cast<int>(reduction::max);
    case reduce_op::avg: return static_cast<int>(reduction::avg);
    default: return static_cast<int>(reduction::sum);
  }
}

// The reduction of one operation: that of a premul_sum is made for it.
class reduction_in_use {
public:
  reduction_in_use(const nccl_functions& functions, const operation& what, data_type type,
                   communicator_handle on)
      : functions_(functions), on_(on), number_(number_of(what.reduction, what.dtype)) {
    if (what.reduction != reduce_op::premul_sum) return;
    const auto make = [&](auto factor) {
      check(functions,
            functions.create_premul_sum(&number_, &factor, type, scalar_residence::host_immediate,
                                        on),
            "ncclRedOpCreatePreMulSum", on);
    };
    switch (type) {
      case data_type::float64: make(what.factor); break;
      case data_type::float32: make(static_cast<float>(what.factor)); break;
      case data_type::float16: make(c10::Half(static_cast<float>(what.factor))); break;
      default: make(c10::BFloat16(static_cast<float>(what.factor))); break;
    }
    made_ = true;
  }
  ~reduction_in_use() {
    if (made_) functions_.destroy_reduction(number_, on_);
  }
  reduction_in_use(const reduction_in_use&) = delete;
  reduction_in_use& operator=(const reduction_in_use&) = delete;

  int number() const noexcept { return number_; }

private:
  const nccl_functions& functions_;
  const communicator_handle on_;
  int number_;
  bool made_ = false;
};

// The calls of one operation.
class issuer {
public:
  issuer(const nccl_functions& functions, const operation& what, int rank, int size,
         communicator_handle on, void* stream)
      : functions_(functions), what_(what), rank_(rank), size_(size), on_(on), stream_(stream) {}

  void run() const {
    switch (what_.kind) {
      case operation_kind::broadcast: return broadcast();
      case operation_kind::all_reduce:
      case operation_kind::reduce:
      case operation_kind::reduce_scatter:
      case operation_kind::reduce_scatter_tensor: return combine();
      case operation_kind::all_gather: return all_gather();
      case operation_kind::all_gather_into_tensor: return all_gather_into_tensor();
      case operation_kind::gather: return gather();
      case operation_kind::scatter: return scatter();
      case operation_kind::all_to_all: return all_to_all();
      case operation_kind::all_to_all_single: return all_to_all_single();
      case operation_kind::send:
        return send(bytes_of(what_.inputs[0]), what_.inputs[0].nbytes(), what_.peer);
      case operation_kind::recv:
        return receive(memory_of(what_.outputs[0]), what_.outputs[0].nbytes(), what_.peer);
      default: throw invalid_argument(fmt::format("NCCL has no {}", to_string(what_.kind)));
    }
  }

private:
  static const std::byte* bytes_of(const at::Tensor& tensor) {
    return static_cast<const std::byte*>(tensor.const_data_ptr());
  }
  static std::byte* memory_of(const at::Tensor& tensor) {
    return static_cast<std::byte*>(tensor.mutable_data_ptr());
  }

  void checked(result what, const char* function) const { check(functions_, what, function, on_); }

  // Bytes of any dtype: what is only moved needs no type of NCCL's. Of none both sides say nothing.
  void send(const std::byte* from, std::size_t bytes, int to) const {
    if (bytes == 0) return;
    checked(functions_.send(from, bytes, data_type::uint8, to, on_, stream_), "ncclSend");
  }
  void receive(std::byte* to, std::size_t bytes, int from) const {
    if (bytes == 0) return;
    checked(functions_.recv(to, bytes, data_type::uint8, from, on_, stream_), "ncclRecv");
  }
  void broadcast_from(int root, const std::byte* from, std::byte* to, std::size_t bytes) const {
    checked(functions_.broadcast(from, to, bytes, data_type::uint8, root, on_, stream_),
            "ncclBroadcast");
  }

  void broadcast() const {
    for (const auto& one : what_.outputs)
      broadcast_from(what_.root, bytes_of(one), memory_of(one), one.nbytes());
  }

  // Elements of NCCL's type: of a complex number there are two.
  std::size_t count_of(const at::Tensor& tensor) const {
    return static_cast<std::size_t>(tensor.numel()) * (c10::isComplexType(what_.dtype) ? 2U : 1U);
  }

  void combine() const {
    // Of no tensors the dtype is undefined.
    const auto type = type_of(what_.dtype);
    if (!type) return;
    const reduction_in_use by(functions_, what_, *type, on_);
    const auto how = by.number();
    switch (what_.kind) {
      case operation_kind::all_reduce:
        for (const auto& one : what_.outputs)
          checked(functions_.all_reduce(bytes_of(one), memory_of(one), count_of(one), *type, how,
                                        on_, stream_),
                  "ncclAllReduce");
        return;
      case operation_kind::reduce:
        // Only the root's output is written.
        return reduce(what_.inputs[0], rank_ == what_.root ? memory_of(what_.outputs[0]) : nullptr,
                      *type, how, what_.root);
      case operation_kind::reduce_scatter:
        for (int root = 0; root < size_; ++root)
          reduce(what_.inputs[static_cast<std::size_t>(root)],
                 root == rank_ ? memory_of(what_.outputs[0]) : nullptr, *type, how, root);
        return;
      default:
        for (std::size_t i = 0; i < what_.inputs.size(); ++i)
          checked(functions_.reduce_scatter(bytes_of(what_.inputs[i]), memory_of(what_.outputs[i]),
                                            count_of(what_.outputs[i]), *type, how, on_, stream_),
                  "ncclReduceScatter");
    }
  }

  void reduce(const at::Tensor& from, std::byte* to, data_type type, int how, int root) const {
    checked(functions_.reduce(bytes_of(from), to, count_of(from), type, how, root, on_, stream_),
            "ncclReduce");
  }

  void all_gather() const {
    for (int root = 0; root < size_; ++root) {
      const auto& to = what_.outputs[static_cast<std::size_t>(root)];
      broadcast_from(root, root == rank_ ? bytes_of(what_.inputs[0]) : bytes_of(to), memory_of(to),
                     to.nbytes());
    }
  }

  void all_gather_into_tensor() const {
    for (std::size_t i = 0; i < what_.inputs.size(); ++i)
      checked(functions_.all_gather(bytes_of(what_.inputs[i]), memory_of(what_.outputs[i]),
                                    what_.inputs[i].nbytes(), data_type::uint8, on_, stream_),
              "ncclAllGather");
  }

  void gather() const {
    const auto& mine = what_.inputs[0];
    send(bytes_of(mine), mine.nbytes(), what_.root);
    if (rank_ != what_.root) return;
    for (int from = 0; from < size_; ++from) {
      const auto& to = what_.outputs[static_cast<std::size_t>(from)];
      receive(memory_of(to), to.nbytes(), from);
    }
  }

  void scatter() const {
    const auto& mine = what_.outputs[0];
    receive(memory_of(mine), mine.nbytes(), what_.root);
    if (rank_ != what_.root) return;
    for (int to = 0; to < size_; ++to) {
      const auto& from = what_.inputs[static_cast<std::size_t>(to)];
      send(bytes_of(from), from.nbytes(), to);
    }
  }

  void all_to_all() const {
    for (int other = 0; other < size_; ++other) {
      const auto& in = what_.inputs[static_cast<std::size_t>(other)];
      const auto& out = what_.outputs[static_cast<std::size_t>(other)];
      send(bytes_of(in), in.nbytes(), other);
      receive(memory_of(out), out.nbytes(), other);
    }
  }

  void all_to_all_single() const {
    const auto element = c10::elementSize(what_.dtype);
    const auto* from = bytes_of(what_.inputs[0]);
    auto* to = memory_of(what_.outputs[0]);
    for (int other = 0; other < size_; ++other) {
      const auto at = static_cast<std::size_t>(other);
      const auto out = static_cast<std::size_t>(what_.input_splits[at]) * element;
      const auto in = static_cast<std::size_t>(what_.output_splits[at]) * element;
      send(from, out, other);
      receive(to, in, other);
      from += out;
      to += in;
    }
  }

  const nccl_functions& functions_;
  const operation& what_;
  const int rank_;
  const int size_;
  const communicator_handle on_;
  void* const stream_;
};

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

bool can_reduce(reduce_op how, ScalarType dtype) noexcept {
  if (!type_of(dtype)) return false;
  switch (how) {
    case reduce_op::band:
    case reduce_op::bor:
    case reduce_op::bxor: return false;
    case reduce_op::sum: return true;
    case reduce_op::premul_sum:
      return dtype == ScalarType::Float || dtype == ScalarType::Double ||
             dtype == ScalarType::Half || dtype == ScalarType::BFloat16;
    case reduce_op::avg: return dtype != ScalarType::Bool;
    default: return !c10::isComplexType(dtype);
  }
}

void check_operation(const operation& what) {
  if (reduces(what.kind) && what.dtype != ScalarType::Undefined &&
      !can_reduce(what.reduction, what.dtype))
    throw invalid_argument(fmt::format("{}: Cannot use ReduceOp.{} with NCCL on tensors of {}",
                                       to_string(what.kind), upper(to_string(what.reduction)),
                                       c10::toString(what.dtype)));
  if (what.kind == operation_kind::recv && what.peer == any_source)
    throw invalid_argument("recv: NCCL has no receive from any source: name the rank");
  if ((what.kind == operation_kind::send || what.kind == operation_kind::recv) && what.tag != 0)
    throw invalid_argument(fmt::format(
        "{}: NCCL knows no tags, and this one is {}: messages of one rank come in their order",
        to_string(what.kind), what.tag));
}

void issue(const nccl_functions& functions, const operation& what, int rank, int size,
           communicator_handle on, void* stream) {
  issuer(functions, what, rank, size, on, stream).run();
}

}  // namespace troupe::groups::nccl
