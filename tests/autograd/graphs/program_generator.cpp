#include "tests/autograd/graphs/program_generator.hpp"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <random>

namespace troupe::test {

namespace {

class writer {
public:
  writer(std::uint64_t seed, std::int8_t dtype, const program_kind& kind,
         std::vector<parameter>&& given)
      : random_(seed * 7919 + 1), kind_(kind), uses_(kind.few_uses ? 2 : 5) {
    out_.seed = seed;
    out_.nodes = kind.nodes;
    out_.dtype = dtype;
    out_.size = one_in(6) && !kind.shares ? 24 : 3;
    out_.parameters = std::move(given);
    used_.resize(out_.parameters.size());
    type_ = static_cast<c10::ScalarType>(dtype);
  }

  random_program write() {
    out_.opener = rank();
    out_.starter = one_in(3) ? rank() : out_.opener;
    out_.blocks.emplace_back();
    frame main;
    fill(main, 5 + below(7), 0);
    finish(main, 1 + below(3));
    out_.blocks[0] = std::move(main.made);
    const auto roots = out_.blocks[0].results.size();
    const auto passes = one_in(3) ? 1 + below(3) : 1;
    for (std::uint32_t i = 0; i < passes; ++i) {
      std::vector<bool> of(roots, true);
      if (!kind_.thrifty && one_in(2)) of[below(roots)] = false;
      if (std::none_of(of.begin(), of.end(), [](bool x) { return x; })) of[0] = true;
      out_.passes.push_back(of);
    }
    return std::move(out_);
  }

private:
  struct known {
    std::uint32_t uses = 0;
    bool is_reference = false;
    bool is_table = false;
    int parameter = -1;
  };
  struct frame {
    block made;
    std::vector<known> values;
    bool without_gradients = false;
    bool is_awaited = true;  // before the main block ends
  };

  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(random_() % n); }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint32_t rank() { return below(kind_.nodes); }

  bool may_use(const known& one) const {
    const auto uses = one.parameter < 0 ? one.uses : used_[static_cast<std::size_t>(one.parameter)];
    return !one.is_table && uses < uses_;
  }
  std::uint32_t use(frame& in, std::uint32_t value) {
    auto& one = in.values[value];
    ++one.uses;
    if (one.parameter >= 0) ++used_[static_cast<std::size_t>(one.parameter)];
    return value;
  }

  // Some value of the block; a new one of a parameter if there is none.
  std::uint32_t pick(frame& in, bool reference = false) {
    std::vector<std::uint32_t> fit;
    for (std::uint32_t i = 0; i < in.values.size(); ++i)
      if (may_use(in.values[i]) && (!reference || in.values[i].is_reference)) fit.push_back(i);
    if (fit.empty() || one_in(6)) return use(in, take_parameter(in, false));
    return use(in, one_in(2) ? fit.back() : fit[below(fit.size())]);
  }

  std::uint32_t take_parameter(frame& in, bool table) {
    std::vector<std::uint32_t> fit;
    for (std::uint32_t i = 0; i < out_.parameters.size(); ++i)
      if (out_.parameters[i].is_table == table && used_[i] < uses_) fit.push_back(i);
    const auto which =
        fit.empty() || (one_in(4) && !kind_.shares) ? add_parameter(table) : fit[below(fit.size())];
    step take;
    take.what = step::kind::parameter;
    take.number = which;
    in.made.steps.push_back(take);
    in.values.push_back({0, true, table, static_cast<int>(which)});
    return static_cast<std::uint32_t>(in.values.size() - 1);
  }

  std::uint32_t add_parameter(bool table) {
    const auto n = out_.size;
    const std::vector<std::vector<std::int64_t>> shapes{{n, n}, {n, n}, {n}, {}, {1, n}, {n, 1}};
    parameter one;
    one.home = rank();
    one.is_table = table;
    one.trains = table || !one_in(6);
    one.shape = table ? std::vector<std::int64_t>{n + 2, n} : shapes[below(shapes.size())];
    out_.parameters.push_back(one);
    used_.push_back(0);
    return static_cast<std::uint32_t>(used_.size() - 1);
  }

  std::uint32_t add(frame& in, operation op, std::vector<std::uint32_t> operands) {
    step one;
    one.op = op;
    one.operands = std::move(operands);
    one.detail = below(1000);
    in.made.steps.push_back(one);
    in.values.push_back({});
    return static_cast<std::uint32_t>(in.values.size() - 1);
  }

