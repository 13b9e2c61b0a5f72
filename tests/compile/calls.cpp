// Calls of functions, and of functions on rrefs, that must not compile: see check.py.
#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <string>
#include <troupe/troupe.hpp>

using namespace std::chrono_literals;

// compiles
namespace {
struct model {
  long step(long x) { return x; }
  int loss(const at::Tensor& x, double scale) const;
  int fit(int);
  int fit(double);
  int weights = 0;
};
struct other {
  long step(long);
};
}  // namespace

int square(int x);
int overloaded(int);
int overloaded(double);
template <class T>
int of_any(T);
void fill(int& out);
void fill_second(int, std::string& out);
std::string joined(const std::string&, int, double);
int size_of(std::vector<int>);
int twice(const std::string& x);
int thrice(std::int16_t);
double half(double, bool);
int tripled(char);
int quadrupled(int, char);
int of_tensor(const at::Tensor&, int);
int named(int, int);
int step_of(model&, int);
int without_value();
void read_into(model&, std::vector<double>& out);
int train(int rounds, double rate, std::string note);
TROUPE_DEFAULTS(&train, 0.1, "none")
int worst(int, double);
TROUPE_DEFAULTS(&worst, 1, 2.0, 3)
int bad_value(int, std::string);
TROUPE_DEFAULTS(&bad_value, 7)

void all_of_these_compile(const troupe::node& node, const troupe::rref<model>& r,
                          const troupe::rref<at::Tensor>& t) {
  node.rpc_sync<square>(1, 7);
  node.rpc_sync<&square>(1, short{7}, troupe::timeout(1s), troupe::no_wait);
  node.rpc_sync<static_cast<int (*)(double)>(overloaded)>("worker1", 7);
  node.rpc_sync<of_any<int>>(1, 7);
  node.rpc_sync(
      1, [](int x) { return x; }, 7);
  node.rpc_sync<int(int)>(1, "square", 7);
  node.rpc_sync<int(int)>(1, "square", node.rpc_async<square>(1, 2));
  node.remote<at::Tensor(at::Tensor)>(1, "twice", t);
  node.remote<at::Tensor>(1, "aten::relu", t);
  node.rpc_sync<of_tensor>(1, node.remote(1, "aten::relu", t), 2);
  node.rpc_sync<of_tensor>(1, t, node.rpc_async<square>(1, 2));
  node.rpc_sync(1, "aten::add", at::Tensor(), at::Tensor());
  node.remote<std::string>(1, 3, 'x');
  node.remote<std::vector<int>>(1, std::vector<int>{1});
  node.rpc_sync<train>(1, 3);
  node.rpc_sync<train>(1, 3, 0.5, troupe::timeout(1s));
  node.remote<train>(1, 3, 0.5, "all");
  r.rpc_sync<&model::step>(7);
  r.rpc_sync<&step_of>(7);
  r.remote<static_cast<int (model::*)(double)>(&model::fit)>(7);
  node.make_rref(std::make_shared<model>()).rpc_sync<&model::step>(7);
}

// error: no matching function for call to 'troupe::node::rpc_sync<overloaded>
// also: to type 'troupe::name_the_overload_with_static_cast'
void of_an_overloaded_function(const troupe::node& node) { node.rpc_sync<overloaded>(1, 2); }

// error: no matching function for call to 'troupe::node::rpc_async<overloaded>
// also: to type 'troupe::name_the_overload_with_static_cast'
void of_an_overloaded_function_later(const troupe::node& node) { node.rpc_async<overloaded>(1, 2); }

// error: no matching function for call to 'troupe::node::remote<overloaded>
// also: to type 'troupe::name_the_overload_with_static_cast'
void overloaded_on_a_remote_node(const troupe::node& node) { node.remote<overloaded>(1, 2); }

// error: no matching function for call to 'troupe::node::rpc_sync<of_any>
// also: to type 'troupe::name_the_overload_with_static_cast'
void of_a_template(const troupe::node& node) { node.rpc_sync<of_any>(1, 2); }

// error: a function is given as a template argument: rpc_sync<&f>("worker1", x), or
// rpc_sync<&T::f>(x) of an rref
void function_among_the_arguments(const troupe::node& node) { node.rpc_sync(1, square, 2); }

// error: a function is given as a template argument:
void function_pointer_among_the_arguments(const troupe::node& node) {
  node.rpc_async(1, &joined, 2);
}

