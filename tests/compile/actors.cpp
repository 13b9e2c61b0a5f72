// Actors, requests and coroutines that must not compile: see check.py.
#include <string>
#include <troupe/troupe.hpp>

// compiles
struct question {
  int x;
};
TROUPE_MESSAGE(question, x)
struct note {
  int x;
};
TROUPE_MESSAGE(note, x)
struct unknown {
  int x;
};
TROUPE_MESSAGE(unknown, x)

using oracle = troupe::actor<troupe::answers<question, int>>;
using clerk = troupe::actor<troupe::answers<question, int>, troupe::accepts<note>>;

int square(int x);
oracle::behavior_type alone() {
  return {[](const question& q) { return q.x; }};
}
oracle::behavior_type with_number(oracle::pointer, int) {
  return {[](const question& q) { return q.x; }};
}
oracle::behavior_type with_text(std::string) {
  return {[](const question& q) { return q.x; }};
}
oracle::behavior_type with_output(oracle::pointer, double&);
oracle::behavior_type overloaded(int);
oracle::behavior_type overloaded(double);
clerk::behavior_type all_handlers() {
  return {[](const note&) {}, [](const question& q) { return q.x; }};
}

class seer : public oracle::base {
public:
  seer(caf::actor_config& config, int x) : oracle::base(config), x_(x) {}
  oracle::behavior_type make_behavior() override {
    return {[this](const question&) { return x_; }};
  }

private:
  const int x_;
};
class last_seer final : public oracle::base {
public:
  explicit last_seer(caf::actor_config& config) : oracle::base(config) {}
  oracle::behavior_type make_behavior() override { return alone(); }
};

void all_of_these_compile(const troupe::node& node, const oracle& o, const clerk& c) {
  troupe::request(o, question{1}, troupe::no_wait).get();
  troupe::send(c, note{1});
  node.spawn(alone);
  node.spawn(with_number, 2);
  node.spawn(with_text, "x");
  node.spawn([o](oracle::pointer) { return alone(); });
  node.spawn<seer>(2);
  node.spawn_on<with_number>(1, 2);
  node.spawn_on<seer>(1, 2, troupe::no_wait);
}
troupe::task<int> compiles(oracle o, troupe::rref<int> r, troupe::node node) {
  co_await node.sleep_for(std::chrono::seconds(1));
  co_await std::suspend_never();
  co_return co_await troupe::request(o, question{1}) + co_await r.to_here_async();
}
troupe::task<> waits_for_a_task(oracle o, troupe::rref<int> r, troupe::node node) {
  auto first = compiles(o, r, node);
  co_await first;
  co_await compiles(o, r, node);
}

// error: this actor does not know such a message: its interface, actor<answers<...>, accepts<...>>,
// does not name the type
void request_of_an_unknown_message(const oracle& o) { troupe::request(o, unknown{}).get(); }

// error: this actor does not know such a message:
void request_of_two_messages(const oracle& o) { troupe::request(o, question{1}, question{2}); }

// error: this actor does not know such a message:
void request_of_nothing(const oracle& o) { troupe::request(o); }

// error: this actor does not know such a message:
void sending_an_unknown_message(const clerk& c) { troupe::send(c, unknown{}); }

// error: request takes an actor handle, as returned by spawn
void request_to_a_number() { troupe::request(7, question{1}); }

// error: request takes an actor handle, as returned by spawn
void request_to_a_pointer(oracle::pointer self) { troupe::request(self, question{1}); }

// error: send takes an actor handle, as returned by spawn
void sending_to_a_node(const troupe::node& node) { troupe::send(node, question{1}); }

// error: retry applies only to calls of functions
void request_with_a_retry(const oracle& o) { troupe::request(o, question{1}, troupe::retry(3)); }

// error: retry applies only to calls of functions
void sending_with_a_retry(const oracle& o) { troupe::send(o, question{1}, troupe::retry(3)); }

// error: a handler returns another type than its actor's interface says, answers<Question, Answer>,
// or returns one where that is accepts<Message>
oracle::behavior_type handler_with_another_result() {
  return {[](const question&) { return std::string(); }};
}

// error: a handler returns another type than its actor's interface says,
oracle::behavior_type handler_without_a_result() {
  return {[](question& q) { q.x = 1; }};
}

// error: a handler returns another type than its actor's interface says,
clerk::behavior_type second_handler_with_a_result() {
  return {[](const question&) { return 1; }, [](const note&) { return 1; }};
}

// error: a handler takes a message that its actor's interface does not name, or that another
// handler takes already
oracle::behavior_type handler_of_an_unknown_message() {
  return {[](const unknown&) { return 1; }};
}

// error: a handler takes a message that its actor's interface does not name,
clerk::behavior_type two_handlers_of_a_message() {
  return {[](const question&) { return 1; }, [](const question&) { return 2; }};
}

