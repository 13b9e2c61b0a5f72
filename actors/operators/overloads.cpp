// Chooses the operator that a call means: by its name, then by its arguments.
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "troupe/actors/operators/ivalue_internal.hpp"
#include "troupe/actors/operators/overloads_internal.hpp"

namespace troupe::detail {

namespace {

constexpr std::size_t longest_name = 200;  // the longest of libtorch 2.11 has 94
constexpr std::size_t most_near_names = 3;
constexpr std::size_t most_schemas = 24;

std::string in_quotes(std::string_view text) { return '"' + std::string(text) + '"'; }

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (const char c : a) {
    auto diagonal = row[0]++;
    for (std::size_t i = 0; i < b.size(); ++i) {
      const auto replaced = diagonal + (c != b[i]);
      diagonal = row[i + 1];
      row[i + 1] = std::min({replaced, diagonal + 1, row[i] + 1});
    }
  }
  return row.back();
}

// Up to three of `names`, the nearest first.
std::string nearest(const std::string& name, const std::vector<std::string>& names,
                    std::size_t farthest) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const auto& one : names)
    if (const auto far = edit_distance(name, one); far <= farthest) near.emplace_back(far, one);
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  near.resize(std::min(near.size(), most_near_names));
  std::string text;
  for (const auto& [far, one] : near) text += (text.empty() ? "" : ", ") + one;
  return text;
}

std::vector<c10::OperatorHandle> overloads_of(const std::string& base) {
  std::vector<c10::OperatorHandle> found;
  // A copy: loading a library may add overloads. Those that the dispatcher lacks are TorchScript's.
  const auto all = torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString(base));
  for (const auto& one : all)
    if (auto op = c10::Dispatcher::singleton().findSchema(one->schema().operator_name()))
      found.push_back(*op);
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.operator_name().overload_name < b.operator_name().overload_name;
  });
  return found;
}

[[noreturn]] void refuse_unknown(const c10::OperatorName& name) {
  std::vector<std::string> others;
  for (const auto& one : overloads_of(name.name)) others.push_back(toString(one.operator_name()));
  const bool known = !others.empty();
  if (!known)
    for (const auto& one : c10::Dispatcher::singleton().getAllOpNames()) others.push_back(one.name);
  const auto text = toString(name);
  const auto near = known ? nearest(text, others, longest_name)
                          : nearest(name.name, others, 1 + name.name.size() / 6);
  throw unknown_function("there is no operator " + in_quotes(text) +
                         (near.empty() ? "" : "; similar names are " + near));
}

void describe_types(std::ostream& out, const op_arguments& given) {
  int left = 32;
  const char* comma = "";
  const auto add = [&](const std::string& name, const op_value& x) {
    if (--left < 0) return;
    out << comma << name << (left > 0 ? x.type() : "...");
    comma = ", ";
  };
  out << '(';
  for (const auto& x : given.positional) add("", x);
  for (const auto& [name, x] : given.named) add(name.substr(0, longest_name) + '=', x);
  out << ')';
}

struct candidate {
  std::vector<c10::IValue> stack;
  int cost = 0;
  std::size_t defaults = 0;

  bool operator<(const candidate& other) const {
    return std::pair(cost, defaults) < std::pair(other.cost, other.defaults);
  }
};

// Collects why arguments do not fit a schema; builds the text only if there is a place for it.
class misfit {
public:
  explicit misfit(std::string* why) : why_(why) {}

  template <class Text>
  std::nullopt_t operator()(const Text& text) const {
    if (why_) *why_ = text();
    return std::nullopt;
  }

private:
  std::string* why_;
};

// "k" (SymInt)
std::string in_words(const c10::Argument& parameter) {
  return in_quotes(parameter.name()) + " (" + parameter.real_type()->str() + ')';
}

// Does the operator write its result into an argument that is not given?
bool lacks_out(const c10::FunctionSchema& schema, const op_arguments& given) {
  return std::any_of(
      schema.arguments().begin(), schema.arguments().end(), [&](const c10::Argument& parameter) {
        return parameter.is_out() &&
               std::none_of(given.named.begin(), given.named.end(),
                            [&](const auto& one) { return one.first == parameter.name(); });
      });
}

using values_in_order = std::vector<const op_value*>;