// error: a function is given as a template argument:
void member_function_among_the_arguments(const troupe::node& node) {
  node.remote("worker1", &model::step, 2);
}

// error: a lambda that another node calls captures nothing: what it needs are arguments of the call
void lambda_with_a_capture(const troupe::node& node, int k) {
  node.rpc_sync(
      1, [k](int x) { return x + k; }, 2);
}

// error: a lambda that another node calls captures nothing:
void lambda_with_a_capture_later(const troupe::node& node, int k) {
  node.rpc_async(
      1, [&](int x) { return x + k; }, 2);
}

// error: a lambda that another node calls captures nothing:
void lambda_with_a_capture_whose_result_stays(const troupe::node& node, int k) {
  node.remote(1, [k] { return k; });
}

// error: a lambda that another node calls captures nothing:
void function_object(const troupe::node& node, std::function<int(int)> f) {
  node.rpc_sync(1, f, 2);
}

// error: a lambda that another node calls has no auto among its parameters
void lambda_of_any(const troupe::node& node) {
  node.rpc_sync(
      1, [](auto x) { return x; }, 2);
}

// error: a call takes a function as a template argument, rpc_sync<&f>("worker1", x), or a lambda or
// the name of an operator after the callee
void nothing_to_call(const troupe::node& node) { node.rpc_sync(1, 7); }

// error: the function has an output parameter, a reference that is not const, and the caller would
// not see what is written there: return the result instead
void output_parameter(const troupe::node& node, int out) { node.rpc_sync<fill>(1, out); }

// error: the function has an output parameter,
void second_parameter_is_output(const troupe::node& node, std::string out) {
  node.remote<fill_second>(1, 2, out);
}

// error: the call has too few arguments for the function: those that may be left out are named by
// TROUPE_DEFAULTS(&f, values...)
void too_few(const troupe::node& node) { node.rpc_sync<square>(1); }

// error: the call has too few arguments for the function:
void too_few_with_options(const troupe::node& node) {
  node.rpc_async<joined>(1, "a", troupe::timeout(1s));
}

// error: the call has too few arguments for the function:
void too_few_whose_result_stays(const troupe::node& node) { node.remote<half>(1, 2.0); }

// error: the call has too few arguments for the function:
void fewer_than_have_defaults(const troupe::node& node) { node.rpc_sync<train>(1); }

// error: the call has too many arguments for the function
void too_many(const troupe::node& node) { node.rpc_sync<square>(1, 2, 3); }

// error: the call has too many arguments for the function
void too_many_whose_result_stays(const troupe::node& node) { node.remote<twice>(1, "a", "b"); }

// error: the call has too many arguments for the function
void too_many_beside_defaults(const troupe::node& node) {
  node.rpc_sync<train>(1, 3, 0.1, "none", 4);
}

// error: an argument of the call does not convert to the function's parameter
void text_for_a_number(const troupe::node& node) { node.rpc_sync<square>(1, std::string("x")); }

// error: an argument of the call does not convert to the function's parameter
void arguments_in_another_order(const troupe::node& node) {
  node.rpc_async<quadrupled>(1, at::Tensor(), 'a');
}

// error: an argument of the call does not convert to the function's parameter
void number_for_a_list(const troupe::node& node) { node.remote<size_of>(1, 7); }

// error: an argument of the call does not convert to the function's parameter
void future_of_another_type(const troupe::node& node, troupe::future<std::string> text) {
  node.rpc_sync<thrice>(1, text);
}

// error: an argument of the call does not convert to the function's parameter
void rref_of_another_type(const troupe::node& node, troupe::rref<model> text) {
  node.rpc_sync<tripled>(1, text);
}

// error: timeout, priority, no_wait and retry must follow the call's arguments
void option_in_front(const troupe::node& node) {
  node.rpc_sync<half>(1, troupe::timeout(1s), 2.0, true);
}

// error: timeout, priority, no_wait and retry must follow the call's arguments
void option_in_front_of_a_constructor(const troupe::node& node) {
  node.remote<std::string>(1, troupe::timeout(1s), 3, 'x');
}

// error: the type has no constructor for these arguments
void no_such_constructor(const troupe::node& node) { node.remote<std::string>(1, at::Tensor()); }

// error: a member function is called on an rref: r.rpc_sync<&T::f>(x)
void member_function_of_nothing(const troupe::node& node) { node.rpc_sync<&model::step>(1, 2); }

