#pragma once

#include <ATen/ops/full.h>
#include <troupe/parameters.hpp>
#include <troupe/troupe.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace troupe::test {

/// Pulls versions up to `last` as they come, each whole and all of one version. In a set that
/// `train` updates, all elements of version n are n. How many versions it has seen.
inline std::uint64_t pull_sum(const rref<parameter_set>& from, std::uint64_t last) {
  std::uint64_t seen = 0;
  for (pull_options what; what.newer_than < last; ++seen) {
    const auto got = pull(from, what);
    if (got.version <= what.newer_than) throw std::runtime_error("an old version came");
    what.newer_than = got.version;
    for (const auto& [name, tensor] : got.tensors) {
      const auto wanted = static_cast<float>(got.version);
      if (!tensor.equal(at::full(tensor.sizes(), wanted)))
        throw std::runtime_error(name + " is not of version " + std::to_string(got.version));
    }
  }
  return seen;
}

/// Tensors of ones, the first so many floats, the others smaller.
inline parameter_set::named_tensors ones_to_train(std::int64_t floats) {
  return {{"large", at::full({floats / 16, 16}, 1.0F)},
          {"small", at::full({3}, 1.0F)},
          {"bias", at::full({floats / 4}, 1.0F)}};
}

/// A set of the callee's.
inline rref<parameter_set> offer_ones(std::int64_t floats) {
  return this_node().make_rref(std::in_place_type<parameter_set>, ones_to_train(floats));
}

/// Adds 1 to each tensor of the set again and again, and commits, until version `last`.
inline void train_here(parameter_set& set, const parameter_set::named_tensors& tensors,
                       std::uint64_t last) {
  while (set.counts().version < last) {
    set.begin_update();
    for (auto [name, tensor] : tensors) tensor.add_(1);
    set.commit();
  }
}

/// The same with a set of the callee's, which functions on `readers` pull. How many writes copied.
inline std::uint64_t train(std::int64_t floats, std::uint64_t last,
                           const std::vector<std::string>& readers, bool readers_wait) {
  const auto node = this_node();
  const auto tensors = ones_to_train(floats);
  const auto set = node.make_rref(std::in_place_type<parameter_set>, tensors, readers_wait);
  std::vector<future<std::uint64_t>> pulls;
  for (const auto& name : readers) pulls.push_back(node.rpc_async<&pull_sum>(name, set, last));
  train_here(set.local_value(), tensors, last);
  for (const auto& one : pulls)
    if (one.get() == 0) throw std::runtime_error("a reader has seen nothing");
  return set.local_value().counts().copies;
}

}  // namespace troupe::test
