#include "tests/autograd/graphs/program_traits.hpp"

#include <algorithm>
#include <set>

namespace troupe::test {

namespace {

// Goes through a program as it runs.
class reader {
public:
  explicit reader(const random_program& program)
      : program_(program), taken_(program.parameters.size()), users_(program.parameters.size()) {}

  std::map<std::string, bool> read() {
    note_passes();
    read_block(0, program_.starter, {}, {});
    bool shared = false, of_several_nodes = false;
    for (const auto times : taken_) shared |= times > 1;
    for (const auto& ranks : users_) of_several_nodes |= ranks.size() > 1;
    note("shared parameters", shared);
    note("parameters that several nodes use", of_several_nodes);
    return std::move(found_);
  }

private:
  struct value {
    bool is_reference = false;
    bool is_here = false;
    std::uint32_t owner = 0;
    std::uint32_t uses = 0;
  };

  void note(const char* what, bool has_it) { found_[what] |= has_it; }

  void note_passes() {
    note("several passes", program_.passes.size() > 1);
    note("several roots", program_.blocks[0].results.size() > 1);
    note("passes that another node than the opener starts", program_.starter != program_.opener);
    bool leaves_out = false, does_not_train = false;
    for (const auto& pass : program_.passes)
      leaves_out |= std::find(pass.begin(), pass.end(), false) != pass.end();
    for (const auto& one : program_.parameters) does_not_train |= !one.trains;
    note("passes without some root", leaves_out);
    note("inputs without gradients", does_not_train);
  }

  // `callers`: their ranks, the first one's first.
  void read_block(std::uint32_t which, std::uint32_t rank, std::vector<std::uint32_t> callers,
                  std::vector<value> values) {
    const auto& of = program_.blocks[which];
    for (const auto& one : of.steps) {
      for (const auto i : one.operands) ++values[i].uses;
      switch (one.what) {
        case step::kind::parameter: take_parameter(one, rank, values); break;
        case step::kind::operate: operate(one, rank, values); break;
        case step::kind::call: call(one, rank, callers, values); break;
      }
    }
    for (const auto i : of.results) ++values[i].uses;
    bool several = false, unused = false;
    for (const auto& one : values) {
      several |= one.uses > 1;
      unused |= one.uses == 0;
    }
    note("values with several uses", several);
    note("values that nobody uses", unused);
  }

  void take_parameter(const step& one, std::uint32_t rank, std::vector<value>& values) {
    const auto home = program_.parameters[one.number].home;
    ++taken_[one.number];
    users_[one.number].insert(rank);
    note("parameters of other nodes", home != rank);
    values.push_back({true, false, home, 0});
  }

  void operate(const step& one, std::uint32_t rank, std::vector<value>& values) {
    for (const auto i : one.operands) {
      auto& x = values[i];
      note("values that are fetched", x.is_reference && !x.is_here && x.owner != rank);
      x.is_here = true;
    }
    values.push_back({});
    const auto is = [&](auto... what) { return ((one.op == what) || ...); };
    note("writes", is(operation::write, operation::write_part));
    note("writes into arguments", is(operation::write_first));
    note("views", is(operation::transpose, operation::rows, operation::column, operation::expand));
    note("sparse gradients", is(operation::embed_sparse));
    note("functions of the user", is(operation::custom));
    note("hooks", is(operation::hook, operation::hook_here));
    note("several dtypes in one", is(operation::convert));
    note("conjugate views", is(operation::conjugate));
    note("factors without gradients", is(operation::stop));
  }

  void call(const step& one, std::uint32_t rank, std::vector<std::uint32_t>& callers,
            std::vector<value>& values) {
    auto& first = values[one.operands[0]];
    const bool at_owner = one.how == way::at_owner;
    const auto where = at_owner ? first.owner : one.where;
    if (one.how == way::piped) first.is_here = true;
    std::vector<value> given;
    for (const auto i : one.operands) {
      given.push_back(values[i]);
      given.back().uses = 0;
    }
    if (one.how == way::lent && first.is_reference) given[0].is_here = false;
    if (at_owner) given[0] = {};
    bool references = false;
    for (const auto& x : given) references |= x.is_reference && !x.is_here;
    const auto results = program_.blocks[one.number].results.size();
    note("calls", true);
    note("nested calls", !callers.empty());
    note("calls three deep", callers.size() >= 2);
    note("calls to oneself", where == rank);
    note("calls back", where != rank && !callers.empty() && callers.back() == where);
    note("results that stay", one.stays);
    note("several results", results > 1);
    note("coroutines", one.coroutine);
    note("calls at once", one.later);
    note("references as arguments", references);
    note("lent values", one.how == way::lent);
    note("futures as arguments", one.how == way::piped);
    note("calls on the owner", at_owner);
    note("calls without gradients", one.how == way::without_gradients);
    const bool asks = one.how == way::asked;
    const auto answers = answering_of(one);
    note("requests", asks);
    note("requests of actors on one's own node", asks && asked_rank(one, program_.nodes) == rank);
    note("nested requests", asks && !callers.empty());
    note("promised answers", asks && answers == answering::by_promise);
    note("delegated requests", asks && answers == answering::by_delegation);
    note("requests of CAF's own", asks && answers == answering::by_request);
    callers.push_back(rank);
    read_block(one.number, where, callers, std::move(given));
    callers.pop_back();
    for (std::size_t i = 0; i < results; ++i) values.push_back({one.stays, false, where, 0});
  }

  const random_program& program_;
  std::map<std::string, bool> found_;
  std::vector<std::uint32_t> taken_;            // how often, by parameter
  std::vector<std::set<std::uint32_t>> users_;  // ranks, by parameter
};

}  // namespace

std::map<std::string, bool> traits_of(const random_program& program) {
  return reader(program).read();
}

bool has(const random_program& program, operation what) {
  for (const auto& block : program.blocks)
    for (const auto& one : block.steps)
      if (one.what == step::kind::operate && one.op == what) return true;
  return false;
}

}  // namespace troupe::test