// error: a handler that is a coroutine takes its message by value: it may go on when the message is
// gone
oracle::behavior_type coroutine_with_a_reference() {
  return {[](const question& q) -> troupe::task<int> { co_return q.x; }};
}

// error: a handler returns another type than its actor's interface says,
oracle::behavior_type coroutine_with_another_result() {
  return {[](question) -> troupe::task<double> { co_return 1; }};
}

// error: not enough message handlers
clerk::behavior_type handler_left_out() {
  return {[](const question&) { return 1; }};
}

// error: spawn takes a behaviour function, or a lambda without auto among its parameters, and its
// arguments; or an actor class, spawn<T>(arguments...)
void spawning_a_number(const troupe::node& node) { node.spawn(7); }

// error: spawn takes a behaviour function, or a lambda without auto among its parameters,
void spawning_a_lambda_of_any(const troupe::node& node) {
  node.spawn([](auto) { return alone(); }, 2);
}

// error: a behaviour function returns its actor's behavior_type
void spawning_any_function(const troupe::node& node) { node.spawn(square, 2); }

// error: the arguments do not fit the behaviour function's parameters, which are values or const
// references after the pointer to the actor
void too_few_arguments_of_a_behaviour(const troupe::node& node) { node.spawn(with_number); }

// error: the arguments do not fit the behaviour function's parameters,
void too_many_arguments_of_a_behaviour(const troupe::node& node) { node.spawn(alone, 2); }

// error: the arguments do not fit the behaviour function's parameters,
void text_for_a_number(const troupe::node& node) { node.spawn(with_number, std::string()); }

// error: the arguments do not fit the behaviour function's parameters,
void output_of_a_behaviour(const troupe::node& node, double x) { node.spawn(with_output, x); }

// error: the actor class has no constructor for these arguments, after a caf::actor_config&
void too_few_arguments_of_a_class(const troupe::node& node) { node.spawn<seer>(); }

// error: the actor class has no constructor for these arguments,
void text_for_a_number_of_a_class(const troupe::node& node) { node.spawn<seer>("x"); }

// error: the actor class has no constructor for these arguments,
void too_many_arguments_of_a_class_there(const troupe::node& node) { node.spawn_on<seer>(1, 2, 3); }

// error: an actor class must not be final: Troupe derives from it, so that its exceptions are
// answered and it works in the requester's autograd context
void final_class(const troupe::node& node) { node.spawn<last_seer>(); }

// error: a behaviour function returns its actor's behavior_type
void spawning_a_function_there(const troupe::node& node) {
  node.spawn_on<static_cast<double (*)(double)>(nullptr)>(1, 2.0);
}

// error: the call has too few arguments for the function:
void too_few_arguments_there(const troupe::node& node) { node.spawn_on<with_number>(1); }

// error: an argument of the call does not convert to the function's parameter
void number_for_a_text_there(const troupe::node& node) { node.spawn_on<with_text>(1, 7); }

// error: no matching function for call to 'troupe::node::spawn_on<overloaded>
// also: to type 'troupe::name_the_overload_with_static_cast'
void overloaded_behaviour_there(const troupe::node& node) { node.spawn_on<overloaded>(1, 2); }

// error: spawn_on takes the behaviour function as a template argument: spawn_on<&serve>("worker1",
// arguments...)
void behaviour_among_the_arguments(const troupe::node& node) { node.spawn_on(1, with_text, "x"); }

// error: spawn_on takes the behaviour function as a template argument:
void lambda_there(const troupe::node& node, int x) {
  node.spawn_on(1, [x] { return with_text(std::to_string(x)); });
}

// error: co_await takes a future, a task or another awaitable: of an rref to_here_async(), of an
// actor request(handle, message)
troupe::task<int> waits_for_a_number() { co_return co_await 3; }

// error: co_await takes a future, a task or another awaitable:
troupe::task<> waits_for_an_actor(oracle o) { co_await o; }

// error: co_await takes a future, a task or another awaitable:
troupe::task<int> waits_for_an_rref(troupe::rref<int> r) { co_return co_await r; }

// error: what the coroutine returns does not convert to the value of its task
troupe::task<int> returns_a_text() { co_return std::string(); }

// error: a continuation takes the future's value (nothing, of a future<void>), or the future itself
void continuation_of_something_else(const troupe::future<int>& f) {
  f.then([](const std::string& text) { return text; });
}

// error: what a coroutine calls after its first co_await is not seen by wait_all: use co_await
// when_all(futures) there
void waiting_for_all_of_a_coroutine(const oracle& o, const troupe::rref<int>& r,
                                    const troupe::node& node) {
  troupe::wait_all([&] { return compiles(o, r, node); });
}