// The values by the places of their parameters; nullptr: not given.
std::optional<values_in_order> in_order(const c10::FunctionSchema& schema,
                                        const op_arguments& given, const misfit& no) {
  const auto& parameters = schema.arguments();
  const auto count = given.positional.size() + given.named.size();
  if (count > parameters.size())
    return no([&] {
      return "it takes " + std::to_string(parameters.size()) + " arguments, and " +
             std::to_string(count) + " were given";
    });
  values_in_order values(parameters.size());
  for (std::size_t i = 0; i < given.positional.size(); ++i) {
    if (parameters[i].kwarg_only())
      return no([&] {
        return "it takes " + std::to_string(i) + " arguments without a name, and " +
               std::to_string(given.positional.size()) + " were given";
      });
    values[i] = &given.positional[i];
  }
  for (const auto& [name, value] : given.named) {
    const auto place = schema.argumentIndexWithName(name);
    const auto shown = [&name = name] { return in_quotes(name.substr(0, longest_name)); };
    if (!place) return no([&] { return "it has no argument " + shown(); });
    if (values[*place]) return no([&] { return shown() + " is given twice"; });
    values[*place] = &value;
  }
  return values;
}

// Empty: it does not fit; `why` gets the reason, unless it is null.
std::optional<candidate> fit(const c10::FunctionSchema& schema, const op_arguments& given,
                             std::string* why) {
  const misfit no(why);
  if (schema.is_vararg() || schema.is_varret())
    return no([] { return "it takes or returns any number of values, which cannot be sent"; });
  for (const auto& one : schema.returns())
    if (!can_travel(*one.real_type()))
      return no([&] { return "it returns " + one.real_type()->str() + ", which cannot be sent"; });
  const auto values = in_order(schema, given, no);
  if (!values) return std::nullopt;
  candidate out;
  out.stack.reserve(values->size());
  for (std::size_t i = 0; i < values->size(); ++i) {
    const auto& parameter = schema.arguments()[i];
    const auto* one = (*values)[i];
    if (!one && !parameter.default_value())
      return no([&] { return in_words(parameter) + " is missing"; });
    if (!one) {
      out.stack.push_back(*parameter.default_value());
      ++out.defaults;
      continue;
    }
    auto value = to_ivalue(*one, parameter);
    if (!value)
      return no([&] {
        return in_words(parameter) + " cannot be " +
               (can_travel(*parameter.real_type()) ? one->type() : "sent");
      });
    out.stack.push_back(std::move(value->value));
    out.cost += static_cast<int>(value->cost);
  }
  return out;
}

std::string why_none_fits(const c10::OperatorName& name,
                          const std::vector<c10::OperatorHandle>& overloads,
                          const op_arguments& given) {
  std::ostringstream text;
  describe_types(text, given);
  text << (name.overload_name.empty() ? " fits no overload of " : " does not fit ") << name << ':';
  for (std::size_t i = 0; i < std::min(overloads.size(), most_schemas); ++i) {
    std::string why;
    fit(overloads[i].schema(), given, &why);
    text << "\n  " << overloads[i].schema() << ": " << why;
  }
  if (overloads.size() > most_schemas)
    text << "\n  and " << overloads.size() - most_schemas << " more";
  return text.str();
}

}  // namespace

// The parts, "aten", "add" and "Tensor", consist of letters, digits and "_".
c10::OperatorName parse_operator_name(std::string_view name) {
  const auto is_word = [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_';
    });
  };
  const auto colons = name.find("::");
  const auto dot = name.find('.');
  const bool has_overload = dot != name.npos;
  const auto base = name.substr(0, dot);
  const auto overload = has_overload ? name.substr(dot + 1) : std::string_view();
  if (name.size() > longest_name || colons == name.npos || !is_word(base.substr(0, colons)) ||
      !is_word(base.substr(std::min(base.size(), colons + 2))) ||
      (has_overload && !is_word(overload)))
    throw invalid_argument(in_quotes(name.substr(0, longest_name)) +
                           " is not the name of an operator, such as \"aten::add.Tensor\", or "
                           "\"aten::add\" for the overload that fits the arguments");
  return {std::string(base), std::string(overload)};
}

std::vector<c10::OperatorHandle> find_operators(const c10::OperatorName& name) {
  std::vector<c10::OperatorHandle> found;
  if (name.overload_name.empty())
    found = overloads_of(name.name);
  else if (auto op = c10::Dispatcher::singleton().findSchema(name))
    found.push_back(*op);
  if (found.empty()) refuse_unknown(name);
  return found;
}

op_call choose_overload(const c10::OperatorName& name, const op_arguments& given) {
  auto overloads = find_operators(name);
  const auto others =
      std::remove_if(overloads.begin(), overloads.end(),
                     [&](const c10::OperatorHandle& op) { return lacks_out(op.schema(), given); });
  if (others != overloads.begin()) overloads.erase(others, overloads.end());
  std::optional<candidate> best;
  const c10::OperatorHandle* chosen = nullptr;
  for (const auto& op : overloads) {
    auto next = fit(op.schema(), given, nullptr);
    if (!next || (best && !(*next < *best))) continue;
    best = std::move(next);
    chosen = &op;
  }
  if (!chosen) throw invalid_argument(why_none_fits(name, overloads, given));
  return {*chosen, std::move(best->stack)};
}

}  // namespace troupe::detail
