// Types as users write them, one for each way to make a type sendable.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>

#include <caf/meta/load_callback.hpp>
#include <caf/meta/save_callback.hpp>
#include <caf/meta/type_name.hpp>

#include <bit>
#include <deque>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tests/messages/codec/random_value.hpp"
#include "troupe/messages/codec/type_registration.hpp"

namespace troupe::testing {

enum class colour : std::uint8_t { red, green, blue };
enum class wide_enum : std::int64_t { low = -1, none = 0, high = std::int64_t{1} << 40 };
enum class switched : bool { off, on };

/// No fields.
struct nothing {
  friend bool operator==(nothing, nothing) { return true; }
};
TROUPE_MESSAGE(nothing)

/// Fields, and none of them takes a byte.
struct of_nothing {
  nothing a;
  std::array<nothing, 3> b;
  std::pair<nothing, std::tuple<>> c;

  static of_nothing random(random_values&) { return {}; }
  friend bool operator==(const of_nothing&, const of_nothing&) { return true; }
};
TROUPE_MESSAGE(of_nothing, a, b, c)

struct point {
  double x = 0;
  float y = 0;
  colour tint = colour::red;

  static point random(random_values& r) {
    return {r.make<double>(), r.make<float>(), r.make<colour>()};
  }
  friend bool operator==(const point&, const point&) = default;
};
TROUPE_MESSAGE(point, x, y, tint)

/// Fields of a base class.
struct named_point : point {
  std::string name;

  static named_point random(random_values& r) { return {point::random(r), r.make<std::string>()}; }
  friend bool operator==(const named_point&, const named_point&) = default;
};
TROUPE_MESSAGE(named_point, x, y, tint, name)

/// CAF's own way.
struct inspected {
  std::int32_t number = 0;
  std::vector<std::string> words;

  static inspected random(random_values& r) {
    return {r.make<std::int32_t>(), r.make<std::vector<std::string>>()};
  }
  friend bool operator==(const inspected&, const inspected&) = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, inspected& x) {
  return f(caf::meta::type_name("inspected"), x.number, x.words);
}

/// CAF's way, and nothing to send.
struct inspected_nothing {
  int not_sent = 0;

  static inspected_nothing random(random_values&) { return {}; }
  friend bool operator==(const inspected_nothing&, const inspected_nothing&) { return true; }
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, inspected_nothing&) {
  return f(caf::meta::type_name("inspected_nothing"));
}

/// A private member and an invariant, checked when it is read.
class even {
public:
  even() = default;
  explicit even(std::int32_t x) : value_(x / 2 * 2) {}

  static even random(random_values& r) { return even(r.make<std::int32_t>()); }
  friend bool operator==(const even&, const even&) = default;

  template <class Inspector>
  friend typename Inspector::result_type inspect(Inspector& f, even& x) {
    auto check = [&]() -> caf::error {
      return x.value_ % 2 == 0 ? caf::error() : caf::make_error(caf::sec::invalid_argument);
    };
    return f(x.value_, caf::meta::load_callback(check));
  }

private:
  std::int32_t value_ = 0;
};

/// A type that contains itself.
struct tree {
  std::int16_t value = 0;
  std::vector<tree> children;

  static tree random(random_values& r) {
    tree out{r.make<std::int16_t>(), {}};
    while (r.below(3) == 0) out.children.push_back(random(r));
    return out;
  }
  friend bool operator==(const tree&, const tree&) = default;
};
TROUPE_MESSAGE(tree, value, children)

/// As many fields as there may be.
struct wide {
  std::int8_t f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15;
  std::int8_t f16, f17, f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31;

  static wide random(random_values& r) {
    return std::bit_cast<wide>(r.make<std::array<std::int8_t, 32>>());
  }
  friend bool operator==(const wide&, const wide&) = default;
};
TROUPE_MESSAGE(wide, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17,
               f18, f19, f20, f21, f22, f23, f24, f25, f26, f27, f28, f29, f30, f31)

/// Everything in one.
struct nested {
  std::map<std::string, std::vector<std::optional<point>>> points;
  std::variant<std::monostate, std::int64_t, named_point, std::vector<tree>> one_of;
  std::tuple<bool, std::pair<colour, inspected>, std::array<std::vector<bool>, 2>> several;
  std::unordered_map<std::uint32_t, std::set<std::string>> sets;
  std::deque<std::list<even>> lists;
  std::optional<std::optional<std::complex<float>>> maybe;

  static nested random(random_values& r) {
    return {r.make<decltype(points)>(), r.make<decltype(one_of)>(), r.make<decltype(several)>(),
            r.make<decltype(sets)>(),   r.make<decltype(lists)>(),  r.make<decltype(maybe)>()};
  }
  friend bool operator==(const nested&, const nested&) = default;
};
TROUPE_MESSAGE(nested, points, one_of, several, sets, lists, maybe)

/// Two tensors are one if dtype, sizes and all elements are; two that are undefined, too.
inline bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

/// Tensors inside user types inside containers.
struct layer {
  std::string name;
  at::Tensor weight;
  std::optional<at::Tensor> bias;
  std::vector<at::Tensor> buffers;

  static layer random(random_values& r) {
    layer out{r.make<std::string>(), tensor(r), {}, {}};
    if (r.below(2) == 0) out.bias = tensor(r);
    for (auto n = r.below(4); n > 0; --n) out.buffers.push_back(tensor(r));
    return out;
  }

  static at::Tensor tensor(random_values& r) {
    const at::ScalarType types[] = {at::kFloat, at::kDouble, at::kLong, at::kByte, at::kBFloat16};
    switch (r.below(6)) {
      case 0: return {};
      case 1: return at::empty({0, 3});
      case 2: return at::full({}, static_cast<double>(r.below(9)));
      default: {
        std::vector<std::int64_t> sizes;
        for (auto n = 1 + r.below(3); n > 0; --n)
          sizes.push_back(1 + static_cast<std::int64_t>(r.below(12)));
        return at::randint(-100, 100, sizes, at::kFloat).to(types[r.below(5)]);
      }
    }
  }

  friend bool operator==(const layer& a, const layer& b) {
    return a.name == b.name && same_tensor(a.weight, b.weight) &&
           a.bias.has_value() == b.bias.has_value() && (!a.bias || same_tensor(*a.bias, *b.bias)) &&
           std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(),
                      same_tensor);
  }
};
TROUPE_MESSAGE(layer, name, weight, bias, buffers)

struct model {
  std::map<std::string, std::vector<layer>> blocks;
  std::variant<std::monostate, layer, std::pair<point, layer>> head;

  static model random(random_values& r) {
    return {r.make<decltype(blocks)>(), r.make<decltype(head)>()};
  }
  friend bool operator==(const model&, const model&) = default;
};
TROUPE_MESSAGE(model, blocks, head)

}  // namespace troupe::testing