  void operate(frame& in) {
    constexpr operation unary[] = {operation::tanh,   operation::sine,       operation::transpose,
                                   operation::rows,   operation::column,     operation::expand,
                                   operation::mean,   operation::take_apart, operation::write_part,
                                   operation::custom, operation::hook};
    constexpr operation binary[] = {
        operation::average, operation::product,        operation::product, operation::difference,
        operation::join,    operation::matrix_product, operation::write};
    const auto choice = below(20);
    const bool sparse = type_ == c10::kDouble || type_ == c10::kFloat;
    if (choice < 8) {
      add(in, binary[below(std::size(binary))], {pick(in), pick(in)});
    } else if (choice < 15) {
      const auto op = unary[below(std::size(unary))];
      // Another layout may be another order of a later sum over its elements.
      const bool digits = type_ == c10::kDouble || type_ == c10::kComplexDouble;
      add(in, op == operation::transpose && !digits ? operation::tanh : op, {pick(in)});
    } else if (choice < 17) {
      const auto table = use(in, take_parameter(in, true));
      add(in,
          one_in(4) ? operation::table_mean
          : sparse  ? operation::embed_sparse
                    : operation::embed,
          {table});
    } else if (choice < 18) {
      // A hook on a leaf that other programs share would be theirs too, and one that is set after a
      // pass has begun may be called or not.
      if (!kind_.shares && in.is_awaited) add(in, operation::hook_here, {pick(in)});
    } else if (choice < 19) {
      if (c10::isComplexType(type_))
        add(in, one_in(2) ? operation::conjugate : operation::swap_parts, {pick(in)});
      else if (kind_.few_uses)  // sums of few digits would differ by more
        add(in, operation::convert, {pick(in)});
    } else if (!kind_.thrifty) {
      add(in, operation::stop, {pick(in), pick(in)});
    }
  }

  void call(frame& in, int depth) {
    step one;
    one.what = step::kind::call;
    one.where = rank();
    one.coroutine = one_in(2);
    one.later = one_in(2);
    one.stays = one_in(3);
    const auto kind = below(13);
    one.how = kind < 5    ? way::values
              : kind < 7  ? way::lent
              : kind < 8  ? way::piped
              : kind < 9  ? way::at_owner
              : kind < 10 ? way::without_gradients
                          : way::asked;
    if (one.how == way::without_gradients && kind_.thrifty) one.how = way::values;
    if (one.how == way::piped || one.how == way::without_gradients || one.how == way::asked)
      one.stays = false;
    if (one.how == way::asked) one.detail = below(1000);
    frame callee;
    callee.without_gradients = in.without_gradients || one.how == way::without_gradients;
    callee.is_awaited = in.is_awaited && !one.later && !one.stays;
    const bool reference = one.how == way::lent || one.how == way::at_owner;
    const bool writes = one.how == way::values && !callee.without_gradients && one_in(4);
    const auto count = writes ? 1 : 1 + below(3);
    for (std::uint32_t i = 0; i < count; ++i) {
      auto given = pick(in, reference && i == 0);
      if (writes) given = use(in, add(in, operation::write, {given, pick(in)}));
      one.operands.push_back(given);
      callee.values.push_back({});
    }
    callee.made.arguments = count;
    if (writes) {
      add(callee, operation::write_first, {use(callee, 0)});
      callee.values[0].uses = uses_;  // is no more what it was
    }
    one.number = static_cast<std::uint32_t>(out_.blocks.size());
    out_.blocks.emplace_back();
    fill(callee, 1 + below(4), depth + 1);
    finish(callee, one.stays ? 1 : 1 + below(3));
    out_.blocks[one.number] = std::move(callee.made);
    in.made.steps.push_back(one);
    const auto results = out_.blocks[one.number].results.size();
    for (std::size_t i = 0; i < results; ++i) in.values.push_back({0, one.stays, false, -1});
  }

  void fill(frame& in, std::uint32_t steps, int depth) {
    constexpr int deepest = 4;
    constexpr std::size_t most_blocks = 14;
    for (std::uint32_t i = 0; i < steps; ++i)
      if (depth < deepest && out_.blocks.size() < most_blocks && below(10) < 4)
        call(in, depth);
      else
        operate(in);
    if (in.values.empty()) take_parameter(in, false);
  }

  // Thrifty ones use all values that were not used before.
  void finish(frame& in, std::uint32_t results) {
    std::vector<std::uint32_t> left;
    for (std::uint32_t i = 0; i < in.values.size(); ++i)
      if (!in.values[i].is_table && in.values[i].uses == 0) left.push_back(i);
    if (!kind_.thrifty) {
      std::shuffle(left.begin(), left.end(), random_);
      if (left.empty()) left.push_back(add(in, operation::tanh, {pick(in)}));
      if (left.size() > results) left.resize(results);
    }
    if (left.empty()) left.push_back(add(in, operation::tanh, {pick(in)}));
    while (left.size() > results) {
      const auto a = use(in, left.back());
      left.pop_back();
      left.front() = add(in, operation::average, {use(in, left.front()), a});
    }
    for (const auto one : left) in.made.results.push_back(use(in, one));
  }

  std::mt19937_64 random_;
  const program_kind kind_;
  const std::uint32_t uses_;
  c10::ScalarType type_;
  random_program out_;
  std::vector<std::uint32_t> used_;  // by parameter
};

}  // namespace

random_program make_program(std::uint64_t seed, std::int8_t dtype, const program_kind& kind,
                            std::vector<parameter> given) {
  return writer(seed, dtype, kind, std::move(given)).write();
}

}  // namespace troupe::test