// error: a member function is called on an rref: r.remote<&T::f>(x)
void member_function_of_nothing_stays(const troupe::node& node) { node.remote<&model::step>(1, 2); }

// error: retry may run a function twice: say that this one is made for it, with
// TROUPE_IDEMPOTENT(&f) outside of all namespaces and before the call
void retry_of_any_function(const troupe::node& node) {
  node.rpc_sync<twice>(1, "x", troupe::retry(3));
}

// error: retry is for calls of functions, rpc_sync and rpc_async of a node
void retry_whose_result_stays(const troupe::node& node) {
  node.remote<twice>(1, "x", troupe::retry(3));
}

// error: the call has too few arguments for the function:
void too_few_by_name(const troupe::node& node) { node.rpc_sync<int(unsigned)>(1, "square"); }

// error: the call has too many arguments for the function
void too_many_by_name(const troupe::node& node) { node.remote<int(char)>(1, "square", 'a', 2); }

// error: an argument of the call does not convert to the function's parameter
void text_for_a_number_by_name(const troupe::node& node) {
  node.rpc_async<double(float)>(1, "half", "x");
}

// error: an rref passed to a function called by name must have exactly the parameter's type
void rref_of_another_number_by_name(const troupe::node& node, troupe::rref<float> x) {
  node.rpc_async<long(long)>(1, "square", x);
}

// error: the name of a function, after the callee, must be a string literal:
// rpc_sync<int(int)>("worker1", "square", 7)
void name_that_is_no_literal(const troupe::node& node, std::string name) {
  node.rpc_sync<int(int)>(1, name, 7);
}

// error: no matching function for call to 'register_function<overloaded>
// also: to type 'troupe::name_the_overload_with_static_cast'
TROUPE_FUNCTION(overloaded)

// error: the function has an output parameter,
TROUPE_FUNCTION_AS("read", read_into)

// error: only a function can be registered by a name: no lambda, no member function
TROUPE_FUNCTION_AS("step", &model::step)

// error: TROUPE_DEFAULTS has more values than the function has parameters
void more_defaults_than_parameters(const troupe::node& node) { node.rpc_sync<worst>(1, 2, 3.0); }

// error: a value of TROUPE_DEFAULTS does not convert to the function's parameter
void default_of_another_type(const troupe::node& node) { node.rpc_sync<bad_value>(1, 2); }

// error: no matching function for call to 'troupe::rref<{anonymous}::model>::rpc_sync<
// also: to type 'troupe::name_the_overload_with_static_cast'
void of_an_overloaded_member(const troupe::rref<model>& r) { r.rpc_sync<&model::fit>(2); }

// error: the call has too few arguments for the function:
void too_few_of_a_member(const troupe::rref<model>& r) { r.rpc_sync<&model::step>(); }

// error: the call has too many arguments for the function
void too_many_of_a_member(const troupe::rref<model>& r) { r.remote<&model::step>(1, 2); }

// error: an argument of the call does not convert to the function's parameter
void text_for_a_number_of_a_member(const troupe::rref<model>& r) {
  r.rpc_async<&model::loss>(at::Tensor(), "x");
}

// error: the member function belongs neither to the class of the rref's value nor to what it points
// to
void member_of_another_class(const troupe::rref<model>& r) { r.rpc_sync<&other::step>(2); }

// error: a function that is called on an rref takes the value first, as a T&
void function_of_something_else(const troupe::rref<model>& r) { r.rpc_sync<square>(); }

// error: a function that is called on an rref takes the value first, as a T&
void function_of_nothing(const troupe::rref<model>& r) { r.remote<without_value>(); }

// error: the function has an output parameter,
void output_behind_the_value(const troupe::rref<model>& r) {
  r.rpc_sync<read_into>(std::vector<double>());
}

// error: only a function, a lambda without captures or a member function of an rref's value can be
// called from another node, as in rpc_sync<&f>("worker1", x)
void data_member(const troupe::rref<model>& r) { r.rpc_sync<&model::weights>(); }

// error: to_here takes options only
void to_here_of_something(const troupe::rref<at::Tensor>& r) { r.to_here(7); }

// error: a value that cannot be copied stays where it is: call its functions there
void copy_of_what_cannot_be_copied(const troupe::rref<std::unique_ptr<int>>& r) { r.to_here(); }
